"""Resource quantities such as `500m`, `1.5Gi` or `12e6`.

Exact, and printed in the canonical form that Kubernetes answers with: the largest suffix that
leaves no fraction. Source: apimachinery `api/resource` Quantity.
"""

import re
from functools import lru_cache

NANO = 10**9
"""Quantities are whole numbers of a billionth; smaller parts round away from zero."""

_BINARY_SUFFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL_SUFFIXES = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_DECIMAL_NAMES = {exponent: suffix for suffix, exponent in _DECIMAL_SUFFIXES.items()}
_BINARY_MAX = (2**63 - 1) * NANO
_MAX_EXPONENT = 64
"""Ours: upstream takes any, and spends memory in proportion."""
_MAX_LENGTH = 128

_form = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)")
_exponent = re.compile(r"[eE]([-+]?[0-9]+)")

_BAD_FORM = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_BAD_SUFFIX = "unable to parse quantity's suffix"


class QuantityError(ValueError):
    """A text is no quantity; the message says why, in upstream's words."""


class Quantity:
    """An exact amount, and the notation it was written in. Ordered and equal by amount."""

    __slots__ = ("nano", "notation")

    def __init__(self, nano: int, notation: str = "decimal") -> None:
        self.nano = nano
        self.notation = notation
        """decimal (`1k`), binary (`1Ki`) or exponent (`1e3`)."""

    @property
    def millis(self) -> int:
        """Thousandths, rounded up."""
        return -(-self.nano // 10**6)

    @property
    def value(self) -> int:
        """Whole units (bytes, counts), rounded up."""
        return -(-self.nano // NANO)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nano == other.nano

    def __lt__(self, other: "Quantity") -> bool:
        return self.nano < other.nano

    def __le__(self, other: "Quantity") -> bool:
        return self.nano <= other.nano

    def __hash__(self) -> int:
        return hash(self.nano)

    def __add__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nano + other.nano, self.notation if self.nano else other.notation)

    def __sub__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nano - other.nano, self.notation if self.nano else other.notation)

    def __str__(self) -> str:
        whole = self.nano % NANO == 0
        if self.notation == "binary" and whole and abs(self.nano) >= 1024 * NANO:
            return _format_binary(self.nano // NANO)
        return _format_decimal(self.nano, si=self.notation != "exponent")

    def __repr__(self) -> str:
        return f"Quantity({self!s})"


def _format_binary(value: int) -> str:
    level = 0
    while value % 1024 == 0 and level < len(_BINARY_SUFFIXES) - 1:
        value //= 1024
        level += 1
    return f"{value}{_BINARY_SUFFIXES[level]}"


def _format_decimal(nano: int, *, si: bool) -> str:
    if nano == 0:
        return "0"
    exponent = -9
    while nano % 1000 == 0 and (not si or exponent < 18):
        nano //= 1000
        exponent += 3
    if si:
        return f"{nano}{_DECIMAL_NAMES[exponent]}"
    return f"{nano}e{exponent}" if exponent else str(nano)


@lru_cache(maxsize=4096)
def parse_quantity(text: str) -> Quantity:
    """The quantity that a text denotes. Raises QuantityError."""
    match = _form.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if match is None:
        raise QuantityError(_BAD_FORM)
    sign, whole, fraction, suffix = match.groups("")
    if not whole and not fraction:
        raise QuantityError(_BAD_FORM)
    numerator = int(whole + fraction)
    divisor = 10 ** len(fraction)
    notation = "decimal"
    if suffix in _DECIMAL_SUFFIXES:
        exponent = _DECIMAL_SUFFIXES[suffix]
    elif suffix in _BINARY_SUFFIXES:
        notation, exponent = "binary", 0
        numerator *= 1024 ** _BINARY_SUFFIXES.index(suffix)
    elif (power := _exponent.fullmatch(suffix)) and abs(int(power[1])) <= _MAX_EXPONENT:
        notation, exponent = "exponent", int(power[1])
    else:
        raise QuantityError(_BAD_SUFFIX)
    if exponent + 9 >= 0:
        numerator *= 10 ** (exponent + 9)
    else:
        divisor *= 10 ** -(exponent + 9)
    nano = -(-numerator // divisor)
    if notation == "binary":
        nano = min(nano, _BINARY_MAX)
        if nano < NANO:
            notation = "decimal"
    return Quantity(-nano if sign == "-" else nano, notation)


def quantity(value: str | int | float) -> Quantity:
    """A quantity as JSON may hold it: text, or a bare number. Raises QuantityError."""
    return parse_quantity(value if isinstance(value, str) else str(value))


def canonical(value: str | int | float) -> str:
    """The form in which the API answers a quantity: `1000m` is `1`, `0.5` is `500m`."""
    return str(quantity(value))


def millis(value: str | int | float) -> int:
    """Thousandths, rounded up: what CPU is counted in. Raises QuantityError."""
    return quantity(value).millis


def whole(value: str | int | float) -> int:
    """Whole units, rounded up: what bytes and pods are counted in. Raises QuantityError."""
    return quantity(value).value
