"""What a pod may learn of itself: field and resource references (the downward API). Pure.

Source: kubernetes pkg/fieldpath and pkg/api/v1/resource ExtractContainerResourceValue.
"""

import json
import re
from collections.abc import Mapping

from shepherd.agent.pod_state import BoundPod
from shepherd.agent.references import UnresolvedError
from shepherd.api.objects import Container
from shepherd.api.objects.pod import ResourceFieldSelector
from shepherd.api.quantity import quantity

_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")


def field_value(pod: BoundPod, status: Mapping[str, object], path: str) -> str:
    """The text of a field of the pod. Raises UnresolvedError for one that cannot be had."""
    meta = pod.metadata
    if match := _SUBSCRIPT.fullmatch(path):
        return (meta.labels if match[1] == "labels" else meta.annotations).get(match[2], "")
    values = {
        "metadata.name": meta.name,
        "metadata.namespace": meta.namespace,
        "metadata.uid": meta.uid,
        "metadata.labels": _lines(meta.labels),
        "metadata.annotations": _lines(meta.annotations),
        "spec.nodeName": pod.spec.node_name,
        "spec.serviceAccountName": pod.spec.service_account_name,
    }
    if path in values:
        return values[path]
    if path in ("status.hostIP", "status.podIP"):
        return str(status.get(path.removeprefix("status.")) or "")
    if path in ("status.hostIPs", "status.podIPs"):
        addresses = status.get(path.removeprefix("status.")) or []
        assert isinstance(addresses, list)
        return ",".join(address["ip"] for address in addresses)
    raise UnresolvedError(f"unsupported fieldPath: {path}")


def _lines(values: Mapping[str, str]) -> str:
    """`key="value"` lines, sorted, as files of labels and annotations hold them."""
    return "\n".join(f"{key}={json.dumps(values[key])}" for key in sorted(values))


def resource_value(
    pod: BoundPod,
    container: Container | None,
    selector: ResourceFieldSelector,
    allocatable: Mapping[str, str],
) -> str:
    """A request or limit in units of the divisor, rounded up.

    What is not limited may use all the node has (`allocatable`). `container` is the one that asks;
    the selector may name another.
    """
    if selector.container_name:
        everyone = pod.spec.everyone
        named = [c for c in everyone if c.name == selector.container_name]
        container = named[0] if named else None
    if container is None:
        raise UnresolvedError(f"container {selector.container_name} not found")
    which, _, name = selector.resource.partition(".")
    if which not in ("limits", "requests"):
        raise UnresolvedError(f"unsupported container resource: {selector.resource}")
    resources = container.resources
    own = resources.limits if which == "limits" else resources.requests
    amount = own.get(name, allocatable.get(name, "0") if which == "limits" else "0")
    divisor = selector.divisor if selector.divisor not in ("", "0", 0) else "1"
    return str(-(-quantity(amount).nano // quantity(divisor).nano))
