"""The API server: from a request to a commit.

In reading order: `app`, the chain that every request passes; `routes`, what a path means;
`auth`, who asks, and `authorization`, whether they may; `handlers`, one function a verb, and
`subresources`; then the paths that all kinds share: `registry` writes (with `metadata`, `deletion`,
`admission`, `dynamic`, `services`), `reads` lists (with `selection` and `forms`), `watch` streams
from the `hub`. Beside them stand `discovery` and the documents of `openapi`; `customresources` and
`aggregation`, which add to what is served; `proxy` to the nodes, `reach` to what users run; `pki`
and `join`, `bootstrap` and `upkeep`.
"""
