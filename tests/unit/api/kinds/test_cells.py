"""How durations and selectors read in `kubectl get`."""

import pytest

from shepherd.api.kinds.cells import human_duration, selector_text, since

DAY = 86400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0.9, "0s"),
        (119, "119s"),
        (120, "2m"),
        (250, "4m10s"),
        (600, "10m"),
        (179 * 60, "179m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 300, "3h5m"),
        (9 * 3600, "9h"),
        (2 * DAY, "2d"),
        (2 * DAY + 3600, "2d1h"),
        (9 * DAY, "9d"),
        (729 * DAY, "729d"),
        (2 * 365 * DAY, "2y"),
        (2 * 365 * DAY + DAY, "2y1d"),
        (9 * 365 * DAY + 40 * DAY, "9y"),
    ],
)
def test_durations_read_as_kubectl_writes_them(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


def test_a_missing_or_broken_time_is_unknown() -> None:
    assert since(None, 0) == "<unknown>"
    assert since("yesterday", 0) == "<unknown>"


def test_a_selector_reads_as_the_flag_takes_it() -> None:
    selector = {
        "matchLabels": {"app": "web"},
        "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["b", "a"]},
            {"key": "gone", "operator": "DoesNotExist"},
        ],
    }
    assert selector_text(selector) == "!gone,app=web,tier in (a,b)"
    assert selector_text(None) == "<none>"
