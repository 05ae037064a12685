"""Relays to what runs on nodes: logs, exec and the other streams, a node's own endpoints, a pod's
own ports.

The server knows where to ask; how it gets there is the dialer's business.
Source: kubernetes pkg/registry/core/pod/rest/log.go, pkg/kubelet/client.
"""

import ipaddress
from collections.abc import Iterator
from dataclasses import replace

from shepherd.api import errors
from shepherd.api.kinds import NODE
from shepherd.api.meta import object_key
from shepherd.api.objects import Node, Pod, decode
from shepherd.lib.http import Request, Response
from shepherd.server.backends import bracketed, choose
from shepherd.server.handlers import Call, Handlers
from shepherd.server.routes import TRUE

_LOG_OPTIONS = (
    "follow", "tailLines", "sinceSeconds", "sinceTime", "timestamps", "previous", "limitBytes",
    "stream",
)  # fmt: skip
_LOG_STREAMS = ("All", "Stdout", "Stderr")
_STDIO = (("stdin", "input"), ("stdout", "output"), ("stderr", "error"), ("tty", "tty"))
"""What the API calls the streams, and what agents do."""
_UPGRADE = (
    "upgrade", "sec-websocket-key", "sec-websocket-version", "sec-websocket-protocol",
    "x-stream-protocol-version",
)  # fmt: skip
_UPGRADES = ("websocket", "spdy/3.1")
_ADDRESS_TYPES = ("InternalIP", "ExternalIP", "Hostname")
_HOP_BY_HOP = ("connection", "transfer-encoding", "keep-alive", "upgrade", "te", "trailer")
_NOT_RELAYED = (*_HOP_BY_HOP, "host", "authorization", "content-length")


async def log(handlers: Handlers, call: Call) -> Response:
    """GET pods/{name}/log: the container's log, as it is written when followed."""
    item = await handlers.registry.item(call.route)
    pod = decode(item.value, Pod)
    container = _container(pod, call.query.get("container", ""))
    if found := list(_log_errors(call.query)):
        raise errors.invalid("", "PodLogOptions", call.route.name, found)
    if not pod.spec.node_name:
        return Response(200, {"content-type": "text/plain"}, b"")
    origin = await _agent(handlers, pod.spec.node_name)
    path = f"/containerLogs/{call.route.namespace}/{call.route.name}/{container}"
    query = [(name, value) for name, value in call.request.query if name in _LOG_OPTIONS]
    return await _send(handlers, origin, Request("GET", path, query))


def _log_errors(query: dict[str, str]) -> Iterator[errors.FieldError]:
    for name, least in (("tailLines", 0), ("sinceSeconds", 1), ("limitBytes", 1)):
        text = query.get(name)
        if text and (not text.lstrip("-").isdecimal() or int(text) < least):
            yield errors.invalid_value(name, text, f"must be greater than or equal to {least}")
    if query.get("sinceSeconds") and query.get("sinceTime"):
        yield errors.forbidden_field("", "at most one of `sinceTime` or `sinceSeconds` may be used")
    stream = query.get("stream")
    if stream and stream not in _LOG_STREAMS:
        yield errors.not_supported("stream", stream, list(_LOG_STREAMS))
    if stream not in (None, "", "All") and query.get("tailLines"):
        detail = "`tailLines` and specific `stream` are mutually exclusive for now"
        yield errors.forbidden_field("", detail)


async def execute(handlers: Handlers, call: Call) -> Response:
    """GET or POST pods/{name}/exec, to be upgraded: the agent speaks, we relay."""
    return await _stream(handlers, call, "exec")


async def attach(handlers: Handlers, call: Call) -> Response:
    """GET or POST pods/{name}/attach."""
    return await _stream(handlers, call, "attach")


async def _stream(handlers: Handlers, call: Call, verb: str) -> Response:
    pod = await _bound_pod(handlers, call)
    container = _container(pod, call.query.get("container", ""))
    query = [("command", value) for value in call.request.params("command")]
    query += [(theirs, "1") for ours, theirs in _STDIO if call.query.get(ours) in TRUE]
    path = f"/{verb}/{call.route.namespace}/{call.route.name}/{container}"
    return await _upgrade(handlers, call, pod, path, query)


async def port_forward(handlers: Handlers, call: Call) -> Response:
    """GET or POST pods/{name}/portforward."""
    pod = await _bound_pod(handlers, call)
    query = [("port", value) for value in call.request.params("ports")]
    path = f"/portForward/{call.route.namespace}/{call.route.name}"
    return await _upgrade(handlers, call, pod, path, query)


async def _bound_pod(handlers: Handlers, call: Call) -> Pod:
    item = await handlers.registry.item(call.route)
    pod = decode(item.value, Pod)
    if not pod.spec.node_name:
        raise errors.bad_request(f"pod {call.route.name} does not have a host assigned")
    return pod


async def _upgrade(
    handlers: Handlers, call: Call, pod: Pod, path: str, query: list[tuple[str, str]]
) -> Response:
    request = call.request
    if "upgrade" not in request.headers:
        raise errors.bad_request("Upgrade request required")
    headers = {name: request.headers[name] for name in _UPGRADE if name in request.headers}
    origin = await _agent(handlers, pod.spec.node_name)
    return await _send(handlers, origin, Request(request.method, path, query, headers))


async def node(handlers: Handlers, call: Call) -> Response:
    """Any method on nodes/{name}/proxy/{path}: the agent's own endpoints."""
    origin = await _agent(handlers, call.route.name)
    return await _send(handlers, origin, _relayed(call))


async def pod(handlers: Handlers, call: Call) -> Response:
    """Any method on pods/{name}/proxy/{path}: the first port that the pod declares.

    `{name}:{port}` chooses another one.
    """
    name, port = _name_and_port(call.route.name)
    item = await handlers.registry.item(replace(call.route, name=name))
    pod = decode(item.value, Pod)
    if not pod.status.pod_ip:
        raise errors.bad_request("address not allowed: the pod has no address yet")
    declared = [port.container_port for one in pod.spec.containers for port in one.ports]
    chosen = port or str(declared[0] if declared else 80)
    if not chosen.isdecimal():
        raise errors.bad_request(f"invalid pod request {call.route.name!r}: not a port number")
    return await _proxied(handlers, call, pod.status.pod_ip, int(chosen))


async def service(handlers: Handlers, call: Call) -> Response:
    """Any method on services/{name}/proxy/{path}: one of the service's ready endpoints.

    `{name}:{port}` chooses the port by name or number; a service with only one needs no choice.
    """
    name, wanted = _name_and_port(call.route.name)
    namespace = call.route.namespace
    address, number = await choose(handlers.store, handlers.random, namespace, name, wanted)
    return await _proxied(handlers, call, address, number)


def _name_and_port(text: str) -> tuple[str, str]:
    """`name`, `name:port` or `http:name:port`. Raises ApiError 400."""
    parts = text.split(":")
    if len(parts) == 3 and parts[0] in ("", "http"):
        parts = parts[1:]
    if len(parts) > 2:
        raise errors.bad_request(
            f"invalid request {text!r}: want name, name:port or http:name:port"
        )
    return parts[0], parts[1] if len(parts) == 2 else ""


async def ask_agent(handlers: Handlers, node: str, request: Request) -> Response:
    """What the agent of a node answers. Raises ApiError 404, 503."""
    return await _send(handlers, await _agent(handlers, node), request)


def streams_body(method: str, path: str) -> bool:
    """Requests whose body may be of any size: what is passed on is the receiver's business."""
    return path.startswith("/api/v1/") and "/proxy/" in path


async def _agent(handlers: Handlers, name: str) -> str:
    item = await handlers.store.get(object_key(NODE, "", name))
    if item is None:
        raise errors.not_found("", NODE.plural, name)
    node = decode(item.value, Node)
    port = node.status.daemon_endpoints.kubelet_endpoint.port
    host = next((text for kind in _ADDRESS_TYPES if (text := node.address(kind))), "")
    if not host or not port:
        raise errors.unavailable(f'node "{name}" has not told where its agent listens')
    return f"https://{bracketed(host)}:{port}"


async def _send(handlers: Handlers, origin: str, request: Request) -> Response:
    if handlers.dialer is None:
        raise errors.unavailable("this server reaches no agents")
    try:
        response = await handlers.dialer.send(origin, request)
    except ConnectionError as error:
        raise errors.unavailable(f"error trying to reach service: {error}") from error
    return passed_back(response)


async def _proxied(handlers: Handlers, call: Call, address: str, port: int) -> Response:
    """The answer of a pod's port; where it sends the client is a place behind the proxy.

    Raises ApiError 400 for an address that is of no pod: the server's own, or its machine's
    metadata service. Source: apiserver pkg/util/proxy, IsProxyableIP.
    """
    found = ipaddress.ip_address(address)
    special = found.is_loopback or found.is_link_local or found.is_multicast
    if special or found.is_unspecified:
        raise errors.bad_request("address not allowed")
    response = await _send(handlers, f"http://{bracketed(address)}:{port}", _relayed(call))
    location = response.headers.get("location", "")
    if location.startswith("/"):
        response.headers["location"] = _base(call) + location
    return response


def _base(call: Call) -> str:
    """What stands before the path that is passed on."""
    head = f"/{call.route.resource.plural}/{call.route.name}/proxy"
    return call.request.path.partition(head)[0] + head


def _relayed(call: Call) -> Request:
    return passed_on(call.request, call.request.path.removeprefix(_base(call)) or "/")


def passed_on(request: Request, path: str) -> Request:
    """A request as it goes on to another server, without what was for this one."""
    headers = {name: value for name, value in request.headers.items() if name not in _NOT_RELAYED}
    if request.headers.get("upgrade", "").lower() in _UPGRADES:
        headers["upgrade"] = request.headers["upgrade"]
    if request.stream is not None and "content-length" in request.headers:
        headers["content-length"] = request.headers["content-length"]
    return Request(request.method, path, request.query, headers, request.body, request.stream)


def passed_back(response: Response) -> Response:
    """Another server's answer as it goes on to the client."""
    if response.takeover is None:
        response.headers = {
            name: value for name, value in response.headers.items() if name not in _HOP_BY_HOP
        }
    return response


def _container(pod: Pod, asked: str) -> str:
    """The container that is meant. Raises ApiError 400."""
    spec = pod.spec
    names = [container.name for container in spec.containers]
    name = pod.metadata.name
    if asked in [container.name for container in spec.everyone]:
        return asked
    if asked:
        raise errors.bad_request(f"container {asked} is not valid for pod {name}")
    if len(names) > 1:
        choices = " ".join(names)
        raise errors.bad_request(
            f"a container name must be specified for pod {name}, choose one of: [{choices}]"
        )
    return names[0]
