"""Dynamic admission: webhooks and policies that users register, and that judge and rewrite writes.

`chain` knows what is registered and runs it; `matching` says what applies to a write; `webhooks`
asks webhooks, `policies` evaluates policies. Where nothing is registered, a write pays for one look
at an empty tuple.
"""
