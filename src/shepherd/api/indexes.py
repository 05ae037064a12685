"""Sets of completion indexes, as a Job's status writes them: `0,2-5`.

Source: kubernetes pkg/controller/job/indexed_job_utils.go. A set is kept as ranges, since
`0-999999999` is short to write.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Indexes:
    """An immutable set of numbers from zero."""

    spans: tuple[range, ...] = ()
    """In order, with gaps between them."""

    @classmethod
    def of(cls, numbers: Iterable[int]) -> "Indexes":
        return cls(_joined(range(number, number + 1) for number in sorted(numbers)))

    @classmethod
    def parse(cls, text: str) -> "Indexes":
        """Raises ValueError, in upstream's words."""
        spans: list[range] = []
        last = -1
        for part in text.split(",") if text else ():
            first, dash, end = part.partition("-")
            start = last = _increasing(first, last)
            if dash:
                last = _increasing(end, last)
            spans.append(range(start, last + 1))
        return cls(_joined(spans))

    def below(self, limit: int) -> "Indexes":
        return Indexes(_joined(range(span.start, min(span.stop, limit)) for span in self.spans))

    def __str__(self) -> str:
        return ",".join(map(_text, self.spans))

    @property
    def total(self) -> int:
        """How many there are. (`len` of a range has a limit.)"""
        return sum(span.stop - span.start for span in self.spans)

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self.spans, number, key=lambda span: span.start)
        return at > 0 and number < self.spans[at - 1].stop

    def __or__(self, other: "Indexes") -> "Indexes":
        both = sorted((*self.spans, *other.spans), key=lambda span: span.start)
        return Indexes(_joined(both))

    def common(self, other: "Indexes") -> int:
        """How many are in both."""
        return self.total + other.total - (self | other).total

    def missing(self, limit: int) -> Iterator[int]:
        """Those below `limit` that are not in the set, in order."""
        start = 0
        for span in self.spans:
            yield from range(start, min(span.start, limit))
            start = span.stop
        yield from range(start, limit)


NONE = Indexes()


def _joined(spans: Iterable[range]) -> tuple[range, ...]:
    """Spans in order of their starts, made disjoint; empty ones are left out."""
    found: list[range] = []
    for span in spans:
        if span.start >= span.stop:
            continue
        if found and span.start <= found[-1].stop:
            found[-1] = range(found[-1].start, max(found[-1].stop, span.stop))
        else:
            found.append(span)
    return tuple(found)


def _text(span: range) -> str:
    first, last = span.start, span.stop - 1
    return f"{first}" if first == last else f"{first}{',' if last == first + 1 else '-'}{last}"


def _increasing(text: str, last: int) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 11):
        raise ValueError(f"cannot convert string to integer for index: {text!r}")
    number = int(text)
    if number <= last:
        raise ValueError(f"non-increasing order, previous: {last}, current: {number}")
    return number
