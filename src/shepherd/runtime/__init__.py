"""Containers. The article's runtime is called Sheep; `base` is what the agent expects of it.

`oci` runs real containers with crun or runc; `hollow` simulates them in memory. Both pass one
conformance suite (`shepherd.testing.runtime_suite`).
"""
