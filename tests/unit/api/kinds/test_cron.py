"""Which texts are schedules, and when they are due."""

from datetime import datetime
from itertools import islice
from zoneinfo import ZoneInfo

import pytest

from shepherd.api.kinds.cron import Schedule, time_zone

BERLIN = ZoneInfo("Europe/Berlin")


def times(schedule: str, since: str, count: int, zone: ZoneInfo = BERLIN) -> list[str]:
    """The next times, as clocks in the zone show them."""
    start = datetime.fromisoformat(since).replace(tzinfo=zone).timestamp()
    found = islice(Schedule.parse(schedule).times(start, zone), count)
    return [datetime.fromtimestamp(t, zone).strftime("%m-%d %H:%M %Z") for t in found]


@pytest.mark.parametrize(
    ("schedule", "since", "expected"),
    [
        ("*/20 8-9 * * *", "2026-06-01T09:10", ["06-01 09:20", "06-01 09:40", "06-02 08:00"]),
        ("0 12 * * 5", "2026-06-01T00:00", ["06-05 12:00", "06-12 12:00"]),
        ("0 0 1 jan,jul *", "2026-06-01T00:00", ["07-01 00:00", "01-01 00:00"]),
        ("5/20 * * * MON", "2026-06-01T23:50", ["06-08 00:05", "06-08 00:25", "06-08 00:45"]),
        # Both days are named: either will do. One is a star: the other decides.
        ("0 0 3 * 5", "2026-06-01T00:00", ["06-03 00:00", "06-05 00:00", "06-12 00:00"]),
        ("0 0 3 * ?", "2026-06-01T00:00", ["06-03 00:00", "07-03 00:00"]),
        ("0 0 3 * 0-6", "2026-06-01T00:00", ["06-02 00:00", "06-03 00:00"]),
        ("0 0 29 2 *", "2026-06-01T00:00", ["02-29 00:00", "02-29 00:00"]),
        ("@weekly", "2026-06-01T00:00", ["06-07 00:00", "06-14 00:00"]),
        ("@every 1h30m", "2026-06-01T00:10", ["06-01 01:40", "06-01 03:10"]),
        ("@every 1.5m", "2026-06-01T00:10", ["06-01 00:11", "06-01 00:13", "06-01 00:14"]),
    ],
)
def test_when_it_is_due(schedule: str, since: str, expected: list[str]) -> None:
    found = times(schedule, since, len(expected))
    assert [text[:11] for text in found] == expected


@pytest.mark.parametrize(
    ("schedule", "since", "expected"),
    [
        # Clocks go back from 03:00 CEST to 02:00 CET on 25 October.
        ("0 2 * * *", "2026-10-24T12:00", ["10-25 02:00 CEST", "10-26 02:00 CET"]),
        ("*/30 2 * * *", "2026-10-25T00:00",
         ["10-25 02:00 CEST", "10-25 02:30 CEST", "10-26 02:00 CET"]),
        ("30 1-3 * * *", "2026-10-25T01:00",
         ["10-25 01:30 CEST", "10-25 02:30 CEST", "10-25 03:30 CET"]),
        ("0 * * * *", "2026-10-25T01:30",
         ["10-25 02:00 CEST", "10-25 02:00 CET", "10-25 03:00 CET"]),
        # They go forward from 02:00 CET to 03:00 CEST on 29 March.
        ("0 2 * * *", "2026-03-28T12:00", ["03-29 03:00 CEST", "03-30 02:00 CEST"]),
        ("*/20 2 * * *", "2026-03-28T12:00", ["03-29 03:00 CEST", "03-30 02:00 CEST"]),
        ("30 2,3 * * *", "2026-03-29T00:00", ["03-29 03:00 CEST", "03-29 03:30 CEST"]),
        ("0 * * * *", "2026-03-29T00:30", ["03-29 01:00 CET", "03-29 03:00 CEST"]),
    ],
)  # fmt: skip
def test_121594_once_in_an_hour_that_comes_twice_or_not_at_all(
    schedule: str, since: str, expected: list[str]
) -> None:
    """kubernetes/kubernetes#121594."""
    assert times(schedule, since, len(expected)) == expected


def test_a_change_of_half_an_hour_at_another_time() -> None:
    lord_howe = ZoneInfo("Australia/Lord_Howe")
    found = times("15 2 * * *", "2026-10-03T12:00", 2, lord_howe)
    assert found == ["10-04 02:30 +11", "10-05 02:15 +11"]


def test_what_is_never_due_ends() -> None:
    assert times("0 0 31 2 *", "2026-01-01T00:00", 1) == []


@pytest.mark.parametrize(
    ("schedule", "last"),
    [("*/5 * * * *", "11:55"), ("0 3 * * *", "03:00"), ("@every 7h", "07:00"), ("0 13 * * *", "")],
)
def test_the_last_time_that_was_due(schedule: str, last: str) -> None:
    utc = ZoneInfo("UTC")
    since, until = (
        datetime.fromisoformat(f"2026-01-01T{hour}:00+00:00").timestamp() for hour in ("00", "12")
    )
    found = Schedule.parse(schedule).last(since, until - 1, utc)
    assert (datetime.fromtimestamp(found, utc).strftime("%H:%M") if found else "") == last


@pytest.mark.parametrize(
    ("schedule", "problem"),
    [
        ("nine", r"expected exactly 5 fields, found 1: \[nine\]"),
        ("* * * * * *", "expected exactly 5 fields, found 6"),
        ("60 * * * *", r"end of range \(60\) above maximum \(59\): 60"),
        ("* * 0 * *", r"beginning of range \(0\) below minimum \(1\): 0"),
        ("* * * * 7", r"end of range \(7\) above maximum \(6\): 7"),
        ("*/0 * * * *", r"step of range should be a positive number: \*/0"),
        ("5-1 * * * *", r"beginning of range \(5\) beyond end of range \(1\): 5-1"),
        ("a * * * *", "failed to parse int from a"),
        ("@noon", "unrecognized descriptor: @noon"),
        ("@every", "unrecognized descriptor: @every"),
        ("@every soon", "failed to parse duration soon"),
        ("@every 5", "failed to parse duration 5"),
    ],
)
def test_what_is_no_schedule(schedule: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Schedule.parse(schedule)


@pytest.mark.parametrize("name", ["Mars/Base", "", "Local", "Europe", "../etc/hosts", "/etc", "\0"])
def test_what_is_no_time_zone(name: str) -> None:
    with pytest.raises(ValueError, match=r"time zone"):
        time_zone(name)
