"""Cron schedules: five fields, or a name such as `@hourly` or `@every 90m`.

The one reader of them: validation asks whether a text is one, and who acts on it, when. Which
texts are schedules and what they mean is as in robfig/cron v3, ParseStandard, but for the hours in
which clocks are changed; there it is as in Debian's cron:

- A schedule for certain hours (`0 2 * * *`) runs once for an hour that is repeated, the first time
  that it comes; times in an hour that is skipped run once, at the first moment after it.
- A schedule for every hour (`*/10 * * * *`) follows the time that passes: it skips and repeats
  nothing.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo
from typing import NamedTuple

_FIELDS = (
    (0, 59, ()),
    (0, 23, ()),
    (1, 31, ()),
    (1, 12, ("jan", "feb", "mar", "apr", "may", "jun",
             "jul", "aug", "sep", "oct", "nov", "dec")),
    (0, 6, ("sun", "mon", "tue", "wed", "thu", "fri", "sat")),
)  # fmt: skip
"""Minute, hour, day of the month, month, day of the week: lowest, highest, names."""
_NAMES = {
    "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}  # fmt: skip
_EVERY = "@every "
_PART = r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|ms|s|m|h)"
_UNIT_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
_HORIZON_DAYS = 5 * 366
"""A schedule without a time in this many days (`0 0 30 2 *`) has none."""


class _Field(NamedTuple):
    """One of the five."""

    values: frozenset[int]
    star: bool
    """It was written as `*` or `?`, so it asks for nothing."""


_ANY = _Field(frozenset(), True)


@dataclass(frozen=True, slots=True)
class Schedule:
    """When something recurs. Times are epoch seconds, whole ones."""

    minutes: tuple[int, ...] = ()
    hours: tuple[int, ...] = ()
    days: _Field = _ANY
    months: frozenset[int] = frozenset()
    weekdays: _Field = _ANY
    every_seconds: int = 0
    """Of `@every`, which has no other field."""

    @classmethod
    def parse(cls, text: str) -> "Schedule":
        """Raises ValueError, in upstream's words where it is a user's most likely mistake."""
        if text.startswith(_EVERY):
            return cls(every_seconds=_seconds(text.removeprefix(_EVERY)))
        if text.startswith("@"):
            if text not in _NAMES:
                raise ValueError(f"unrecognized descriptor: {text}")
            text = _NAMES[text]
        words = text.split()
        if len(words) != len(_FIELDS):
            raise ValueError(f"expected exactly 5 fields, found {len(words)}: [{' '.join(words)}]")
        minutes, hours, days, months, weekdays = (
            _field(word, *field) for word, field in zip(words, _FIELDS, strict=True)
        )
        return cls(
            tuple(sorted(minutes.values)), tuple(sorted(hours.values)), days, months.values,
            weekdays,
        )  # fmt: skip

    def times(self, since: float, zone: tzinfo) -> Iterator[float]:
        """The times after `since`, in order, as clocks in `zone` show them."""
        moment = self.after(since, zone)
        while moment is not None:
            yield moment
            moment = self.after(moment, zone)

    def after(self, since: float, zone: tzinfo) -> float | None:
        """The first time after `since`; None if there is none in the next five years."""
        if self.every_seconds:
            return float(int(since) + self.every_seconds)
        first = datetime.fromtimestamp(since, zone).date()
        for number in range(_HORIZON_DAYS):
            day = first + timedelta(days=number)
            if self._falls_on(day):
                for moment in self._on(day, since, zone):
                    if moment > since:
                        return moment
        return None

    def last(self, since: float, until: float, zone: tzinfo) -> float | None:
        """The last time after `since` that is not after `until`."""
        if self.every_seconds:
            rounds = (until - int(since)) // self.every_seconds
            return float(int(since) + rounds * self.every_seconds) if rounds > 0 else None
        span = 3600.0
        while True:
            start = max(since, until - span)
            found = None
            for moment in self.times(start, zone):
                if moment > until:
                    break
                found = moment
            if found is not None or start == since:
                return found
            span *= 8

    def _falls_on(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        of_month = day.day in self.days.values
        of_week = day.isoweekday() % 7 in self.weekdays.values
        if self.days.star or self.weekdays.star:
            return of_month and of_week
        return of_month or of_week

    def _on(self, day: date, since: float, zone: tzinfo) -> Iterator[float]:
        """The times of a day, from `since` at the latest."""
        if len(self.hours) < 24:
            for hour in self.hours:
                for minute in self.minutes:
                    yield _moment(datetime.combine(day, time(hour, minute)), zone)
            return
        start = _moment(datetime.combine(day, time()), zone)
        end = _moment(datetime.combine(day + timedelta(days=1), time()), zone)
        for moment in range(int(max(start, since // 60 * 60)), int(end), 60):
            if datetime.fromtimestamp(moment, zone).minute in self.minutes:
                yield float(moment)


def time_zone(name: str) -> tzinfo:
    """A zone of the IANA data base. Raises ValueError."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    if name.lower() == "local":
        raise ValueError(
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        )
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"unknown time zone {name}") from None


def _moment(shown: datetime, zone: tzinfo) -> float:
    """When clocks show this: the first time, or if they never do, when they have passed it."""
    moment = shown.replace(tzinfo=zone).timestamp()
    if datetime.fromtimestamp(moment, zone).replace(tzinfo=None) == shown:
        return moment
    # In a gap, `moment` counts with the offset before it. With the one after it comes an earlier
    # moment, and between them lies the change.
    early = shown.replace(tzinfo=zone, fold=1).timestamp()
    changed = datetime.fromtimestamp(moment, zone).utcoffset()
    minutes = range(int(early), int(moment) + 60, 60)
    at = bisect_left(
        minutes, True, key=lambda m: datetime.fromtimestamp(m, zone).utcoffset() == changed
    )
    return float(minutes[at])


def _field(word: str, low: int, high: int, names: tuple[str, ...]) -> _Field:
    parts = word.split(",")
    values = frozenset().union(*(_range(part, low, high, names) for part in parts))
    return _Field(values, any(part in ("*", "?", "*/1", "?/1") for part in parts))


def _range(text: str, low: int, high: int, names: tuple[str, ...]) -> set[int]:
    span, slash, step_text = text.partition("/")
    first, dash, last = span.partition("-")
    if first in ("*", "?") and not dash:
        start, end = low, high
    else:
        start = _number(first, names, low)
        end = _number(last, names, low) if dash else high if slash else start
    step = int(step_text) if slash and step_text.isdecimal() else 1
    if slash and not (step_text.isdecimal() and step):
        raise ValueError(f"step of range should be a positive number: {text}")
    if start < low:
        raise ValueError(f"beginning of range ({start}) below minimum ({low}): {text}")
    if end > high:
        raise ValueError(f"end of range ({end}) above maximum ({high}): {text}")
    if start > end:
        raise ValueError(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    return set(range(start, end + 1, step))


def _number(text: str, names: tuple[str, ...], low: int) -> int:
    if text.lower() in names:
        return names.index(text.lower()) + low
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise ValueError(f"failed to parse int from {text}")
    return int(text)


def _seconds(text: str) -> int:
    """A duration as Go writes it, in whole seconds, at least one."""
    if len(text) > 30 or not re.fullmatch(f"(?:{_PART})+", text):
        raise ValueError(f"failed to parse duration {text}: time: invalid duration")
    parts = re.findall(_PART, text)
    return max(1, int(sum(float(number) * _UNIT_SECONDS[unit] for number, unit in parts)))
