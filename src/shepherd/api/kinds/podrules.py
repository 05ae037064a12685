"""What a pod's spec must be, alone and as a template, and what of it may change.

Source: kubernetes pkg/apis/core/validation/validation.go, ValidatePodSpec and ValidatePodUpdate.
"""

import re

from shepherd.api.errors import (
    ApiError,
    FieldError,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
    too_long,
)
from shepherd.api.kinds.checks import (
    Errors,
    absent,
    between,
    ip_address,
    label_selector,
    labels,
    needed,
    one_of,
    quantities,
    text,
    unique,
)
from shepherd.api.kinds.containers import validate_containers, validate_ids, validate_seccomp
from shepherd.api.kinds.scheduling import validate_placement
from shepherd.api.kinds.volumes import validate_volumes
from shepherd.api.names import dns1123_label, dns1123_subdomain, qualified_name
from shepherd.api.resource import Object
from shepherd.api.selectors import selector_of

_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_DNS_POLICIES = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
_PREEMPTION_POLICIES = ("Never", "PreemptLowerPriority")
_MAX_NAMESERVERS = 3
_ANNOTATIONS_LIMIT = 256 * 1024


def validate_pod_spec(spec: Object, path: str) -> Errors:
    """Everything that holds wherever a spec stands; `path` is `spec` or `spec.template.spec`."""
    volumes: list[Object] = spec.get("volumes") or []
    if volumes:
        yield from validate_volumes(volumes, f"{path}.volumes")
    names = {volume.get("name") or "" for volume in volumes}
    yield from validate_containers(spec, path, names)
    yield from one_of(f"{path}.restartPolicy", spec.get("restartPolicy"), _RESTART_POLICIES)
    preemption = spec.get("preemptionPolicy")
    yield from one_of(f"{path}.preemptionPolicy", preemption, _PREEMPTION_POLICIES)
    yield from between(f"{path}.activeDeadlineSeconds", spec.get("activeDeadlineSeconds"), 1)
    for name in ("serviceAccountName", "nodeName", "runtimeClassName", "priorityClassName"):
        yield from text(f"{path}.{name}", spec.get(name) or "", dns1123_subdomain)
    for name in ("hostname", "subdomain"):
        yield from text(f"{path}.{name}", spec.get(name) or "", dns1123_label)
    yield from _validate_dns(spec, path)
    yield from validate_placement(spec, path)
    if overhead := spec.get("overhead"):
        yield from quantities(f"{path}.overhead", overhead)
    if context := spec.get("securityContext"):
        yield from _validate_security(context, spec, f"{path}.securityContext")
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        at = f"{path}.hostAliases[{index}]"
        yield from ip_address(f"{at}.ip", alias.get("ip") or "")
        for hostname in alias.get("hostnames") or ():
            yield from text(f"{at}.hostnames", hostname, dns1123_subdomain)
    yield from _validate_gates(spec, path)


def _validate_dns(spec: Object, path: str) -> Errors:
    policy, config = spec.get("dnsPolicy"), spec.get("dnsConfig") or {}
    yield from one_of(f"{path}.dnsPolicy", policy, _DNS_POLICIES)
    servers = config.get("nameservers") or []
    at = f"{path}.dnsConfig.nameservers"
    if policy == "None":
        if not config:
            detail = "must provide `dnsConfig` when `dnsPolicy` is None"
            yield required(f"{path}.dnsConfig", detail)
        elif not servers:
            detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            yield required(at, detail)
    if len(servers) > _MAX_NAMESERVERS:
        detail = f"must not have more than {_MAX_NAMESERVERS} nameservers"
        yield invalid_value(at, servers, detail)
    for index, server in enumerate(servers):
        yield from ip_address(f"{at}[{index}]", server)


_LONGEST_SYSCTL = 253
_SYSCTL = re.compile(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?")


def _validate_security(context: Object, spec: Object, path: str) -> Errors:
    yield from validate_ids(context, path)
    yield from validate_seccomp(context.get("seccompProfile"), f"{path}.seccompProfile")
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        yield from between(f"{path}.supplementalGroups[{index}]", group, 0)
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield invalid_value(path.replace("securityContext", "shareProcessNamespace"), True, detail)
    names: set[str] = set()
    for index, sysctl in enumerate(context.get("sysctls") or ()):
        at = f"{path}.sysctls[{index}].name"
        name = sysctl.get("name") or ""
        yield from needed(at, name)
        if name and not (len(name) <= _LONGEST_SYSCTL and _SYSCTL.fullmatch(name)):
            detail = f"must have at most 253 characters and match regex ^{_SYSCTL.pattern}$"
            yield invalid_value(at, name, detail)
        yield from unique(at, name, names)


def _validate_gates(spec: Object, path: str) -> Errors:
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        at = f"{path}.readinessGates[{index}].conditionType"
        yield from needed(at, gate.get("conditionType"), qualified_name)
    names: set[str] = set()
    gates = spec.get("schedulingGates") or ()
    for index, gate in enumerate(gates):
        at = f"{path}.schedulingGates[{index}].name"
        yield from needed(at, gate.get("name"), qualified_name)
        yield from unique(at, gate.get("name") or "", names)
    if gates:
        detail = "cannot be set until all schedulingGates have been cleared"
        yield from absent(f"{path}.nodeName", spec.get("nodeName"), detail)


def validate_pod(pod: Object) -> list[FieldError]:
    return list(validate_pod_spec(pod.get("spec") or {}, "spec"))


# -- as a template -----------------------------------------------------------------------------


def validate_template(spec: Object, kind: str, policies: tuple[str, ...] = ("Always",)) -> Errors:
    """`spec.selector` and `spec.template` of a workload whose pods restart by one of `policies`."""
    selector = spec.get("selector")
    if selector is None:
        yield required("spec.selector")
    elif not selector.get("matchLabels") and not selector.get("matchExpressions"):
        detail = f"empty selector is invalid for {kind}"
        yield invalid_value("spec.selector", selector, detail)
    yield from label_selector("spec.selector", selector)
    template = spec.get("template") or {}
    own = (template.get("metadata") or {}).get("labels") or {}
    if template and selector and not _selects(selector, own):
        detail = "`selector` does not match template `labels`"
        yield invalid_value("spec.template.metadata.labels", own, detail)
    yield from validate_pods(template, "spec.template", policies)
    if "Always" in policies:
        deadline = (template.get("spec") or {}).get("activeDeadlineSeconds")
        detail = "activeDeadlineSeconds in ReplicaSet is not Supported"
        yield from absent("spec.template.spec.activeDeadlineSeconds", deadline, detail)


def validate_pods(template: Object | None, path: str, policies: tuple[str, ...]) -> Errors:
    """A pod template itself, whose pods restart by one of `policies`."""
    if not template:
        yield required(path)
        return
    metadata = template.get("metadata") or {}
    yield from labels(f"{path}.labels", metadata.get("labels"))
    yield from _annotations(f"{path}.annotations", metadata.get("annotations"))
    pod_spec = template.get("spec") or {}
    yield from validate_pod_spec(pod_spec, f"{path}.spec")
    policy = pod_spec.get("restartPolicy")
    if "Always" not in policies and policy in (None, "Always"):
        allowed = ", ".join(f'"{name}"' for name in policies)
        yield required(f"{path}.spec.restartPolicy", f"valid values: {allowed}")
    elif policy not in policies:
        yield not_supported(f"{path}.spec.restartPolicy", policy, list(policies))


def _selects(selector: Object, own: Object) -> bool:
    try:
        return selector_of(selector).matches(own)
    except ApiError:
        return True  # it cannot be read, and has been named for that


def _annotations(path: str, annotations: Object | None) -> Errors:
    size = 0
    for key, value in (annotations or {}).items():
        yield from text(path, key.lower(), qualified_name)
        size += len(key) + len(str(value))
    if size > _ANNOTATIONS_LIMIT:
        yield too_long(path, _ANNOTATIONS_LIMIT)


# -- what may change ---------------------------------------------------------------------------

_CHANGES = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def validate_pod_update(pod: Object, old_pod: Object) -> list[FieldError]:
    """A pod is what it was created as, but for a few fields."""
    spec, old = pod.get("spec") or {}, old_pod.get("spec") or {}
    return [] if spec == old else list(_validate_spec_update(spec, old))


def _validate_spec_update(spec: Object, old: Object) -> Errors:
    for kind in ("containers", "initContainers"):
        if len(spec.get(kind) or ()) != len(old.get(kind) or ()):
            detail = "pod updates may not add or remove containers"
            yield forbidden_field(f"spec.{kind}", detail)
            return
    yield from _validate_deadline_update(spec, old)
    yield from _validate_tolerations_update(spec, old)
    yield from _validate_gates_update(spec, old)
    gated = bool(old.get("schedulingGates"))
    if _fixed(spec, gated=gated) != _fixed(old, gated=gated):
        grace = spec.get("terminationGracePeriodSeconds")
        old_grace = old.get("terminationGracePeriodSeconds") or 0
        if old_grace < 0 and grace == 1:
            old = old | {"terminationGracePeriodSeconds": 1}
        if _fixed(spec, gated=gated) != _fixed(old, gated=gated):
            yield forbidden_field("spec", _CHANGES)


def _fixed(spec: Object, *, gated: bool) -> Object:
    """The spec without what may change or has a rule of its own."""
    free = {"activeDeadlineSeconds", "tolerations", "schedulingGates"}
    if gated:
        # Where a pod may run is still open while a gate keeps it from the scheduler.
        free |= {"nodeSelector", "affinity"}
    fixed = {key: value for key, value in spec.items() if key not in free}
    for kind in ("containers", "initContainers"):
        fixed[kind] = [container | {"image": ""} for container in spec.get(kind) or ()]
    return fixed


def _validate_deadline_update(spec: Object, old: Object) -> Errors:
    new, before = spec.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")
    if before is None or new == before:
        return
    at = "spec.activeDeadlineSeconds"
    if new is None:
        detail = "must not update from a positive integer to nil value"
        yield invalid_value(at, None, detail)
    elif new > before:
        yield invalid_value(at, new, "must be less than or equal to previous value")


def _validate_tolerations_update(spec: Object, old: Object) -> Errors:
    def loose(toleration: Object) -> frozenset[tuple[str, str]]:
        return frozenset(item for item in toleration.items() if item[0] != "tolerationSeconds")

    kept = {loose(toleration) for toleration in spec.get("tolerations") or ()}
    if any(loose(toleration) not in kept for toleration in old.get("tolerations") or ()):
        detail = "existing toleration can not be modified except its tolerationSeconds"
        yield forbidden_field("spec.tolerations", detail)


def _validate_gates_update(spec: Object, old: Object) -> Errors:
    known = [gate.get("name") for gate in old.get("schedulingGates") or ()]
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        if gate.get("name") not in known:
            detail = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            yield forbidden_field(f"spec.schedulingGates[{index}]", detail)
