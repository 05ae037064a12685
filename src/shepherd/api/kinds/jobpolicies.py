"""What a Job's failure and success policies must be.

Source: kubernetes pkg/apis/batch/validation, validatePodFailurePolicy and validateSuccessPolicy.
"""

from typing import Any

from shepherd.api.errors import duplicate, invalid_value, required, too_long, too_many
from shepherd.api.indexes import Indexes
from shepherd.api.kinds.checks import Errors, at_least, needed, one_of
from shepherd.api.names import qualified_name
from shepherd.api.resource import Object

_MAX_RULES = 20
_MAX_CONDITIONS = 20
_MAX_EXIT_CODES = 255
_MAX_INDEXES_TEXT = 64 * 1024
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_STATUSES = ("False", "True", "Unknown")


def validate_failure_policy(spec: Object, path: str) -> Errors:
    """`spec` is the job's."""
    rules = (spec.get("podFailurePolicy") or {}).get("rules") or []
    if len(rules) > _MAX_RULES:
        yield too_many(f"{path}.rules", len(rules), _MAX_RULES)
        return
    pod = (spec.get("template") or {}).get("spec") or {}
    containers = [*(pod.get("containers") or ()), *(pod.get("initContainers") or ())]
    names = {container.get("name") for container in containers}
    for number, rule in enumerate(rules):
        at, action = f"{path}.rules[{number}]", rule.get("action")
        if not action:
            yield required(f"{at}.action", _valid(_ACTIONS))
        elif action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
            detail = "requires the backoffLimitPerIndex to be set"
            yield invalid_value(f"{at}.action", action, detail)
        yield from one_of(f"{at}.action", action, _ACTIONS)
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions") or []
        if codes is not None:
            yield from _validate_codes(codes, names, f"{at}.onExitCodes")
        yield from _validate_conditions(conditions, f"{at}.onPodConditions")
        if bool(conditions) == (codes is not None):
            both = "specifying both OnExitCodes and OnPodConditions is not supported"
            neither = "specifying one of OnExitCodes and OnPodConditions is required"
            yield invalid_value(at, None, both if conditions else neither)


def _validate_codes(codes: Object, names: set[Any], path: str) -> Errors:
    operator, values = codes.get("operator"), codes.get("values") or []
    if not operator:
        yield required(f"{path}.operator", _valid(("In", "NotIn")))
    yield from one_of(f"{path}.operator", operator, ("In", "NotIn"))
    container = codes.get("containerName")
    if container is not None and container not in names:
        detail = "must be one of the container or initContainer names in the pod template"
        yield invalid_value(f"{path}.containerName", container, detail)
    at = f"{path}.values"
    if not values:
        yield invalid_value(at, values, "at least one value is required")
    if len(values) > _MAX_EXIT_CODES:
        yield too_many(at, len(values), _MAX_EXIT_CODES)
        return
    for number, value in enumerate(values):
        if operator == "In" and value == 0:
            yield invalid_value(f"{at}[{number}]", value, "must not be 0 for the In operator")
        if value in values[:number]:
            yield duplicate(f"{at}[{number}]", value)
    if values != sorted(values):
        yield invalid_value(at, values, "must be ordered")


def _validate_conditions(patterns: list[Object], path: str) -> Errors:
    if len(patterns) > _MAX_CONDITIONS:
        yield too_many(path, len(patterns), _MAX_CONDITIONS)
        return
    for number, pattern in enumerate(patterns):
        at = f"{path}[{number}]"
        yield from needed(f"{at}.type", pattern.get("type"), qualified_name)
        yield from one_of(f"{at}.status", pattern.get("status"), _STATUSES)


def validate_success_policy(spec: Object, path: str) -> Errors:
    """`spec` is the job's, whose completions are numbered."""
    rules = (spec.get("successPolicy") or {}).get("rules") or []
    if not rules:
        detail = "at least one rules must be specified when the successPolicy is specified"
        yield required(f"{path}.rules", detail)
    if len(rules) > _MAX_RULES:
        yield too_many(f"{path}.rules", len(rules), _MAX_RULES)
        return
    for number, rule in enumerate(rules):
        yield from _validate_success(rule, spec.get("completions") or 0, f"{path}.rules[{number}]")


def _validate_success(rule: Object, completions: int, path: str) -> Errors:
    text, count = rule.get("succeededIndexes"), rule.get("succeededCount")
    if text is None and count is None:
        yield required(path, "at least one of succeededCount or succeededIndexes must be specified")
    most, what = completions, "specified completions"
    if text is not None:
        at, what = f"{path}.succeededIndexes", "indexes in the specified succeededIndexes field"
        if len(text) > _MAX_INDEXES_TEXT:
            yield too_long(at, _MAX_INDEXES_TEXT)
            return
        try:
            most = _named(text, completions)
        except ValueError as error:
            yield invalid_value(at, text[:100], f"error parsing succeededIndexes: {error}")
    if count is not None:
        at = f"{path}.succeededCount"
        yield from at_least(at, count)
        if count > most:
            detail = f"must be less than or equal to {most} (the number of {what})"
            yield invalid_value(at, count, detail)


def _named(text: str, completions: int) -> int:
    """How many indexes the text names. Raises ValueError."""
    found = Indexes.parse(text)
    if found.spans and found.spans[-1].stop > completions:
        raise ValueError(f'too large index: "{found.spans[-1].stop - 1}"')
    return found.total


def _valid(values: tuple[str, ...]) -> str:
    return "valid values: [" + " ".join(f'"{value}"' for value in values) + "]"
