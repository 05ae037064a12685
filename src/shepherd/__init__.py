"""Shepherd: an orchestrator with the Kubernetes API, for when Kubernetes is too heavy.

Where to start reading: docs/ARCHITECTURE.md.
"""

__version__ = "0.1.0"
