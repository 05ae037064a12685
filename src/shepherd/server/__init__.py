"""The API server: from a request to a commit.

In reading order: `app`, the chain that every request passes; `routes`, what a path means;
`handlers`, one function a verb, and `subresources`; then the paths that all kinds share: `registry`
writes (with `metadata`, `deletion`, `admission`, `services`), `reads` lists (with `selection` and
`forms`), `watch` streams from the `hub`. Beside them stand `discovery` and `openapi`, `proxy` to
the nodes, `auth`, `pki` and `join`, `bootstrap` and `upkeep`.
"""
