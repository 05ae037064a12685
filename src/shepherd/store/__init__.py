"""Bytes and revisions: a multi-version key-value store. Knows no kinds.

`base` is the protocol; `memory` and `sqlite` are stores; `feed` is their bounded history and
fan-out. All pass one conformance suite (`shepherd.testing.store_suite`).
"""
