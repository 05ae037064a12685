"""For tests, ours and everybody's: virtual time, conformance suites, an in-process cluster."""
