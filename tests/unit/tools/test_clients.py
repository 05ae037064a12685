"""What the runner of other projects' suites makes of their results."""

from pathlib import Path

from clients.report import closing_line, table
from clients.suite import Command, Outcome, Suite, read, rerun

RESULTS = """<testsuites><testsuite>
<testcase classname="a.test_x" name="good"/>
<testcase classname="a.test_x" name="bad"><failure message="it&#10;broke"/></testcase>
<testcase classname="a.test_x" name="theirs"><error message="kind"/></testcase>
<testcase classname="a.test_x" name="absent"><skipped message="no"/></testcase>
<testcase classname="b.test_x" name="good"/>
</testsuite></testsuites>"""


def suite(**more: object) -> Suite:
    def command(kubeconfig: Path) -> Command:
        return Command(Path("python"), Path(), ())

    return Suite("s", "a suite", lambda: None, command, **more)  # type: ignore[arg-type]


def test_results_are_counted_and_told(tmp_path: Path) -> None:
    (tmp_path / "r.xml").write_text(RESULTS)
    known = suite(without_cluster=1, upstream={"a.test_x::theirs": "their own tool"})
    outcome = Outcome(known, *read(tmp_path / "r.xml"), seconds=2.0)
    assert outcome.failed == ["a.test_x::bad"]
    assert outcome.upstream == ["a.test_x::theirs"]
    assert not outcome.good
    text = table([outcome])
    assert text.splitlines()[1].split()[-7:] == ["5", "4", "2", "1", "1", "1", "2"]
    assert "[upstream: their own tool] kind" in text
    assert closing_line([outcome]) == "2 passed, 1 failed, 2 skipped"


def test_what_fails_but_once_is_told_and_does_not_count() -> None:
    first = Outcome(suite(), {"a": "failed", "b": "passed", "c": "failed"}, {"a": "x", "c": "z"})
    second = Outcome(suite(), {"a": "passed", "b": "failed", "c": "failed"}, {"b": "y", "c": "z"})
    both = second.after(first)
    assert both.failed == ["c"]
    assert set(both.once) == {"a", "b"}
    assert "[passed at another try] x" in table([both])
    assert "its cluster" in second.after(Outcome.failure(suite(), "its cluster", "no disk")).once


def test_what_pytest_ran_again_is_told() -> None:
    log = "RERUN kr8s/tests/test_api.py::test_x[a b]\nFAILED kr8s/tests/test_api.py::test_y\n"
    assert rerun(log) == ["kr8s.tests.test_api::test_x[a b]"]


def test_a_suite_that_is_not_there_fails_nothing_and_is_not_said_to_pass() -> None:
    outcome = Outcome(suite(), not_run="needs a checkout")
    assert outcome.good
    assert "NOT RUN: needs a checkout" in table([outcome])
    assert closing_line([outcome]) == "0 passed, 0 failed, 0 skipped"
