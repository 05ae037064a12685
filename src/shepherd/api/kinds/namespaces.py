"""Namespace."""

from shepherd.api.kinds.cells import AGE
from shepherd.api.kinds.shape import child, fill
from shepherd.api.resource import VERBS, Column, Object, Resource

NAME_LABEL = "kubernetes.io/metadata.name"
"""Every namespace carries its name as a label, so that selectors can choose it."""


def _default(namespace: Object) -> None:
    metadata = child(namespace, "metadata")
    if name := metadata.get("name"):
        child(metadata, "labels")[NAME_LABEL] = name
    child(namespace, "spec")
    fill(child(namespace, "status"), {"phase": "Active"})


def _phase(namespace: Object, now: float) -> str:
    return (namespace.get("status") or {}).get("phase") or ""


def _prepare(namespace: Object, old: Object | None) -> None:
    """`spec.finalizers` hold a namespace until its content is gone; only `finalize` ends them."""
    spec = child(namespace, "spec")
    if old is None:
        finalizers = spec.setdefault("finalizers", [])
        if "kubernetes" not in finalizers:
            finalizers.append("kubernetes")
    else:
        namespace["spec"] = old.get("spec") or {}


NAMESPACE = Resource(
    group="",
    version="v1",
    kind="Namespace",
    plural="namespaces",
    namespaced=False,
    verbs=tuple(verb for verb in VERBS if verb != "deletecollection"),
    short_names=("ns",),
    status=True,
    name_rule="dns1123label",
    columns=(Column("Status", _phase, description="Active or Terminating."), AGE),
    default=_default,
    prepare=_prepare,
    fields=lambda namespace: {"status.phase": _phase(namespace, 0)},
)
