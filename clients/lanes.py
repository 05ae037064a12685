"""Suites side by side, each in a process of its own, against a standalone of its own.

So no suite sees what another does to the cluster, and the time that one spends in waiting is
another's to work in. Each process is in a network namespace of its own.
"""

from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from subprocess import SubprocessError

from bench.programs import enter_own_network

from clients import suite
from clients.cluster import standalone
from clients.install import MissingError
from clients.report import progress
from clients.suite import Outcome, Suite

_LANES = 3
"""How many at a time: on two cores, one of three waits."""


def run_all(suites: Sequence[Suite], arguments: list[str]) -> dict[str, Outcome]:
    """The outcome of each suite, by its name; tells of each as it ends.

    A suite in which something failed is run a second time, against a fresh cluster: what fails
    but once is told, and does not count.
    """
    outcomes: dict[str, Outcome] = {}
    # A process for each run, since it can enter a network namespace but not leave it.
    with ProcessPoolExecutor(
        _LANES, mp_context=get_context("spawn"), max_tasks_per_child=1
    ) as lanes:
        running = {lanes.submit(_alone, one, arguments): one for one in suites}
        while running:
            again: dict[Future[Outcome], Suite] = {}
            for future in as_completed(running):
                one, outcome = running[future], future.result()
                if first := outcomes.get(one.name):
                    outcome = outcome.after(first)
                elif not outcome.good:
                    again[lanes.submit(_alone, one, arguments)] = one
                outcomes[one.name] = outcome
                print(progress(outcome), flush=True)
            running = again
    return outcomes


def _alone(one: Suite, arguments: list[str]) -> Outcome:
    """Run one suite against a cluster of its own."""
    try:
        enter_own_network()
        with standalone() as program:
            return suite.run(one, program.kubeconfig, arguments)
    except MissingError as error:
        return Outcome(one, not_run=str(error))
    except (AssertionError, OSError, SubprocessError) as error:
        return Outcome.failure(one, "its cluster", str(error))
