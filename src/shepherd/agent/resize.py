"""In-place resize: what a pod has been granted of the node, and whether it gets what it asks for.

What containers have is known by the runtime; a pod that asks for something else keeps that until
the node grants the new. Pure. Source: kubernetes pkg/kubelet/allocation, pkg/kubelet/events.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from shepherd.agent.admission import Amounts, requests, shortage
from shepherd.agent.container_config import resources_of
from shepherd.agent.pod_state import BoundPod, Verdict
from shepherd.api.objects import Container
from shepherd.api.objects.pod import ResourceRequirements
from shepherd.api.quantity import NANO, Quantity, canonical
from shepherd.api.resource import Object
from shepherd.runtime.base import Resources, SandboxInfo


@dataclass(frozen=True, slots=True)
class Grant:
    """A pod as it asks to be, and as it may be."""

    asked: BoundPod
    pod: BoundPod
    """`asked`, with the resources that it has where it does not get others."""
    refused: Verdict | None = None
    """Deferred or Infeasible, and why."""


def grant(
    asked: BoundPod, held: BoundPod, others: Iterable[BoundPod], allocatable: Amounts
) -> Grant:
    """What a pod that has the resources of `held` gets, beside `others`. Less is always granted."""
    kept = with_resources_of(asked, held)
    if kept is asked or asked.finished or not allocatable:
        return Grant(asked, asked)
    wanted, had = requests(asked), requests(kept)
    more = {name: amount for name, amount in wanted.items() if amount > had.get(name, 0)}
    if short := shortage(more, wanted, [], allocatable):
        text = f"Node didn't have enough capacity: {short.name}, requested: {short.requested}"
        return Grant(asked, kept, Verdict("Infeasible", f"{text}, capacity: {short.capacity}"))
    if short := shortage(more, wanted, others, allocatable):
        return Grant(asked, kept, Verdict("Deferred", str(short)))
    return Grant(asked, asked)


def as_held(pod: BoundPod, sandboxes: list[SandboxInfo]) -> BoundPod:
    """The pod with the resources of its containers' newest attempts."""
    infos = [info for sandbox in sandboxes for info in sandbox.containers]
    infos.sort(key=lambda info: info.attempt)
    return with_resources(pod, {info.name: info.resources for info in infos})


def with_resources_of(pod: BoundPod, other: BoundPod) -> BoundPod:
    """The pod with the resources of another state of it; the same one if it has them."""
    containers = (*other.spec.init_containers, *other.spec.containers)
    return with_resources(pod, {c.name: resources_of(c) for c in containers})


def with_resources(pod: BoundPod, given: Mapping[str, Resources]) -> BoundPod:
    """The pod with these resources in its spec, by container; the same one if it has them."""
    spec = pod.spec
    changed = msgspec.structs.replace(
        spec,
        containers=[_given(c, given) for c in spec.containers],
        init_containers=[
            _given(c, given) if c.restart_policy == "Always" else c for c in spec.init_containers
        ],
    )
    return pod if changed == spec else msgspec.structs.replace(pod, spec=changed)


def _given(container: Container, given: Mapping[str, Resources]) -> Container:
    wanted = given.get(container.name)
    if wanted is None or wanted == resources_of(container):
        return container
    return msgspec.structs.replace(container, resources=requirements(container, wanted))


def requirements(container: Container, resources: Resources) -> ResourceRequirements:
    """The container's requests and limits, with cpu and memory as in `resources`."""
    own = container.resources
    if resources == resources_of(container):
        return own
    return ResourceRequirements(
        requests=_amounts(
            own.requests, resources.cpu_request_millis, resources.memory_request_bytes
        ),
        limits=_amounts(own.limits, resources.cpu_millis, resources.memory_bytes),
    )


def _amounts(
    stated: Amounts, cpu_millis: int | None, memory: int | None
) -> dict[str, str | int | float]:
    amounts = {name: value for name, value in stated.items() if name not in ("cpu", "memory")}
    if cpu_millis:
        amounts["cpu"] = canonical(f"{cpu_millis}m")
    if memory:
        amounts["memory"] = str(Quantity(memory * NANO, "binary"))
    return amounts


def as_object(requirements: ResourceRequirements) -> Object:
    """As the API has them."""
    found: Object = {}
    for name, amounts in (("limits", requirements.limits), ("requests", requirements.requests)):
        if amounts:
            found[name] = {key: canonical(value) for key, value in sorted(amounts.items())}
    return found


def summary(pod: BoundPod, error: str = "") -> str:
    """What an event about a resize says of the pod, as kubelet does."""
    lists = {"initContainers": pod.spec.init_containers, "containers": pod.spec.containers}
    told: Object = {
        name: [{"name": c.name, "resources": as_object(c.resources)} for c in containers]
        for name, containers in lists.items()
        if containers
    }
    told["generation"] = pod.metadata.generation
    return json.dumps(told | ({"error": error} if error else {}), separators=(",", ":"))
