"""`python -m clients [suites] [-- flags of pytest]`: run suites of clients, and print the table.

As root. Exits 1 if a test failed that is not known to judge its own project's tooling alone; a
suite that is not there is listed as not run.
"""

import argparse
import os
import sys

from clients import report, suite
from clients.install import BUILD
from clients.lanes import run_all
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
    if os.geteuid():
        missing = dict.fromkeys(names, "needs root, for real containers")
    else:
        print("bringing clients", flush=True)
        missing = suite.prepare(chosen)
    outcomes = run_all([one for one in chosen if one.name not in missing], arguments[cut + 1 :])
    results = [
        outcomes.get(one.name) or suite.Outcome(one, not_run=missing[one.name]) for one in chosen
    ]
    print(report.table(results))
    # Of no tests, a line that says so would be taken for the result of all that ran before.
    if outcomes:
        print(f"\n{report.closing_line(results)}")
    return int(not all(result.good for result in results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
