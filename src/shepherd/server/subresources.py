"""What stands behind an object's path: status, scale, binding, finalize and more.

The explicit table is `SUBRESOURCES`; what needs more room has a module of its own. Source:
kubernetes pkg/registry/core/pod/storage, pkg/registry/apps/deployment/storage,
pkg/registry/core/namespace.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from shepherd.api import errors
from shepherd.api.kinds import NAMESPACE, NODE, POD, SERVICE, SERVICE_ACCOUNT
from shepherd.api.kinds.certificates import CERTIFICATE_SIGNING_REQUEST
from shepherd.api.kinds.ephemeral import validate_ephemeral_update
from shepherd.api.kinds.replicationcontrollers import REPLICATION_CONTROLLER
from shepherd.api.kinds.resize import resized, validate_resize
from shepherd.api.meta import format_time
from shepherd.api.resource import Object, Resource
from shepherd.api.selectors import NOTHING, selector_of
from shepherd.lib.http import Response
from shepherd.server import proxy, reads, registry
from shepherd.server.codec import decode, with_revision
from shepherd.server.eviction import evict
from shepherd.server.handlers import Call, Handlers, json_answer, warn
from shepherd.server.metadata import check_target
from shepherd.server.signing import patch_approval, patch_signed, put_approval, put_signed
from shepherd.server.tokenrequests import create_token

Serve = Callable[[Handlers, Call], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Subresource:
    """One subresource: whose it is, its verbs, and what discovery says of it."""

    name: str
    has: Callable[[Resource], bool]
    verbs: dict[str, Serve]
    group: str = ""
    """Group, version and kind of what it reads and writes, where that is not the parent's own."""
    version: str = ""
    kind: str = ""


async def _get(handlers: Handlers, call: Call) -> Response:
    return await handlers.get(call)


async def _put_status(handlers: Handlers, call: Call) -> Response:
    return await handlers.update(call, registry.status)


async def _patch_status(handlers: Handlers, call: Call) -> Response:
    return await handlers.patch(call, registry.status)


async def _put_finalize(handlers: Handlers, call: Call) -> Response:
    return await handlers.update(call, _finalize)


def _finalize(resource: Resource, wanted: Object, old: Object) -> Object:
    """Only the namespace's own finalizers change; without any left it goes."""
    finalizers = (wanted.get("spec") or {}).get("finalizers") or []
    return old | {"spec": (old.get("spec") or {}) | {"finalizers": finalizers}}


async def _put_ephemeral(handlers: Handlers, call: Call) -> Response:
    return await handlers.update(call, _add_ephemeral)


async def _patch_ephemeral(handlers: Handlers, call: Call) -> Response:
    return await handlers.patch(call, _add_ephemeral)


def _add_ephemeral(resource: Resource, wanted: Object, old: Object) -> Object:
    """Only the ephemeral containers change. Raises ApiError 422."""
    resource.default(wanted)
    containers = wanted["spec"].get("ephemeralContainers") or []
    new = old | {
        "metadata": dict(old["metadata"]),
        "spec": old["spec"] | ({"ephemeralContainers": containers} if containers else {}),
    }
    if found := validate_ephemeral_update(new, old):
        raise errors.invalid("", resource.kind, old["metadata"]["name"], found)
    registry.count_generation(resource, new, old)
    return new


async def _put_resize(handlers: Handlers, call: Call) -> Response:
    return await handlers.update(call, _resize)


async def _patch_resize(handlers: Handlers, call: Call) -> Response:
    return await handlers.patch(call, _resize)


def _resize(resource: Resource, wanted: Object, old: Object) -> Object:
    """Only the resources of containers change. Raises ApiError 422."""
    resource.default(wanted)
    new = resized(wanted, old)
    if found := validate_resize(new, old):
        raise errors.invalid("", resource.kind, old["metadata"]["name"], found)
    registry.count_generation(resource, new, old)
    return new


async def _get_scale(handlers: Handlers, call: Call) -> Response:
    revision = reads.revision_of(call.query.get("resourceVersion", ""))
    await reads.wait_for(handlers.store, revision)
    item = await handlers.registry.item(call.route)
    obj = await handlers.registry.versions.load(call.route.resource, item)
    return json_answer(scale_of(call.route.resource, with_revision(obj, item.revision)))


async def _put_scale(handlers: Handlers, call: Call) -> Response:
    wanted = call.body("autoscaling", "v1", "Scale").object
    return await _write_scale(handlers, call, lambda scale: wanted)


async def _patch_scale(handlers: Handlers, call: Call) -> Response:
    if call.applies:
        return await _apply_scale(handlers, call)
    patch = call.patch("autoscaling", "v1", "Scale")
    return await _write_scale(handlers, call, lambda scale: patch(scale).object)


_IDENTITY = ("name", "namespace", "uid", "resourceVersion")
"""Of metadata what a scale may say: the rest is the object's own."""


async def _apply_scale(handlers: Handlers, call: Call) -> Response:
    """An apply to the scale is one of spec.replicas to the object itself."""
    decoded = call.config("autoscaling", "v1", "Scale")
    scale, resource = decoded.object, call.route.resource
    config: Object = {"kind": resource.kind, "apiVersion": resource.api_version}
    given = scale.get("metadata") or {}
    config["metadata"] = {field: given[field] for field in _IDENTITY if field in given}
    if "replicas" in (scale.get("spec") or {}):
        config = _put(config, resource.scale_paths.replicas, _replicas(scale))
    written = await handlers.registry.apply(
        call.route,
        config,
        call.user,
        writer=call.writer(handlers.now()),
        merge=registry.main,
        force=call.force,
        dry_run=call.dry_run,
    )
    return warn(_scale_answer(resource, written), decoded.warnings)


def _scale_answer(resource: Resource, written: registry.Written) -> Response:
    obj = with_revision(decode(written.value), written.revision)
    return json_answer(scale_of(resource, obj))


async def _write_scale(
    handlers: Handlers, call: Call, change: Callable[[Object], Object]
) -> Response:
    resource = call.route.resource

    def make(present: Object) -> Object:
        wanted = change(scale_of(resource, present))
        replicas = _replicas(wanted)
        metadata = present["metadata"]
        asked = wanted.get("metadata") or {}
        metadata = metadata | {
            field: asked.get(field, "") for field in ("uid", "resourceVersion") if field in asked
        }
        changed = _put(present, resource.scale_paths.replicas, replicas)
        return changed | {"metadata": metadata}

    written = await handlers.registry.update(
        call.route,
        make,
        call.user,
        merge=registry.main,
        writer=call.writer(handlers.now()),
        dry_run=call.dry_run,
    )
    return _scale_answer(resource, written)


def _put(obj: Object, path: tuple[str, ...], value: int) -> Object:
    """A copy of `obj` that has `value` at the path."""
    name, *rest = path
    return obj | {name: _put(obj.get(name) or {}, tuple(rest), value) if rest else value}


def _at(obj: Object, path: tuple[str, ...]) -> Any:
    """What is at the path; None if there is nothing."""
    value: Any = obj
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _replicas(scale: Object) -> int:
    replicas: int = (scale.get("spec") or {}).get("replicas", 0)
    if replicas < 0:
        detail = "must be greater than or equal to 0"
        found = [errors.invalid_value("spec.replicas", replicas, detail)]
        name = (scale.get("metadata") or {}).get("name", "")
        raise errors.invalid("autoscaling", "Scale", name, found)
    return replicas


def scale_of(resource: Resource, obj: Object) -> Object:
    """The autoscaling/v1 Scale of a workload."""
    metadata, paths = obj["metadata"], resource.scale_paths
    found = _at(obj, paths.selector) if paths.selector else ""
    if resource is REPLICATION_CONTROLLER:
        found = {"matchLabels": found}
    selector = selector_of(found) if isinstance(found, dict | None) else found
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {field: metadata[field] for field in kept if field in metadata},
        "spec": {"replicas": _at(obj, paths.replicas) or 0},
        "status": {
            "replicas": _at(obj, paths.status_replicas) or 0,
            "selector": "" if selector is NOTHING else str(selector),
        },
    }


VIEWS: dict[str, tuple[Object, Callable[[Resource, Object], Object]]] = {
    "scale": ({"group": "autoscaling", "version": "v1", "kind": "Scale"}, scale_of)
}
"""Subresources that show an object in another form: its group, version and kind, and the form."""


async def bind(handlers: Handlers, call: Call) -> Response:
    """POST pods/{name}/binding: the scheduler's decision, made once."""
    binding = call.body("", "v1", "Binding").object
    check_target(call.route, binding)
    target = binding.get("target") or {}
    node = target.get("name") or ""
    asked = binding.get("metadata") or {}
    if target.get("kind") not in (None, "", "Node"):
        found = [errors.not_supported("target.kind", target["kind"], ["Node", "<empty>"])]
        raise errors.invalid("", "Binding", call.route.name, found)
    if not node:
        raise errors.invalid("", "Binding", call.route.name, [errors.required("target.name")])
    now = format_time(handlers.now())

    def make(pod: Object) -> Object:
        if pod["metadata"].get("deletionTimestamp"):
            detail = f"pod {call.route.name} is being deleted, cannot be assigned to a host"
            raise registry.conflict(call.route, detail)
        spec = pod.get("spec") or {}
        if spec.get("nodeName"):
            detail = f'pod {call.route.name} is already assigned to node "{spec["nodeName"]}"'
            raise registry.conflict(call.route, detail)
        if spec.get("schedulingGates"):
            detail = f"pod {call.route.name} has non-empty .spec.schedulingGates"
            raise registry.conflict(call.route, detail)
        uid = asked.get("uid") or pod["metadata"]["uid"]
        metadata = pod["metadata"] | {"uid": uid}
        if annotations := asked.get("annotations"):
            metadata["annotations"] = (metadata.get("annotations") or {}) | annotations
        return pod | {
            "metadata": metadata,
            "spec": spec | {"nodeName": node},
            "status": _scheduled(pod.get("status") or {}, now),
        }

    await handlers.registry.update(call.route, make, call.user, merge=_assign, dry_run=call.dry_run)
    return json_answer(
        {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201},
        201,
    )


def _assign(resource: Resource, wanted: Object, old: Object) -> Object:
    """A binding sets the node, the condition and annotations, past the rules of an update."""
    metadata = dict(old["metadata"])
    if annotations := wanted["metadata"].get("annotations"):
        metadata["annotations"] = annotations
    return old | {"metadata": metadata, "spec": wanted["spec"], "status": wanted["status"]}


def _scheduled(status: Object, now: str) -> Object:
    conditions = [c for c in status.get("conditions") or () if c.get("type") != "PodScheduled"]
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None}
    return status | {"conditions": [*conditions, scheduled | {"lastTransitionTime": now}]}


_ALL_METHODS = ("create", "delete", "get", "patch", "update")


def _stream(name: str, serve: Serve, kind: str) -> Subresource:
    """A subresource of pods that leaves HTTP: by WebSocket (GET) or SPDY (POST)."""
    return Subresource(
        name, lambda resource: resource is POD, dict.fromkeys(_STREAM, serve), kind=kind
    )


_STREAM = ("create", "get")

SUBRESOURCES = (
    Subresource(
        "status",
        lambda resource: resource.status and resource is not CERTIFICATE_SIGNING_REQUEST,
        {"get": _get, "update": _put_status, "patch": _patch_status},
    ),
    Subresource(
        "status",
        lambda resource: resource is CERTIFICATE_SIGNING_REQUEST,
        {"get": _get, "update": put_signed, "patch": patch_signed},
    ),
    Subresource(
        "scale",
        lambda resource: resource.scale,
        {"get": _get_scale, "update": _put_scale, "patch": _patch_scale},
        "autoscaling",
        "v1",
        "Scale",
    ),
    Subresource("binding", lambda resource: resource is POD, {"create": bind}, kind="Binding"),
    Subresource(
        "eviction", lambda resource: resource is POD, {"create": evict}, "policy", "v1", "Eviction"
    ),
    Subresource(
        "token",
        lambda resource: resource is SERVICE_ACCOUNT,
        {"create": create_token},
        "authentication.k8s.io",
        "v1",
        "TokenRequest",
    ),
    Subresource(
        "approval",
        lambda resource: resource is CERTIFICATE_SIGNING_REQUEST,
        {"get": _get, "update": put_approval, "patch": patch_approval},
    ),
    Subresource("finalize", lambda resource: resource is NAMESPACE, {"update": _put_finalize}),
    Subresource("log", lambda resource: resource is POD, {"get": proxy.log}),
    Subresource(
        "ephemeralcontainers",
        lambda resource: resource is POD,
        {"get": _get, "update": _put_ephemeral, "patch": _patch_ephemeral},
    ),
    Subresource(
        "resize",
        lambda resource: resource is POD,
        {"get": _get, "update": _put_resize, "patch": _patch_resize},
    ),
    _stream("exec", proxy.execute, "PodExecOptions"),
    _stream("attach", proxy.attach, "PodAttachOptions"),
    _stream("portforward", proxy.port_forward, "PodPortForwardOptions"),
    Subresource(
        "proxy",
        lambda resource: resource is POD,
        dict.fromkeys(_ALL_METHODS, proxy.pod),
        kind="PodProxyOptions",
    ),
    Subresource(
        "proxy",
        lambda resource: resource is SERVICE,
        dict.fromkeys(_ALL_METHODS, proxy.service),
        kind="ServiceProxyOptions",
    ),
    Subresource(
        "proxy",
        lambda resource: resource is NODE,
        dict.fromkeys(_ALL_METHODS, proxy.node),
        kind="NodeProxyOptions",
    ),
)


def find(resource: Resource, name: str) -> Subresource:
    """Raises ApiError 404."""
    for subresource in SUBRESOURCES:
        if subresource.name == name and subresource.has(resource):
            return subresource
    raise errors.path_not_found()
