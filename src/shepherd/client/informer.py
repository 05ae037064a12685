"""`Informer`: a local, typed, always fresh copy of a kind, kept by list and watch.

Source of the shape: client-go tools/cache (Reflector, SharedInformer).
"""

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from shepherd.api.resource import Resource
from shepherd.client.base import Client
from shepherd.lib.clock import Clock

T = TypeVar("T")
Handler = Callable[[T | None, T | None], None]
"""Called with (old, new): (None, new) added, (old, new) changed, (old, None) gone. Must be quick
and must not raise."""


class Informer(Generic[T]):
    """Keeps every object of `resource` (that the selectors choose) as a `T`.

    `run` lists, watches and re-lists for ever; it never raises for a server that is away or a watch
    that expired, but backs off with jitter and goes on. Handlers see each object's changes in
    order, and after a re-list the differences only.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        as_type: type[T],
        *,
        clock: Clock,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
    ) -> None:
        raise NotImplementedError

    def on_change(self, handler: Handler[T]) -> None:
        """Add a handler; it is told of everything already known as added."""
        raise NotImplementedError

    def index(self, name: str, key: Callable[[T], list[str]]) -> None:
        """Keep an index; declare it before `run`."""
        raise NotImplementedError

    async def run(self) -> None:
        raise NotImplementedError

    async def synced(self) -> None:
        """Return once the first list is in."""
        raise NotImplementedError

    def get(self, key: str) -> T | None:
        """By `namespace/name` or `name`."""
        raise NotImplementedError

    def all(self) -> Iterator[T]:
        raise NotImplementedError

    def by_index(self, name: str, value: str) -> list[T]:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError
