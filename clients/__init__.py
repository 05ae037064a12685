"""Proof by clients that nobody here wrote: their own test suites, run against a standalone.

`python -m clients` starts `shepherd --mode standalone` with real containers in a network namespace
of its own, runs each suite (one module in `suites/`) and prints what passed. `images` builds the
stand-ins for the images that the suites name, `install` brings the clients, `cluster` is what they
run against, `report` is the table.
"""
