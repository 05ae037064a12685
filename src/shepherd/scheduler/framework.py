"""The interfaces of scheduling plugins.

A plugin is asked once for each shape of pod what it demands (`filter`) or prefers (`score`), and
answers with functions of a node, or with nothing if that pod does not concern it. A new plugin is
one class in `plugins/` and one line in the table there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from shepherd.scheduler.cache import Cache, NodeInfo
from shepherd.scheduler.objects import Pod
from shepherd.scheduler.shape import PodInfo

MAX_SCORE = 1000
"""Scores go from 0 to this. Ten times as fine as upstream: on a big node a small pod is less than a
hundredth, and rounded away it would draw its like to one node."""


@dataclass(frozen=True, slots=True)
class Unfit:
    """Why a node cannot take a pod: the plugin, and the reason in upstream's words."""

    plugin: str
    reason: str


class Reach(IntEnum):
    """What the answer of a check or grade depends on. The narrower, the faster the decision."""

    NODE = 1
    """The node alone, and placing a pod on it makes no answer better: fit may become unfit, and the
    weighted sum of all such grades may fall. (`cycle.Ranking` lives on that.)"""
    DOMAIN = 2
    """The node's values of the labels in `keys`, and anything outside the node. Grades only."""
    CLUSTER = 3
    """Anything."""


@dataclass(frozen=True, slots=True)
class Check:
    """Whether a node can take the pod."""

    plugin: str
    test: Callable[[NodeInfo], Unfit | None]
    reach: Reach = Reach.NODE
    detail: Callable[[NodeInfo], str] | None = None
    """What stands against a node that fails, in figures and names. For people who ask: it may be
    slow."""


@dataclass(frozen=True, slots=True)
class Grade:
    """How well a node suits the pod: 0 to MAX_SCORE, times `weight`."""

    plugin: str
    score: Callable[[NodeInfo], int]
    weight: int = 1
    reach: Reach = Reach.NODE
    keys: tuple[str, ...] = ()


class FilterPlugin(Protocol):
    name: str

    def filter(self, pod: PodInfo, cache: Cache) -> list[Check]:
        """What `pod` demands; empty if nothing. Asked again only when the answer may differ."""
        ...


class ScorePlugin(Protocol):
    name: str

    def score(self, pod: PodInfo, cache: Cache) -> list[Grade]:
        """What `pod` prefers; empty if nothing."""
        ...


class GatePlugin(Protocol):
    name: str

    def gate(self, pod: Pod) -> Unfit | None:
        """Why a pod must not even be looked at yet (upstream: PreEnqueue)."""
        ...


@dataclass(frozen=True, slots=True)
class Profile:
    """The plugins in force. Filters run in this order, and the first that objects is the reason."""

    gates: tuple[GatePlugin, ...]
    filters: tuple[FilterPlugin, ...]
    scores: tuple[ScorePlugin, ...]

    def checks(self, pod: PodInfo, cache: Cache) -> list[Check]:
        """All that `pod` demands of a node."""
        return [check for plugin in self.filters for check in plugin.filter(pod, cache)]
