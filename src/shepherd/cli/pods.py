"""The pods of what a user names: those of a workload, of a service, or one pod itself."""

from shepherd.api.kinds import POD
from shepherd.api.resource import Object
from shepherd.api.selectors import labels_selector, selector_of
from shepherd.cli.session import Failure, Usage
from shepherd.cli.targets import Target
from shepherd.client.base import Client

_BY_LABELS = ("Service", "ReplicationController")
"""Kinds whose selector is labels, and nothing more."""
_KINDS = (*_BY_LABELS, "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job")


async def pods_of(client: Client, target: Target, namespace: str) -> tuple[list[Object], Object]:
    """The pods that a workload or service selects, and itself. Raises Usage for other kinds."""
    if target.resource.kind not in _KINDS:
        raise Usage(f"{target.resource.plural} have no pods: name a pod or a deployment")
    owner = await client.get(target.resource, target.name, namespace)
    chosen = owner["spec"].get("selector")
    by_labels = target.resource.kind in _BY_LABELS
    labels = str(labels_selector(chosen or {}) if by_labels else selector_of(chosen))
    if not labels:
        return [], owner
    return (await client.list(POD, namespace, label_selector=labels)).items, owner


async def running_pod(client: Client, target: Target, namespace: str) -> tuple[Object, Object]:
    """A pod that runs, of what is named, and what is named itself. Raises Failure and Usage."""
    if target.resource is POD:
        pod = await client.get(POD, target.name, namespace)
        return pod, pod
    pods, owner = await pods_of(client, target, namespace)
    for pod in pods:
        if (pod.get("status") or {}).get("phase") == "Running":
            return pod, owner
    raise Failure(f"no pod of {target.resource.kind.lower()}/{target.name} is running")
