"""Logging: one line an event, on standard error, with the component as its first word.

Code logs through `logging.getLogger("shepherd.<component>")`; only `run` calls `configure`.
"""

import logging
import sys


def configure(level: str = "INFO") -> None:
    """Send Shepherd's log to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S")
    )
    root = logging.getLogger("shepherd")
    root.handlers[:] = [handler]
    root.propagate = False
    root.setLevel(level.upper())
