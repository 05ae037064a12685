"""`python -m clients [suites] [-- flags of pytest]`: run suites of clients, and print the table.

As root. Exits 1 if a test failed that is not known to judge its own project's tooling alone; a
suite that is not there is listed as not run.
"""

import argparse
import sys

from bench.programs import enter_own_network

from clients import report, suite
from clients.cluster import standalone
from clients.install import BUILD
from clients.suites import ALL, REGISTRIES


def main(arguments: list[str]) -> int:
    suites = {one.name: one for one in ALL}
    listing = "\n".join(f"  {one.name:16} {one.what}" for one in ALL)
    parser = argparse.ArgumentParser(
        prog="python -m clients",
        description="Run the test suites of existing clients against Shepherd.",
        epilog=f"suites:\n{listing}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", help="which to run, or `registries` (default: all)")
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    names = parser.parse_args(arguments[:cut]).names or list(suites)
    if names == ["registries"]:
        names = [one.name for one in REGISTRIES]
    if unknown := sorted(set(names) - set(suites)):
        parser.error(f"no suite named {', '.join(unknown)}; there are: {', '.join(suites)}")
    chosen = [suites[name] for name in names]
    BUILD.mkdir(parents=True, exist_ok=True)
    missing = suite.prepare(chosen)
    enter_own_network()
    outcomes = []
    with standalone() as program:
        for one in chosen:
            if one.name in missing:
                outcomes.append(suite.Outcome(one, not_run=missing[one.name]))
                continue
            print(f"running {one.name}: {one.what}", file=sys.stderr, flush=True)
            outcomes.append(suite.run(one, program.kubeconfig, arguments[cut + 1 :]))
        print(report.table(outcomes), flush=True)
    return int(not all(outcome.good or outcome.not_run for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
