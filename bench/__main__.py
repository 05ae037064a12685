"""`python -m bench [names] [--json]`: measure, and print a table or JSON.

A bench that fails prints its error, the others go on, and the exit code is 1. A figure that falls
short of its target is marked, and changes nothing else.
"""

import argparse
import importlib
import os
import sys
import traceback

from bench.programs import enter_own_network
from bench.report import Row, as_json, table

BENCHES = {
    "boot": "from start to node Ready; what is held and used when idle (as root)",
    "api": "gets, durable creates, lists, watch fan-out, over TLS",
    "authorization": "what deciding about one request costs",
    "pods": "from the API to running containers (as root)",
    "runtime": "pods started on the node, beside podman and docker (as root)",
    "scheduler": "decisions of the pure cycle on 1,000 and 5,000 nodes",
    "apply": "a manifest of 100 objects by kubectl; 1,000 custom objects created and watched",
    "embedded": "the cluster inside a test: ready, stopped, resident",
    "scale": "pods bound through the API with 1,000 and 5,000 hollow nodes",
}
"""By name: what it measures. Each is the module `bench.<name>` with `measure() -> list[Row]`."""
LONG = {"soak": "hours of a busy control plane in minutes: is what it holds bounded?"}
"""Those that run only when they are named."""


def main(arguments: list[str]) -> int:
    known = BENCHES | LONG
    listing = "\n".join(f"  {name:12} {what}" for name, what in known.items())
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure Shepherd.",
        epilog=f"benches:\n{listing}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "names", nargs="*", help=f"which to run (default: all but {', '.join(LONG)})"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, not a table")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.names) - set(known)):
        parser.error(f"no bench named {', '.join(unknown)}; there are: {', '.join(known)}")
    if os.geteuid() == 0:
        enter_own_network()
    rows: list[Row] = []
    failed = False
    for name in options.names or BENCHES:
        print(f"measuring {name}: {known[name]}", file=sys.stderr)
        try:
            rows += importlib.import_module(f"bench.{name}").measure()
        except Exception:
            traceback.print_exc()
            failed = True
    print(as_json(rows) if options.json else table(rows))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
