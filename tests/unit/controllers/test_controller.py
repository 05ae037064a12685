"""The generic controller, ownership and collection: rules without an API."""

import asyncio
import logging
from itertools import pairwise
from random import Random

import pytest

from shepherd.api.errors import unavailable
from shepherd.api.objects import ObjectMeta, OwnerReference
from shepherd.api.selectors import parse_selector
from shepherd.client.informer import PartialObject
from shepherd.client.workqueue import WorkQueue
from shepherd.controllers.attention import Attention
from shepherd.controllers.controller import Controller
from shepherd.controllers.garbage_collector import Owners, Verdict, judge
from shepherd.controllers.ownership import claims, owners_patch
from shepherd.lib.tasks import cancel_and_wait
from shepherd.testing.virtual import VirtualClock, run_virtual


class Flaky:
    """Fails as often as told, then succeeds, and notes when it was called."""

    name = "flaky"

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.calls: list[float] = []
        self.again: float | None = None

    def connect(self, queue: WorkQueue) -> None:
        queue.add("key")

    async def reconcile(self, key: str) -> float | None:
        self.calls.append(asyncio.get_running_loop().time())
        if self.failures:
            raise self.failures.pop(0)
        return self.again


def run(reconciler: Flaky, seconds: float) -> Controller:
    async def main() -> Controller:
        controller = Controller(reconciler, clock=VirtualClock(), random=Random(1))
        task = asyncio.ensure_future(controller.run())
        await asyncio.sleep(seconds)
        await cancel_and_wait(task)
        return controller

    return run_virtual(main())


def test_failures_are_tried_again_ever_later_and_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, logger="shepherd")
    reconciler = Flaky(*[unavailable("not now")] * 8)
    controller = run(reconciler, 3600)
    gaps = [b - a for a, b in pairwise(reconciler.calls)]
    assert len(gaps) == 8
    assert all(later > earlier for earlier, later in pairwise(gaps))
    assert controller.errors == 8
    assert len(caplog.records) == 1
    assert "not now" in caplog.text


def test_what_an_odd_object_brings_about_harms_no_other_key() -> None:
    reconciler = Flaky(ValueError("odd"))
    assert run(reconciler, 60).errors == 1
    assert len(reconciler.calls) == 2


def test_a_reconciler_may_ask_to_be_called_again() -> None:
    reconciler = Flaky()
    reconciler.again = 10.0
    run(reconciler, 35)
    assert reconciler.calls == [0.0, 10.0, 20.0, 30.0]


def thing(name: str, label: str, owner: str = "", **meta: str) -> PartialObject:
    owners = [OwnerReference(uid=owner, controller=True)] if owner else []
    labels = {"app": label}
    return PartialObject(
        metadata=ObjectMeta(name=name, labels=labels, owner_references=owners, **meta)  # type: ignore[arg-type]
    )


def test_what_is_owned_adopted_and_released() -> None:
    leaving = "2026-01-01T00:00:00Z"
    candidates = [
        thing("mine", "web", "me"),
        thing("strayed", "other", "me"),
        thing("foreign", "web", "you"),
        thing("orphan", "web"),
        thing("dying orphan", "web", deletion_timestamp=leaving),
        thing("unrelated", "other"),
    ]

    def names(owner: ObjectMeta) -> list[list[str]]:
        found = claims(owner, parse_selector("app=web"), candidates)
        groups = (found.owned, found.adopt, found.release)
        return [[item.metadata.name for item in group] for group in groups]

    assert names(ObjectMeta(uid="me")) == [["mine"], ["orphan"], ["strayed"]]
    assert names(ObjectMeta(uid="me", deletion_timestamp=leaving)) == [["mine"], [], []]


def test_a_patch_of_owners_names_what_it_was_made_from() -> None:
    meta = thing("x", "web", "old").metadata
    meta.uid, meta.resource_version = "u", "7"
    patch = owners_patch(meta, add=[{"uid": "new"}], drop=["old"])["metadata"]
    assert patch == {"uid": "u", "resourceVersion": "7", "ownerReferences": [{"uid": "new"}]}


OWNER = OwnerReference(uid="o")


@pytest.mark.parametrize(
    ("owners", "finalizers", "dependents", "verdict"),
    [
        (Owners(solid=[OWNER]), [], False, Verdict()),
        (Owners(solid=[OWNER], dangling=[OWNER]), [], False, Verdict(drop=("o",))),
        (Owners(dangling=[OWNER]), [], True, Verdict(propagation="Background")),
        (Owners(dangling=[OWNER]), ["orphan"], True, Verdict(propagation="Orphan")),
        (Owners(waiting=[OWNER]), [], True, Verdict(propagation="Foreground")),
        (Owners(waiting=[OWNER]), [], False, Verdict(propagation="Background")),
        (Owners(), [], False, Verdict()),
    ],
)
def test_what_becomes_of_an_object_whose_owners_go(
    owners: Owners, finalizers: list[str], dependents: bool, verdict: Verdict
) -> None:
    assert judge(owners, finalizers, has_dependents=dependents) == verdict


def test_attention_starts_anew_after_a_break() -> None:
    class Clock(VirtualClock):
        time = 100.0

        def monotonic(self) -> float:
            return self.time

    clock = Clock()
    attention = Attention(clock)
    for clock.time in (102.0, 104.0, 106.0):
        assert attention.since() == 100.0
    clock.time = 200.0
    assert attention.since() == 200.0
    clock.time = 203.0
    assert attention.since() == 200.0


def test_a_rounding_error_before_its_time_does_not_spin() -> None:
    reconciler = Flaky()
    reconciler.again = 1e-15
    run(reconciler, 0.1)
    assert len(reconciler.calls) <= 101
