"""CEL, the Common Expression Language, as Kubernetes speaks it.

`expressions` compiles and evaluates; `library` adds the functions that Kubernetes adds. Rules of
custom resources, conditions of webhooks and admission policies are written in it.
"""
