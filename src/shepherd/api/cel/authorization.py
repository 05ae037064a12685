"""`authorizer` in expressions: whether somebody may do something.

Expressions are evaluated at once, and to decide takes the event loop. So an evaluation that asks
what is not decided yet fails; what it asked is decided, and it is evaluated again. Source:
apiserver pkg/cel/library/authz.go.
"""

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

_AUTHORIZER, _CHECK, _DECISION = "@authorizer", "@check", "@decision"
FIELDS = ("group", "resource", "subresource", "namespace", "name")


@dataclass(frozen=True, slots=True)
class Question:
    """May somebody do this?"""

    verb: str
    account: str = ""
    """`<namespace>/<name>` of a service account; empty: who makes the request."""
    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


@dataclass(slots=True)
class Decisions:
    """What is decided, and what an evaluation found that is not."""

    known: dict[Question, tuple[bool, str]] = field(default_factory=dict)
    """Whether it is allowed, and why."""
    wanted: list[Question] = field(default_factory=list)


DECISIONS: ContextVar[Decisions] = ContextVar("decisions")
"""Those of the evaluation that is under way."""


def authorizer(request: Mapping[str, str]) -> Any:
    """The value of `authorizer`; `request` has the FIELDS of what is asked for."""
    return _whose("") | {"requestResource": {_CHECK: {"account": ""} | dict(request)}}


def _whose(account: str) -> Any:
    return {_AUTHORIZER: {"account": account}}


def service_account(of: Any, namespace: str, name: str) -> Any:
    _content(of, _AUTHORIZER)
    return _whose(f"{namespace}/{name}")


def narrowed(part: str) -> Any:
    """What begins a check (`group`, `path`), or narrows it down."""
    before = _AUTHORIZER if part in ("group", "path") else _CHECK
    return lambda of, value: {_CHECK: _content(of, before) | {part: value}}


def check(of: Any, verb: str) -> Any:
    question = Question(verb, **_content(of, _CHECK))
    decisions = DECISIONS.get()
    if question not in decisions.known:
        decisions.wanted.append(question)
        raise ValueError("it is not decided yet")
    allowed, reason = decisions.known[question]
    return {_DECISION: {"allowed": allowed, "reason": reason}}


def told(what: str) -> Any:
    """A part of a decision."""
    return lambda of: _content(of, _DECISION)[what]


def _content(value: Any, kind: str) -> Any:
    if not isinstance(value, dict) or kind not in value:
        raise ValueError("no such overload")
    return value[kind]
