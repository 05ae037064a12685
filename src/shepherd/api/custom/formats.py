"""The formats of strings and numbers that schemas of custom resources may name.

Any other is ignored, as upstream. Source: kube-openapi pkg/validation/strfmt.
"""

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from datetime import date
from typing import Any
from urllib.parse import urlsplit

from shepherd.api.meta import parse_time

_LABEL = "[a-zA-Z0-9_](?:[a-zA-Z0-9_-]{0,61}[a-zA-Z0-9_])?"
_NAME = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*\.?", re.ASCII)
_EMAIL = re.compile(r"[^@\s<>]+@[^@\s<>]+", re.ASCII)
_MAC = re.compile(r"[0-9a-fA-F]{2}([:-][0-9a-fA-F]{2}){5,7}|([0-9a-fA-F]{4}\.){2,3}[0-9a-fA-F]{4}")
_UUID = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?(.)[0-9a-f]{3}-?(.)[0-9a-f]{3}-?[0-9a-f]{12}")
_DURATION = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_LONG_DURATION = re.compile(r"\d+\s*(days?|d|weeks?|w)")
_DATE_TIME = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d([.,]\d+)?([Zz]|[+-]\d\d:?\d\d)", re.ASCII
)


def _parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    """Whether `parse` takes a text without ValueError."""

    def check(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return check


def _duration(text: str) -> bool:
    if text == "0" or _LONG_DURATION.fullmatch(text):
        return True
    at = 0
    while match := _DURATION.match(text, at):
        at = match.end()
    return 0 < at == len(text)


def _base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _uuid(version: str = "") -> Callable[[str], bool]:
    def check(text: str) -> bool:
        match = _UUID.fullmatch(text)
        return bool(match) and version in ("", match[1] if match else "")

    return check


def _uri(text: str) -> bool:
    return _parses(urlsplit)(text) and bool(urlsplit(text).scheme or text.startswith("/"))


def _cidr(text: str) -> bool:
    return "/" in text and _parses(lambda value: ipaddress.ip_network(value, strict=False))(text)


def _date_time(text: str) -> bool:
    return bool(_DATE_TIME.fullmatch(text)) and _parses(parse_time)(text.upper())


STRINGS: dict[str, Callable[[str], bool]] = {
    "date": _parses(date.fromisoformat),
    "date-time": _date_time,
    "datetime": _date_time,
    "duration": _duration,
    "byte": _base64,
    "ipv4": _parses(ipaddress.IPv4Address),
    "ipv6": _parses(ipaddress.IPv6Address),
    "cidr": _cidr,
    "mac": lambda text: bool(_MAC.fullmatch(text)),
    "hostname": lambda text: bool(_NAME.fullmatch(text)),
    "email": lambda text: bool(_EMAIL.fullmatch(text)),
    "uri": _uri,
    "uuid": _uuid(),
    "uuid3": _uuid("3"),
    "uuid4": _uuid("4"),
    "uuid5": _uuid("5"),
    "k8s-short-name": lambda text: bool(re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", text)),
    "k8s-long-name": lambda text: (
        len(text) < 254 and bool(re.fullmatch(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?", text))
    ),
}
INTEGERS: dict[str, int] = {"int32": 31, "int64": 63}
"""Bits of the absolute value."""


def fits(format: str, value: Any) -> bool:
    """Whether a string or integer is of the format."""
    if type(value) is str:
        check = STRINGS.get(format)
        return check is None or check(value)
    bits = INTEGERS.get(format)
    return bits is None or type(value) is not int or -(1 << bits) <= value < (1 << bits)
