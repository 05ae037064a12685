"""Controllers: each makes one part of the world agree with what its objects ask for.

A controller is one class with one `reconcile(key)`, and one line in `manager`. It decides from
informers, writes through the API like any client, and may be stopped and started at any instant.
Where its decisions are many, they stand beside it in pure functions: `<kind>_plan`.
"""
