"""Cron schedules: five fields, or a name such as `@hourly`. Source: robfig/cron v3, ParseStandard.

The one reader of them: validation asks whether a text is one, and who acts on it, when.
"""

_FIELDS = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of month", 1, 31, ()),
    ("month", 1, 12, ("jan", "feb", "mar", "apr", "may", "jun",
                      "jul", "aug", "sep", "oct", "nov", "dec")),
    ("day of week", 0, 6, ("sun", "mon", "tue", "wed", "thu", "fri", "sat")),
)  # fmt: skip
_NAMES = {
    "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}  # fmt: skip


def cron_fields(schedule: str) -> list[frozenset[int]]:
    """The minutes, hours, days of month, months and days of week (0 = Sunday) of a schedule.

    Raises ValueError, in upstream's words where it is a user's most likely mistake.
    """
    if schedule.startswith("@"):
        if schedule not in _NAMES:
            raise ValueError(f"unrecognized descriptor: {schedule}")
        schedule = _NAMES[schedule]
    words = schedule.split()
    if len(words) != len(_FIELDS):
        raise ValueError(f"expected exactly 5 fields, found {len(words)}: [{' '.join(words)}]")
    return [
        frozenset().union(*(_range(part, *field) for part in word.split(",")))
        for word, field in zip(words, _FIELDS, strict=True)
    ]


def _range(text: str, field: str, low: int, high: int, names: tuple[str, ...]) -> set[int]:
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
