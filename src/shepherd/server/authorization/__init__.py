"""Who may do what: decided in pure functions over indexes that follow the store.

`actions` is what is asked, and the answer; `chain` asks `node`, then `rbac`, each with an index
that `tracker` keeps as new as the store. `policy` has the roles of every cluster, `reconcile`
writes them at start. `escalation` sees to it that nobody gives away what they have not,
`impersonation` that nobody acts as somebody they may not. What a rule means is in `api.rbac`; why
all this is so, in docs/adr/0020-authorization.md.
"""
