"""The functions that Kubernetes adds to CEL: lists, patterns, quantities, URLs, addresses...

Values that CEL has no type for are maps with one key that names what they are, so that they pass
through the library, and equal values are equal. Functions whose names the library's strings and
lists have taken begin with `any_` here: `expressions` puts them in place. Source: apiserver
pkg/cel/library.
"""

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, unquote, urlsplit

from shepherd.api.cel import addresses, authorization, formats
from shepherd.api.quantity import NANO, Quantity, QuantityError, parse_quantity

_LONGEST_SEARCH = 1024 * 1024
_LONGEST_RANGE = 10_000
_LARGEST_MAP = 1000
_QUANTITY, _URL, _VERSION = "@quantity", "@url", "@semver"


class Function(NamedTuple):
    """One overload: the types that it takes and answers (bool, double, dyn, int, list, map, string,
    strings, ints)."""

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


def _includes(value: Any, item: Any) -> bool:
    return item in value if isinstance(value, list) else bool(value == item)


def _range(end: int) -> list[int]:
    if end > _LONGEST_RANGE:
        raise ValueError(f"lists.range goes to {_LONGEST_RANGE} at most")
    return list(range(end))


def _insert(target: Any, key: Any, value: Any) -> Any:
    return _merged(target, {key: value})


def _merged(target: Any, more: Any) -> Any:
    if len(target) + len(more) > _LARGEST_MAP:  # each step copies the whole map
        raise ValueError(f"transformMap makes maps of {_LARGEST_MAP} entries at most")
    for key in more:
        if key in target:
            raise ValueError(f"insert failed: key {key!r} already exists")
    return target | more


def _index_of(value: Any, item: Any, start: int = 0) -> int:
    if isinstance(value, str):
        if not 0 <= start <= len(value):
            raise ValueError(f"index out of range: {start}")
        return value.find(item, start)
    return value.index(item) if item in value else -1


def _last_index_of(value: Any, item: Any, end: int | None = None) -> int:
    if isinstance(value, str):
        if end is not None and not 0 <= end <= len(value):
            raise ValueError(f"index out of range: {end}")
        return value.rfind(item) if end is None else value.rfind(item, 0, end + len(item))
    return len(value) - 1 - value[::-1].index(item) if item in value else -1


# -- patterns ----------------------------------------------------------------------------------


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    from shepherd.api.cel.expressions import find_all

    if len(text) > _LONGEST_SEARCH:
        raise ValueError(f"findAll takes at most {_LONGEST_SEARCH} characters")
    found = find_all(text, pattern)
    return found if limit < 0 else found[:limit]


def _find(text: str, pattern: str) -> str:
    from shepherd.api.cel.expressions import find

    return find(text, pattern)


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


def _as_integer(value: Any) -> int:
    amount = _amount(value)
    if amount.nano % NANO:
        raise ValueError("cannot convert value to integer")
    return amount.value


def _as_float(value: Any) -> float:
    return _amount(value).nano / NANO


def _sum_of(sign: int) -> Callable[[Any, Any], Any]:
    return lambda a, b: {_QUANTITY: str(Quantity(_amount(a).nano + sign * _amount(b).nano))}


# -- versions ----------------------------------------------------------------------------------

_NUMBER = r"(0|[1-9]\d*)"
_IDENTIFIERS = r"(?:{0})(?:\.(?:{0}))*"
_SEMVER = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}"
    rf"(?:-({_IDENTIFIERS.format(r'0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*')}))?"
    rf"(?:\+({_IDENTIFIERS.format(r'[0-9A-Za-z-]+')}))?",
    re.ASCII,
)


def _normal_version(text: str) -> str:
    """Without a leading v and zeros, with all three numbers."""
    core, mark, rest = text.removeprefix("v"), "", ""
    if found := re.search(r"[-+]", core):
        core, mark, rest = core[: found.start()], found.group(), core[found.end() :]
    numbers = [part.lstrip("0") or "0" for part in core.split(".")]
    return ".".join([*numbers, "0", "0"][: max(3, len(numbers))]) + mark + rest


def _is_semver(text: str, normalize: bool = False) -> bool:
    return bool(_SEMVER.fullmatch(_normal_version(text) if normalize else text))


def _semver(text: str, normalize: bool = False) -> Any:
    if not _is_semver(text, normalize):
        raise ValueError(f"{text!r} is not a semantic version")
    return {_VERSION: _normal_version(text) if normalize else text}


def _release(value: Any, part: int) -> int:
    match = _SEMVER.fullmatch(value[_VERSION])
    assert match
    return int(match[part])


def _precedence(value: Any) -> tuple[Any, ...]:
    """Sorts versions. Source: semver.org, section 11."""
    match = _SEMVER.fullmatch(value[_VERSION])
    assert match
    parts = (match[4] or "").split(".")
    marks = [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]
    return int(match[1]), int(match[2]), int(match[3]), match[4] is None, marks


def _compare(one: Any, other: Any) -> int:
    """Of two quantities or two versions."""
    versions = isinstance(one, dict) and _VERSION in one
    read: Callable[[Any], Any] = _precedence if versions else _amount
    a, b = read(one), read(other)
    return 1 if b < a else -1 if a < b else 0


# -- URLs --------------------------------------------------------------------------------------


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


# -- patches -----------------------------------------------------------------------------------


def _escape_key(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _overloads(call: Callable[..., Any], *takes: str, answers: str, member: bool = True) -> Any:
    """One function for several lists of types, written with spaces."""
    return tuple(Function(call, tuple(types.split()), answers, member) for types in takes)


def _one(call: Callable[..., Any], takes: str, answers: str) -> tuple[Function, ...]:
    return (Function(call, tuple(takes.split()), answers),)


def _global(call: Callable[..., Any], *takes: str, answers: str) -> tuple[Function, ...]:
    found: tuple[Function, ...] = _overloads(call, *takes, answers=answers, member=False)
    return found


_IN_TEXTS = ("string string", "string string int")
_IN_LISTS = ("list bool", "list double", "list int", "list list", "list map", "list string")
_KEYS = ("bool", "int", "string")
_VALUES = ("bool", "double", "int", "list", "map", "string")
_EQUAL = ("bool bool", "double double", "int int", "string string", "map map")

FUNCTIONS: dict[str, tuple[Function, ...]] = (
    {
        "isSorted": _one(_is_sorted, "list", "bool"),
        "sum": _one(sum, "list", "dyn"),
        "min": _one(_extreme(min), "list", "dyn"),
        "max": _one(_extreme(max), "list", "dyn"),
        "any_range": _global(_range, "int", answers="ints"),
        "includes": _overloads(_includes, *_IN_LISTS, *_EQUAL, answers="bool"),
        "any_map_insert": (
            *_global(_insert, *(f"map {k} {v}" for k in _KEYS for v in _VALUES), answers="map"),
            *_global(_merged, "map map", answers="map"),
        ),
        "any_indexOf": _overloads(_index_of, *_IN_TEXTS, *_IN_LISTS, answers="int"),
        "any_lastIndexOf": _overloads(_last_index_of, *_IN_TEXTS, *_IN_LISTS, answers="int"),
        "find": _one(_find, "string string", "string"),
        "findAll": _overloads(_find_all, "string string", "string string int", answers="strings"),
        "isQuantity": _global(_is_quantity, "string", answers="bool"),
        "quantity": _global(_quantity, "string", answers="map"),
        "isGreaterThan": _one(lambda a, b: _compare(a, b) > 0, "map map", "bool"),
        "isLessThan": _one(lambda a, b: _compare(a, b) < 0, "map map", "bool"),
        "compareTo": _one(_compare, "map map", "int"),
        "sign": _one(lambda a: _compare(a, 0), "map", "int"),
        "add": _overloads(_sum_of(1), "map map", "map int", answers="map"),
        "sub": _overloads(_sum_of(-1), "map map", "map int", answers="map"),
        "isInteger": _one(lambda a: not _amount(a).nano % NANO, "map", "bool"),
        "asInteger": _one(_as_integer, "map", "int"),
        "asApproximateFloat": _one(_as_float, "map", "double"),
        "isSemver": _global(_is_semver, "string", "string bool", answers="bool"),
        "semver": _global(_semver, "string", "string bool", answers="map"),
        "major": _one(lambda v: _release(v, 1), "map", "int"),
        "minor": _one(lambda v: _release(v, 2), "map", "int"),
        "patch": _one(lambda v: _release(v, 3), "map", "int"),
        "isURL": _global(_is_url, "string", answers="bool"),
        "url": _global(_url, "string", answers="map"),
        "getScheme": _one(_of_url(lambda u: u.scheme), "map", "string"),
        "getHost": _one(_of_url(lambda u: u.netloc.rpartition("@")[2]), "map", "string"),
        "getHostname": _one(_of_url(lambda u: u.hostname or ""), "map", "string"),
        "getPort": _one(_of_url(lambda u: str(u.port or "")), "map", "string"),
        "getEscapedPath": _one(
            _of_url(lambda u: quote(unquote(u.path), safe="/:@!$&'()*+,;=~")), "map", "string"
        ),
        "getQuery": _one(
            _of_url(lambda u: parse_qs(u.query, keep_blank_values=True)), "map", "map"
        ),
        "isIP": _global(addresses.is_ip, "string", answers="bool"),
        "ip": (
            *_global(addresses.ip, "string", answers="map"),
            *_one(addresses.base, "map", "map"),
        ),
        "ip.isCanonical": _global(addresses.is_canonical, "string", answers="bool"),
        "family": _one(lambda a: addresses.address(a).version, "map", "int"),
        "isUnspecified": _one(lambda a: addresses.address(a).is_unspecified, "map", "bool"),
        "isLoopback": _one(lambda a: addresses.address(a).is_loopback, "map", "bool"),
        "isLinkLocalMulticast": _one(addresses.is_link_local_multicast, "map", "bool"),
        "isLinkLocalUnicast": _one(addresses.is_link_local_unicast, "map", "bool"),
        "isGlobalUnicast": _one(addresses.is_global_unicast, "map", "bool"),
        "isCIDR": _global(addresses.is_cidr, "string", answers="bool"),
        "cidr": _global(addresses.cidr, "string", answers="map"),
        "containsIP": _overloads(addresses.contains_ip, "map string", "map map", answers="bool"),
        "containsCIDR": _overloads(
            addresses.contains_cidr, "map string", "map map", answers="bool"
        ),
        "masked": _one(addresses.masked, "map", "map"),
        "prefixLength": _one(addresses.prefix_length, "map", "int"),
        "serviceAccount": _one(authorization.service_account, "map string string", "map"),
        "check": _one(authorization.check, "map string", "map"),
        "path": _one(authorization.narrowed("path"), "map string", "map"),
        "allowed": _one(authorization.told("allowed"), "map", "bool"),
        "reason": _one(authorization.told("reason"), "map", "string"),
        "errored": _one(lambda decision: False, "map", "bool"),
        "error": _one(lambda decision: "", "map", "string"),
        "format.named": _global(formats.named, "string", answers="list"),
        "any_validate": _one(formats.validate, "map string", "list"),
        "jsonpatch.escapeKey": _global(_escape_key, "string", answers="string"),
    }
    | {
        f"format.{name}": (Function(formats.constant(name), (), "map", False),)
        for name in formats.NAMES
    }
    | {
        part: _one(authorization.narrowed(part), "map string", "map")
        for part in authorization.FIELDS
    }
)
