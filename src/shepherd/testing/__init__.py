<<<<<<< HEAD
"""For tests, ours and yours: virtual time, an in-process cluster, conformance suites, programs."""
=======
"""For tests, ours and everybody's: virtual time, conformance suites, an in-process cluster."""
>>>>>>> main
