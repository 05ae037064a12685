"""Which pods stand behind a Service, at which ports, and in which condition.

Source: kubernetes pkg/controller/endpointslice and staging/src/k8s.io/endpointslice.
"""

import ipaddress
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from shepherd.api.kinds import SERVICE
from shepherd.api.objects import Pod, Service
from shepherd.api.resource import Object
from shepherd.api.selectors import Selector, labels_selector
from shepherd.client.workqueue import WorkQueue
from shepherd.controllers.informers import Informers
from shepherd.controllers.ownership import controller_reference

HEADLESS_LABEL = "service.kubernetes.io/headless"


@dataclass(frozen=True, slots=True)
class Port:
    """A port of a Service as one pod has it."""

    name: str
    protocol: str
    port: int
    app_protocol: str = ""

    def as_json(self) -> Object:
        obj: Object = {"name": self.name, "protocol": self.protocol, "port": self.port}
        return obj | ({"appProtocol": self.app_protocol} if self.app_protocol else {})


Ports = tuple[Port, ...]


@dataclass(frozen=True, slots=True)
class Backend:
    """A pod behind a Service."""

    address: str
    ports: Ports
    ready: bool
    serving: bool
    terminating: bool
    node: str
    hostname: str
    pod: str
    namespace: str
    uid: str

    @property
    def family(self) -> str:
        """The addressType of its slice."""
        return f"IPv{ipaddress.ip_address(self.address).version}"

    def target(self) -> Object:
        return {"kind": "Pod", "namespace": self.namespace, "name": self.pod, "uid": self.uid}


def backends(service: Service, pods: Iterable[Pod]) -> list[Backend]:
    """The pods (of the Service's namespace) that it selects and that have an address."""
    selector = selector_of(service)
    found = []
    for pod in pods:
        if not selector.matches(pod.metadata.labels) or pod.finished or not pod.status.pod_ip:
            continue
        terminating = bool(pod.metadata.deletion_timestamp)
        publish = service.spec.publish_not_ready_addresses
        named = pod.spec.subdomain == service.metadata.name
        found.append(
            Backend(
                address=pod.status.pod_ip,
                ports=ports_of(service, pod),
                ready=publish or (pod.ready and not terminating),
                serving=pod.ready,
                terminating=terminating,
                node=pod.spec.node_name,
                hostname=pod.spec.hostname if named else "",
                pod=pod.metadata.name,
                namespace=pod.metadata.namespace,
                uid=pod.metadata.uid,
            )
        )
    return sorted(found, key=lambda backend: backend.pod)


def selector_of(service: Service) -> Selector:
    return labels_selector(service.spec.selector or {})


def ports_of(service: Service, pod: Pod) -> Ports:
    """The Service's ports with named targets looked up in the pod; those it lacks are left out."""
    found = []
    for port in service.spec.ports:
        target = port.target_port or port.port
        number = target if isinstance(target, int) else _named_port(pod, target, port.protocol)
        if number:
            found.append(Port(port.name, port.protocol, number, port.app_protocol))
    return tuple(found)


def _named_port(pod: Pod, name: str, protocol: str) -> int:
    sidecars = [c for c in pod.spec.init_containers if c.restart_policy == "Always"]
    for container in pod.spec.containers + sidecars:
        for port in container.ports:
            if port.name == name and port.protocol == protocol:
                return port.container_port
    return 0


def service_labels(service: Service) -> dict[str, str]:
    """The labels that what is made for a Service takes over from it."""
    labels = dict(service.metadata.labels)
    if service.spec.cluster_ip == "None":
        labels[HEADLESS_LABEL] = ""
    return labels


def service_reference(service: Service) -> Object:
    return controller_reference(SERVICE, service.metadata)


def watch_backends(informers: Informers, queue: WorkQueue, *, coalesce_seconds: float) -> None:
    """Add a Service's key when it, or a pod that concerns it, changes.

    Pods that come within `coalesce_seconds` are published together. One that goes is taken out at
    once: it may be sent its SIGTERM at any moment.
    """

    def service_changed(old: Service | None, new: Service | None) -> None:
        queue.add((new or old or Service()).metadata.key)

    def pod_changed(old: Pod | None, new: Pod | None) -> None:
        if old and new and _relevant(old) == _relevant(new):
            return
        leaving = new is None or new.metadata.deletion_timestamp
        add: Callable[[str], None] = queue.add if leaving else later
        labels = [pod.metadata.labels for pod in (old, new) if pod]
        namespace = (new or old or Pod()).metadata.namespace
        for service in informers.services.by_index("namespace", namespace):
            if service.spec.selector and any(map(selector_of(service).matches, labels)):
                add(service.metadata.key)

    def later(key: str) -> None:
        queue.add_after(key, coalesce_seconds)

    informers.services.on_change(service_changed)
    informers.pods.on_change(pod_changed)


def _relevant(pod: Pod) -> tuple[object, ...]:
    """All of a pod's changing state that a Service's backends are made of."""
    return (
        pod.metadata.labels,
        bool(pod.metadata.deletion_timestamp),
        pod.status.pod_ip,
        pod.finished,
        pod.ready,
        pod.spec.node_name,
    )
