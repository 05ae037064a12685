"""The formats of strings that CEL knows by name: `format.dns1123Label().validate(text)`.

CEL answers optional values, which the library has no way to take from us: it is given lists of none
or one, and `expressions` takes their first item. Source: apiserver pkg/cel/library/format.go.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from shepherd.api.custom.formats import fits
from shepherd.api.names import check_name, label_value, qualified_name

_FORMAT = "@format"

_ERRORS: dict[str, Callable[[str], list[str]]] = {
    "dns1123Label": partial(check_name, "dns1123label"),
    "dns1123Subdomain": partial(check_name, "dns1123subdomain"),
    "dns1035Label": partial(check_name, "dns1035label"),
    "dns1123LabelPrefix": partial(check_name, "dns1123label", prefix=True),
    "dns1123SubdomainPrefix": partial(check_name, "dns1123subdomain", prefix=True),
    "dns1035LabelPrefix": partial(check_name, "dns1035label", prefix=True),
    "qualifiedName": qualified_name,
    "labelValue": label_value,
}
_PLAIN = {
    "uri": ("uri", "invalid URI format"),
    "uuid": ("uuid", "does not match the UUID format"),
    "byte": ("byte", "invalid base64"),
    "date": ("date", "invalid date"),
    "datetime": ("date-time", "invalid datetime"),
}
NAMES = (*_ERRORS, *_PLAIN)


def constant(name: str) -> Callable[[], Any]:
    """The function that answers a format."""
    return lambda: {_FORMAT: name}


def named(name: str) -> list[Any]:
    return [{_FORMAT: name}] if name in NAMES else []


def validate(format: Any, text: str) -> list[list[str]]:
    """What is wrong with a text, if anything is."""
    name = format[_FORMAT]
    if name in _ERRORS:
        found = _ERRORS[name](text)
    else:
        known, detail = _PLAIN[name]
        found = [] if fits(known, text) else [detail]
    return [found] if found else []
