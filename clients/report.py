"""The table."""

from collections.abc import Sequence

from clients.suite import Outcome

_HEAD = (
    "", "SUITE", "COLLECTED", "NEED CLUSTER", "PASSED", "SKIPPED", "FAILED", "UPSTREAM", "SECONDS",
)  # fmt: skip
_REASON_COLUMNS = 160


def table(outcomes: Sequence[Outcome]) -> str:
    """One line per suite, then what was not run, and each failure with its reason."""
    lines = [_HEAD, *(_line(outcome) for outcome in outcomes)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEAD))]
    text = [
        "  ".join(
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    for outcome in outcomes:
        if outcome.not_run:
            text.append(f"\n{outcome.suite.name}: NOT RUN: {outcome.not_run}")
        text += [_reason(outcome, test) for test in outcome.failed]
        for test in outcome.upstream:
            text.append(_reason(outcome, test, f"[upstream: {outcome.suite.upstream[test]}] "))
        text += [_reason(outcome, test, "[passed at another try] ") for test in outcome.once]
    return "\n".join(text)


def closing_line(outcomes: Sequence[Outcome]) -> str:
    """All in one line, as CI reads it; what judges upstream's own tooling counts as skipped."""
    passed = sum(outcome.count("passed") for outcome in outcomes)
    failed = sum(len(outcome.failed) for outcome in outcomes)
    skipped = sum(outcome.count("skipped") + len(outcome.upstream) for outcome in outcomes)
    return f"{passed} passed, {failed} failed, {skipped} skipped"


def progress(outcome: Outcome) -> str:
    """One suite, as it ends."""
    passed, failed, upstream = outcome.count("passed"), len(outcome.failed), len(outcome.upstream)
    told = f"{outcome.suite.name}: {passed} passed, {failed} failed in {outcome.seconds:.0f} s"
    return f"{told} ({upstream} more judge upstream's tooling)" if upstream else told


def _reason(outcome: Outcome, test: str, mark: str = "") -> str:
    reason = outcome.reasons[test][:_REASON_COLUMNS]
    return f"\n{outcome.suite.name} {test}\n    {mark}{reason}"


def _line(outcome: Outcome) -> tuple[str, ...]:
    name = f"{outcome.suite.name} ({outcome.suite.what})"
    if outcome.not_run:
        return ("-", name, "NOT RUN", *[""] * (len(_HEAD) - 3))
    collected = len(outcome.states)
    numbers = (
        collected,
        collected - outcome.suite.without_cluster,
        outcome.count("passed"),
        outcome.count("skipped"),
        len(outcome.failed),
        len(outcome.upstream),
    )
    return ("" if outcome.good else "!", name, *map(str, numbers), f"{outcome.seconds:.0f}")
