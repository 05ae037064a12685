"""The functions that Kubernetes adds to CEL: lists, quantities, URLs, addresses.

Values that CEL has no type for are maps with one key that names what they are, so that they pass
through the library, and equal values are equal. Left out are `find` and `findAll`, for which the
library's RE2 has no counterpart, `indexOf` of lists, whose name its strings have taken, and what
asks for authorization. Source: apiserver pkg/cel/library.
"""

import ipaddress
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from shepherd.api.quantity import NANO, Quantity, QuantityError, parse_quantity

_QUANTITY, _URL, _NETWORK = "@quantity", "@url", "@cidr"


class Function(NamedTuple):
    """One overload: the types that it takes and answers (bool, dyn, int, list, map, string)."""

    call: Callable[..., Any]
    takes: tuple[str, ...]
    answers: str
    member: bool = True


# -- lists -------------------------------------------------------------------------------------


def _is_sorted(items: list[Any]) -> bool:
    return all(one <= after for one, after in pairwise(items))


def _extreme(pick: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    def extreme(items: list[Any]) -> Any:
        if not items:
            raise ValueError("min/max called on empty list")
        return pick(items)

    return extreme


# -- quantities --------------------------------------------------------------------------------


def _is_quantity(text: str) -> bool:
    try:
        parse_quantity(text)
    except QuantityError:
        return False
    return True


def _quantity(text: str) -> Any:
    return {_QUANTITY: str(parse_quantity(text))}


def _amount(value: Any) -> Quantity:
    if type(value) is int:
        return Quantity(value * NANO)
    if not isinstance(value, dict) or _QUANTITY not in value:
        raise ValueError("no such overload: it is not a quantity")
    return parse_quantity(value[_QUANTITY])


def _compare(one: Any, other: Any) -> int:
    a, b = _amount(one).nano, _amount(other).nano
    return (a > b) - (a < b)


def _as_integer(value: Any) -> int:
    amount = _amount(value)
    if amount.nano % NANO:
        raise ValueError("cannot convert value to integer")
    return amount.value


# -- URLs and addresses ------------------------------------------------------------------------


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme) or text.startswith("/")


def _url(text: str) -> Any:
    if not _is_url(text):
        raise ValueError(f"URL parse error during conversion from string: {text!r}")
    return {_URL: text}


def _of_url(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: read(urlsplit(value[_URL]))


def _port(parts: Any) -> str:
    return str(parts.port or "")


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return "%" not in text


def _is_cidr(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" in text


def _cidr(text: str) -> Any:
    if not _is_cidr(text):
        raise ValueError(f"network address parse error during conversion from string: {text!r}")
    return {_NETWORK: text}


def _network(value: Any) -> Any:
    return ipaddress.ip_network(value[_NETWORK], strict=False)


def _contains_ip(value: Any, text: str) -> bool:
    return ipaddress.ip_address(text) in _network(value)


def _contains_cidr(value: Any, text: str) -> bool:
    outer, inner = _network(value), ipaddress.ip_network(text, strict=False)
    return outer.version == inner.version and inner.subnet_of(outer)


# -- sets --------------------------------------------------------------------------------------


def _contains(one: list[Any], other: list[Any]) -> bool:
    return all(item in one for item in other)


FUNCTIONS: dict[str, tuple[Function, ...]] = {
    "isSorted": (Function(_is_sorted, ("list",), "bool"),),
    "sum": (Function(sum, ("list",), "dyn"),),
    "min": (Function(_extreme(min), ("list",), "dyn"),),
    "max": (Function(_extreme(max), ("list",), "dyn"),),
    "isQuantity": (Function(_is_quantity, ("string",), "bool", False),),
    "quantity": (Function(_quantity, ("string",), "map", False),),
    "isGreaterThan": (Function(lambda a, b: _compare(a, b) > 0, ("map", "map"), "bool"),),
    "isLessThan": (Function(lambda a, b: _compare(a, b) < 0, ("map", "map"), "bool"),),
    "compareTo": (Function(_compare, ("map", "map"), "int"),),
    "sign": (Function(lambda a: _compare(a, 0), ("map",), "int"),),
    "add": (
        Function(lambda a, b: {_QUANTITY: str(_amount(a) + _amount(b))}, ("map", "map"), "map"),
    ),
    "sub": (
        Function(lambda a, b: {_QUANTITY: str(_amount(a) - _amount(b))}, ("map", "map"), "map"),
    ),
    "isInteger": (Function(lambda a: not _amount(a).nano % NANO, ("map",), "bool"),),
    "asInteger": (Function(_as_integer, ("map",), "int"),),
    "asApproximateFloat": (Function(lambda a: _amount(a).nano / NANO, ("map",), "dyn"),),
    "isURL": (Function(_is_url, ("string",), "bool", False),),
    "url": (Function(_url, ("string",), "map", False),),
    "getScheme": (Function(_of_url(lambda u: u.scheme), ("map",), "string"),),
    "getHost": (Function(_of_url(lambda u: u.netloc.rpartition("@")[2]), ("map",), "string"),),
    "getHostname": (Function(_of_url(lambda u: u.hostname or ""), ("map",), "string"),),
    "getPort": (Function(_of_url(_port), ("map",), "string"),),
    "getEscapedPath": (Function(_of_url(lambda u: u.path), ("map",), "string"),),
    "getQuery": (Function(_of_url(lambda u: parse_qs(u.query)), ("map",), "map"),),
    "isIP": (Function(_is_ip, ("string",), "bool", False),),
    "isCIDR": (Function(_is_cidr, ("string",), "bool", False),),
    "cidr": (Function(_cidr, ("string",), "map", False),),
    "containsIP": (Function(_contains_ip, ("map", "string"), "bool"),),
    "containsCIDR": (Function(_contains_cidr, ("map", "string"), "bool"),),
    "sets.contains": (Function(_contains, ("list", "list"), "bool", False),),
    "sets.equivalent": (
        Function(lambda a, b: _contains(a, b) and _contains(b, a), ("list", "list"), "bool", False),
    ),
    "sets.intersects": (
        Function(lambda a, b: any(item in a for item in b), ("list", "list"), "bool", False),
    ),
}
