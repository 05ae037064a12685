"""For tests, ours and yours: virtual time, an in-process cluster, conformance suites, programs."""
