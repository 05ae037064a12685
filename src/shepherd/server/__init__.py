"""The API server: from a request to a commit.

`app` is the chain that every request passes; `routes` says what a path means; `handlers` has one
function a verb; `reads`, `registry` and `deletion` are the read and write paths that all kinds
share; `admission` is the table of rules that look beyond the object itself.
"""
