"""The text of `describe`, section by section: pure functions from an object to lines."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from shepherd.api.kinds import CONFIG_MAP, DEPLOYMENT, NODE, POD, REPLICA_SET, SECRET, SERVICE
from shepherd.api.kinds.cells import labels_text, selector_text, since
from shepherd.api.kinds.podsummary import summarize
from shepherd.api.resource import Object, Resource
from shepherd.cli.output import style, table_lines, to_yaml

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_VALUE_LIMIT = 400
_TOP_WIDTH = len("Service account")


@dataclass(frozen=True, slots=True)
class Section:
    """A title with lines under it; without a title the lines stand for themselves."""

    title: str
    body: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        if not self.title:
            return self.body
        head = style(f"{self.title}:", bold=True)
        return [head, *(f"  {line}" for line in self.body)] if self.body else [f"{head}  <none>"]


def aligned(pairs: Mapping[str, object], *, width: int = 0) -> list[str]:
    """`Label:  value` with the values under each other; what is empty is left out."""
    shown = {label: value for label, value in pairs.items() if value not in (None, "", [], {})}
    width = max(width, *map(len, shown), 0) + 1
    return [f"{f'{label}:'.ljust(width)}  {value}" for label, value in shown.items()]


def _top(pairs: Mapping[str, object]) -> Section:
    """Facts about the object as a whole."""
    return Section("", aligned(pairs, width=_TOP_WIDTH))


def describe_object(resource: Resource, obj: Object, now: float) -> list[Section]:
    """What the object itself says, its kind's important things first."""
    own = _BY_KIND.get(resource.storage, _generic)
    return [_head(resource, obj, now), *own(obj, now)]


def _head(resource: Resource, obj: Object, now: float) -> Section:
    metadata = obj["metadata"]
    annotations = dict(metadata.get("annotations") or {})
    annotations.pop(_LAST_APPLIED, None)
    created = metadata.get("creationTimestamp")
    deleted = metadata.get("deletionTimestamp")
    owners = metadata.get("ownerReferences") or ()
    return _top(
        {
            "Name": metadata["name"],
            "Kind": resource.kind,
            "Namespace": metadata.get("namespace"),
            "Created": created and f"{created} ({since(created, now)} ago)",
            "Deletion": deleted and f"asked for, to be done at {deleted}",
            "Finalizers": ", ".join(metadata.get("finalizers") or ()),
            "Controlled by": ", ".join(f"{o['kind']}/{o['name']}" for o in owners),
            "Labels": labels_text(metadata.get("labels")),
            "Annotations": labels_text(annotations),
        }
    )


# -- pods ---------------------------------------------------------------------------------------


def _pod(pod: Object, now: float) -> list[Section]:
    spec, status = pod["spec"], pod.get("status") or {}
    summary = summarize(pod)
    top = _top(
        {
            "Status": summary.status,
            "Message": status.get("message"),
            "Ready": f"{summary.ready}/{summary.total}",
            "Restarts": summary.restarts_text(now),
            "Node": spec.get("nodeName") or "<none>",
            "IP": status.get("podIP"),
            "Service account": spec.get("serviceAccountName"),
            "QoS class": status.get("qosClass"),
            "Node selector": labels_text(spec.get("nodeSelector")),
        }
    )
    sections = [top]
    if reasons := why_pending(pod):
        sections.append(Section("Why pending", reasons))
    for title, kind, states in (
        ("Init containers", "initContainers", "initContainerStatuses"),
        ("Containers", "containers", "containerStatuses"),
    ):
        known = {item["name"]: item for item in status.get(states) or ()}
        lines: list[str] = []
        for container in spec.get(kind) or ():
            lines.append(f"{container['name']}:")
            item = known.get(container["name"], {})
            lines += [f"  {line}" for line in _container(container, item, now)]
        if lines:
            sections.append(Section(title, lines))
    sections.append(Section("Volumes", _volumes(spec)))
    sections.append(_conditions(status, now))
    return sections


def why_pending(pod: Object) -> list[str]:
    """The scheduler's grounds, one a line; empty for a pod that has a node."""
    if pod["spec"].get("nodeName"):
        return []
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            message = str(condition.get("message") or condition.get("reason") or "")
            total, colon, grounds = message.partition(": ")
            if not colon:
                return [message]
            return [total, *(f"- {ground}" for ground in grounds.rstrip(".").split(", "))]
    return ["the scheduler has not looked at it yet"]


def _container(container: Object, status: Object, now: float) -> list[str]:
    resources = container.get("resources") or {}
    ports = [f"{p['containerPort']}/{p.get('protocol')}" for p in container.get("ports") or ()]
    mounts = [f"{m['mountPath']} from {m['name']}" for m in container.get("volumeMounts") or ()]
    last = status.get("lastState") or {}
    return aligned(
        {
            "Image": container.get("image"),
            "Image ID": status.get("imageID"),
            "Container ID": status.get("containerID"),
            "Command": " ".join((container.get("command") or []) + (container.get("args") or [])),
            "Ports": ", ".join(ports),
            "State": state_text(status.get("state") or {}, now) if status else "",
            "Last state": state_text(last, now) if last else "",
            "Ready": str(bool(status.get("ready"))) if status else "",
            "Restarts": status.get("restartCount"),
            "Requests": labels_text(resources.get("requests")),
            "Limits": labels_text(resources.get("limits")),
            "Liveness": probe_text(container.get("livenessProbe")),
            "Readiness": probe_text(container.get("readinessProbe")),
            "Startup": probe_text(container.get("startupProbe")),
            "Environment": ", ".join(_variable(v) for v in container.get("env") or ()),
            "Mounts": ", ".join(mounts),
        }
    )


def state_text(state: Object, now: float) -> str:
    """`Running for 5m`, `Waiting (ErrImagePull): ...`, `Terminated (Error), exit code 1, ...`."""
    if running := state.get("running"):
        return f"Running for {since(running.get('startedAt'), now)}"
    if ended := state.get("terminated"):
        reason = f" ({ended['reason']})" if ended.get("reason") else ""
        text = f"Terminated{reason}, exit code {ended.get('exitCode')}"
        text += f", {since(ended.get('finishedAt'), now)} ago"
        return f"{text}: {ended['message']}" if ended.get("message") else text
    waiting = state.get("waiting") or {}
    reason = f" ({waiting['reason']})" if waiting.get("reason") else ""
    return f"Waiting{reason}" + (f": {waiting['message']}" if waiting.get("message") else "")


def probe_text(probe: Object | None) -> str:
    """What a probe asks, and how often."""
    if not probe:
        return ""
    if get := probe.get("httpGet"):
        what = f"{str(get.get('scheme', 'HTTP')).lower()}://:{get.get('port')}{get.get('path')}"
    elif socket := probe.get("tcpSocket"):
        what = f"tcp :{socket.get('port')}"
    elif command := probe.get("exec"):
        what = "exec " + " ".join(command.get("command") or ())
    else:
        what = f"grpc :{(probe.get('grpc') or {}).get('port')}"
    return (
        f"{what} after {probe.get('initialDelaySeconds', 0)}s every {probe.get('periodSeconds')}s, "
        f"time-out {probe.get('timeoutSeconds')}s, fails after {probe.get('failureThreshold')}"
    )


def _variable(variable: Object) -> str:
    source = variable.get("valueFrom")
    if not source:
        return f"{variable['name']}={variable.get('value', '')}"
    (kind, reference), *_ = source.items()
    shown = reference.get("key") or reference.get("fieldPath") or reference.get("resource")
    of = f"{reference['name']}." if reference.get("name") else ""
    return f"{variable['name']}=<{kind.removesuffix('KeyRef').removesuffix('Ref')} {of}{shown}>"


def _volumes(spec: Object) -> list[str]:
    pairs: dict[str, object] = {}
    for volume in spec.get("volumes") or ():
        for kind, source in volume.items():
            if kind != "name":
                name = (source or {}).get("name") or (source or {}).get("secretName")
                pairs[volume["name"]] = f"{kind} {name or (source or {}).get('path') or ''}".strip()
    return aligned(pairs)


# -- the other kinds ----------------------------------------------------------------------------


def _conditions(status: Object, now: float) -> Section:
    rows = [
        [
            condition.get("type"),
            condition.get("status"),
            since(condition.get("lastTransitionTime"), now),
            condition.get("reason") or "",
            condition.get("message") or "",
        ]
        for condition in status.get("conditions") or ()
    ]
    headers = ("TYPE", "STATUS", "SINCE", "REASON", "MESSAGE")
    return Section("Conditions", table_lines(headers, rows) if rows else [])


def _template(spec: Object) -> Section:
    template = spec.get("template") or {}
    pod = template.get("spec") or {}
    lines = aligned({"Labels": labels_text((template.get("metadata") or {}).get("labels"))})
    for container in pod.get("containers") or ():
        lines.append(f"{container['name']}:")
        lines += [f"  {line}" for line in _container(container, {}, 0)]
    return Section("Pod template", lines)


def _deployment(deployment: Object, now: float) -> list[Section]:
    spec, status = deployment["spec"], deployment.get("status") or {}
    strategy = spec.get("strategy") or {}
    rolling = strategy.get("rollingUpdate") or {}
    surge = ", ".join(f"{value} {key}" for key, value in sorted(rolling.items()))
    counts = (
        f"{spec.get('replicas')} desired, {status.get('updatedReplicas', 0)} updated, "
        f"{status.get('replicas', 0)} total, {status.get('availableReplicas', 0)} available, "
        f"{status.get('unavailableReplicas', 0)} unavailable"
    )
    top = _top(
        {
            "Selector": selector_text(spec.get("selector")),
            "Replicas": counts,
            "Strategy": f"{strategy.get('type')}" + (f" ({surge})" if surge else ""),
            "Min ready": f"{spec['minReadySeconds']} s" if spec.get("minReadySeconds") else "",
            "Paused": spec.get("paused") or "",
        }
    )
    return [top, _template(spec), _conditions(status, now)]


def _replica_set(replica_set: Object, now: float) -> list[Section]:
    spec, status = replica_set["spec"], replica_set.get("status") or {}
    counts = (
        f"{spec.get('replicas')} desired, {status.get('replicas', 0)} current, "
        f"{status.get('readyReplicas', 0)} ready"
    )
    top = _top({"Selector": selector_text(spec.get("selector")), "Replicas": counts})
    return [top, _template(spec), _conditions(status, now)]


def _service(service: Object, now: float) -> list[Section]:
    spec = service["spec"]
    rows = [
        [
            port.get("name") or "<unnamed>",
            f"{port.get('port')}/{port.get('protocol')}",
            port.get("targetPort"),
            port.get("nodePort") or "",
        ]
        for port in spec.get("ports") or ()
    ]
    top = _top(
        {
            "Type": spec.get("type"),
            "Address": ", ".join(spec.get("clusterIPs") or ()) or spec.get("externalName"),
            "Selector": labels_text(spec.get("selector")),
            "Affinity": spec.get("sessionAffinity"),
        }
    )
    headers = ("PORT", "SERVICE", "TARGET", "NODE PORT")
    return [top, Section("Ports", table_lines(headers, rows) if rows else [])]


def _node(node: Object, now: float) -> list[Section]:
    spec, status = node.get("spec") or {}, node.get("status") or {}
    info = status.get("nodeInfo") or {}
    capacity, allocatable = status.get("capacity") or {}, status.get("allocatable") or {}
    taints = [f"{t['key']}={t.get('value', '')}:{t['effect']}" for t in spec.get("taints") or ()]
    addresses = [f"{a['address']} ({a['type']})" for a in status.get("addresses") or ()]
    top = _top(
        {
            "Status": NODE.columns[0].cell(node, now),
            "Taints": ", ".join(taints),
            "Addresses": ", ".join(addresses),
            "Pod addresses": spec.get("podCIDR"),
            "System": f"{info.get('osImage', '')}, kernel {info.get('kernelVersion', '')}",
            "Runtime": info.get("containerRuntimeVersion"),
            "Version": info.get("kubeletVersion"),
        }
    )
    rows = [[name, capacity[name], allocatable.get(name)] for name in sorted(capacity)]
    resources = table_lines(("RESOURCE", "CAPACITY", "ALLOCATABLE"), rows) if rows else []
    return [top, Section("Resources", resources), _conditions(status, now)]


def _config_map(config: Object, now: float) -> list[Section]:
    lines: list[str] = []
    for key, value in (config.get("data") or {}).items():
        shown = value if len(value) <= _VALUE_LIMIT else value[:_VALUE_LIMIT] + " ..."
        lines += [f"{key}:", *(f"  {line}" for line in shown.splitlines())]
    for key, text in (config.get("binaryData") or {}).items():
        lines.append(f"{key}: {_decoded_size(text)} bytes")
    return [Section("Data", lines)]


def _secret(secret: Object, now: float) -> list[Section]:
    """The keys and sizes only: a terminal is no place for what is secret."""
    data = secret.get("data") or {}
    sizes = {key: f"{_decoded_size(text)} bytes" for key, text in data.items()}
    return [_top({"Type": secret.get("type")}), Section("Data", aligned(sizes))]


def _decoded_size(text: str) -> int:
    return len(text) * 3 // 4 - text.count("=")


def _generic(obj: Object, now: float) -> list[Section]:
    head = ("apiVersion", "kind", "metadata")
    return [
        Section(key.capitalize(), _yaml_lines(value))
        for key, value in obj.items()
        if key not in head and value not in (None, "", {}, [])
    ]


def _yaml_lines(value: object) -> list[str]:
    lines: Iterable[str]
    if isinstance(value, dict):
        lines = to_yaml(value).splitlines()
    elif isinstance(value, list):
        lines = to_yaml({"items": value}).splitlines()[1:]
    else:
        lines = [str(value)]
    return list(lines)


_BY_KIND: dict[str, Callable[[Object, float], list[Section]]] = {
    resource.storage: function
    for resource, function in (
        (POD, _pod),
        (DEPLOYMENT, _deployment),
        (REPLICA_SET, _replica_set),
        (SERVICE, _service),
        (NODE, _node),
        (CONFIG_MAP, _config_map),
        (SECRET, _secret),
    )
}
