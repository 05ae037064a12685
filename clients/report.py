"""The table."""

from collections.abc import Sequence

from clients.suite import Outcome

_REASON_COLUMNS = 160


def table(outcomes: Sequence[Outcome]) -> str:
    """One line per suite, then each failure with its reason."""
    head = ("", "SUITE", "COLLECTED", "NEED CLUSTER", "PASSED", "SKIPPED", "FAILED", "SECONDS")
    lines = [head, *(_line(outcome) for outcome in outcomes)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    text = [
        "  ".join(
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    for outcome in outcomes:
        if outcome.not_run:
            text.append(f"\n{outcome.suite.name}: not run: {outcome.not_run}")
        for test, reason in outcome.failures.items():
            known = outcome.suite.upstream.get(test)
            why = f"[upstream: {known}] " if known else ""
            text.append(f"\n{outcome.suite.name} {test}\n    {why}{reason[:_REASON_COLUMNS]}")
    return "\n".join(text)


def _line(outcome: Outcome) -> tuple[str, ...]:
    name = f"{outcome.suite.name} ({outcome.suite.what})"
    if outcome.not_run:
        return ("-", name, "not run", "", "", "", "", "")
    numbers = (
        outcome.collected,
        outcome.collected - outcome.suite.without_cluster,
        outcome.passed,
        outcome.skipped,
        len(outcome.failures),
    )
    mark = "" if outcome.good else "!"
    return (mark, name, *map(str, numbers), f"{outcome.seconds:.0f}")
