"""CEL, the Common Expression Language, as Kubernetes speaks it.

Rules of custom resources, conditions of webhooks and admission policies are written in it.
`expressions` compiles and evaluates; `library` has the functions that Kubernetes adds; `estimate`
tells what does not fit a schema and what an expression can cost, and `budget` holds it to that.
"""
