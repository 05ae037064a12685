"""`Recorder`: writes Events, folding repeats into one Event with a count.

Source of the shape: client-go tools/record (EventCorrelator).
"""

from shepherd.api.resource import Object
from shepherd.client.base import Client
from shepherd.lib.clock import Clock


class Recorder:
    """Records what happened to objects. Never blocks and never fails its caller.

    Events wait in a bounded queue that `run` drains; when it is full the oldest is dropped and a
    counter says how many. A repeat (same object, reason and message) patches the count and the
    last time of the Event that is there; a flood about one object is limited (client-go: a burst
    of 25, then one in five minutes).
    """

    def __init__(self, client: Client, component: str, *, clock: Clock, host: str = "") -> None:
        raise NotImplementedError

    def event(self, regarding: Object, type: str, reason: str, message: str) -> None:
        """`regarding`: {apiVersion, kind, metadata: {name, namespace, uid, resourceVersion}}, and
        `fieldPath` for a part of it; `type` is Normal or Warning."""
        raise NotImplementedError

    async def run(self) -> None:
        raise NotImplementedError
