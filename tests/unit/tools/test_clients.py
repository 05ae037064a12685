"""What the runner of other projects' suites makes of their results."""

from pathlib import Path

from clients.report import table
from clients.suite import Command, Outcome, Suite, read

RESULTS = """<testsuites><testsuite>
<testcase classname="a.test_x" name="good"/>
<testcase classname="a.test_x" name="bad"><failure message="it&#10;broke"/></testcase>
<testcase classname="a.test_x" name="theirs"><error message="kind"/></testcase>
<testcase classname="a.test_x" name="absent"><skipped message="no"/></testcase>
</testsuite></testsuites>"""


def suite(**more: object) -> Suite:
    def command(kubeconfig: Path) -> Command:
        return Command(Path("python"), Path(), ())

    return Suite("s", "a suite", lambda: None, command, **more)  # type: ignore[arg-type]


def test_results_are_counted_and_told(tmp_path: Path) -> None:
    (tmp_path / "r.xml").write_text(RESULTS)
    known = suite(without_cluster=1, upstream={"test_x::theirs": "their own tool"})
    outcome = read(known, tmp_path / "r.xml", 2.0)
    assert (outcome.collected, outcome.passed, outcome.skipped) == (4, 1, 1)
    assert outcome.failures == {"test_x::bad": "it broke", "test_x::theirs": "kind"}
    assert not outcome.good
    text = table([outcome])
    assert text.splitlines()[1].split()[-6:] == ["4", "3", "1", "1", "2", "2"]
    assert "[upstream: their own tool] kind" in text


def test_a_suite_that_is_not_there_is_not_said_to_pass() -> None:
    outcome = Outcome(suite(), not_run="needs a checkout")
    assert not outcome.good
    assert "not run: needs a checkout" in table([outcome])
