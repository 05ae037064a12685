"""The checks of which the kinds' validation is made: each yields what is wrong with one field.

Paths and messages are upstream's. Source: apimachinery pkg/util/validation and api/validation;
kubernetes pkg/apis/core/validation.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Any

from shepherd.api.errors import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from shepherd.api.names import label_value, qualified_name
from shepherd.api.quantity import Quantity, QuantityError, quantity
from shepherd.api.resource import Object

Errors = Iterator[FieldError]
Rule = Callable[[str], list[str]]

NOT_NEGATIVE = "must be greater than or equal to 0"
IMMUTABLE = "field is immutable"
NO_EFFECT = "accepted, and not acted on by this version of Shepherd"
"""What a warning says of a field that is kept and has no effect yet."""
PROTOCOLS = ("SCTP", "TCP", "UDP")
_MAX_INT32 = 2**31 - 1


def text(path: str, value: str, rule: Rule) -> Errors:
    """What a rule of `api.names` finds; an empty text passes."""
    if value:
        for problem in rule(value):
            yield invalid_value(path, value, problem)


def needed(path: str, value: object, rule: Rule | None = None) -> Errors:
    """A text that must be there, and fit a rule if there is one."""
    if not value:
        yield required(path)
    elif rule and isinstance(value, str):
        yield from text(path, value, rule)


def one_of(path: str, value: str | None, allowed: Collection[str]) -> Errors:
    """One of a fixed set; absent passes."""
    if value and value not in allowed:
        yield not_supported(path, value, sorted(allowed))


def at_least(path: str, value: object, low: int = 0) -> Errors:
    """A number that must not be smaller; absent passes."""
    if isinstance(value, int) and value < low:
        detail = NOT_NEGATIVE if low == 0 else f"must be greater than {low - 1}"
        yield invalid_value(path, value, detail)


def between(path: str, value: object, low: int, high: int = _MAX_INT32) -> Errors:
    """A number within limits; absent passes."""
    if isinstance(value, int) and not low <= value <= high:
        yield invalid_value(path, value, f"must be between {low} and {high}, inclusive")


def port_number(path: str, value: object) -> Errors:
    return between(path, value, 1, 65535)


def port_or_name(path: str, value: object, rule: Rule) -> Errors:
    """A port's number, or the name of one."""
    if isinstance(value, str):
        yield from needed(path, value, rule)
    else:
        yield from port_number(path, value or 0)


def unique(path: str, value: str, seen: set[str]) -> Errors:
    """A value that none of `seen` may equal; it joins them."""
    if value and value in seen:
        yield duplicate(path, value)
    seen.add(value)


def absent(path: str, value: object, detail: str) -> Errors:
    """A field that must not be set here."""
    if value:
        yield forbidden_field(path, detail)


def unknown(path: str, value: str) -> FieldError:
    """A reference to something that the object does not have."""
    return FieldError("FieldValueNotFound", path, f'Not found: "{value}"')


def immutable(path: str, new: object, old: object) -> Errors:
    if new != old:
        yield invalid_value(path, new, IMMUTABLE)


def labels(path: str, value: Object | None) -> Errors:
    """Keys and values of labels, or of a selector of the plain kind."""
    for key, label in (value or {}).items():
        yield from text(path, key, qualified_name)
        if isinstance(label, str):
            yield from text(path, label, label_value)


def label_selector(path: str, selector: Object | None) -> Errors:
    """A meta/v1 LabelSelector."""
    if not selector:
        return
    yield from labels(f"{path}.matchLabels", selector.get("matchLabels"))
    for index, item in enumerate(selector.get("matchExpressions") or ()):
        at = f"{path}.matchExpressions[{index}]"
        operator, values = item.get("operator"), item.get("values") or []
        if operator in ("In", "NotIn"):
            if not values:
                detail = "must be specified when `operator` is 'In' or 'NotIn'"
                yield required(f"{at}.values", detail)
        elif operator in ("Exists", "DoesNotExist"):
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield from absent(f"{at}.values", values, detail)
        else:
            yield invalid_value(f"{at}.operator", operator or "", "not a valid selector operator")
        yield from needed(f"{at}.key", item.get("key"), qualified_name)
        for position, value in enumerate(values):
            yield from text(f"{at}.values[{position}]", value, label_value)


def amount(value: Any) -> Quantity | None:
    """A quantity, or None for what is none."""
    try:
        return quantity(value)
    except (QuantityError, TypeError):
        return None


def valid_amount(path: str, value: Any) -> Errors:
    """A quantity that is not negative."""
    try:
        if quantity(value).nano < 0:
            yield invalid_value(path, str(value), NOT_NEGATIVE)
    except (QuantityError, TypeError) as error:
        yield invalid_value(path, str(value), str(error))


def quantities(path: str, values: Object | None) -> Errors:
    """A resource list."""
    for name, value in (values or {}).items():
        yield from valid_amount(f"{path}[{name}]", value)


def ip_address(path: str, value: str) -> Errors:
    """An IPv4 or IPv6 address in its usual form."""
    from ipaddress import ip_address as parse

    try:
        parse(value)
    except ValueError:
        detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        yield invalid_value(path, value, detail)


def relative_path(path: str, value: str) -> Errors:
    """A path inside something, from which it cannot climb out."""
    if value.startswith("/"):
        yield invalid_value(path, value, "must be a relative path")
    yield from no_climbing(path, value)


def no_climbing(path: str, value: str) -> Errors:
    if ".." in value.split("/"):
        yield invalid_value(path, value, "must not contain '..'")
