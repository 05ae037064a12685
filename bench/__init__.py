"""The figures, one module each; `python -m bench` runs them all. See docs/BENCHMARKS.md."""
