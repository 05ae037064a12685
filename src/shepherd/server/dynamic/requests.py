"""Requests that are judged though they write no object of their own: what they ask for is one.

Exec, attach, port-forward and proxy are CONNECTs whose options stand in the query; a binding, an
eviction and a token request are creations. They can be refused, not rewritten. Source: kubernetes
pkg/registry/core/pod/rest/subresources.go.
"""

from typing import TYPE_CHECKING

from shepherd.api.resource import Object
from shepherd.server.admission import Attributes
from shepherd.server.metadata import check_target
from shepherd.server.routes import TRUE

if TYPE_CHECKING:
    from shepherd.server.handlers import Call

_CONNECTS = {
    "exec": "PodExecOptions",
    "attach": "PodAttachOptions",
    "portforward": "PodPortForwardOptions",
}
_PROXIES = {
    "pods": "PodProxyOptions",
    "services": "ServiceProxyOptions",
    "nodes": "NodeProxyOptions",
}
_CREATES = {
    "binding": ("", "v1", "Binding"),
    "eviction": ("policy", "v1", "Eviction"),
    "token": ("authentication.k8s.io", "v1", "TokenRequest"),
}
_FLAGS = ("stdin", "stdout", "stderr", "tty")


def judged_request(call: "Call") -> Attributes | None:
    """What is to be judged; None for requests that are judged by what they write. Raises ApiError
    400 for a body that is none."""
    route, sub = call.route, call.route.sub
    if sub in _CREATES and route.verb == "create":
        kind = _CREATES[sub]
        obj = call.body(*kind).object
        check_target(route, obj)
        asked = Attributes("create", route, obj, None, call.user)
        asked.dry_run = call.dry_run
    elif sub in _CONNECTS or sub == "proxy":
        kind = ("", "v1", _CONNECTS.get(sub) or _PROXIES[route.resource.plural])
        asked = Attributes("connect", route, _options(call, kind[2]), None, call.user)
    else:
        return None
    asked.kind = dict(zip(("group", "version", "kind"), kind, strict=True))
    return asked


def _options(call: "Call", kind: str) -> Object:
    options: Object = {"kind": kind, "apiVersion": "v1"}
    if call.route.sub == "proxy":
        return options | {"path": call.route.rest}
    if call.route.sub == "portforward":
        return options | {"ports": [int(p) for p in call.request.params("ports") if p.isdecimal()]}
    options |= {flag: True for flag in _FLAGS if call.query.get(flag) in TRUE}
    if container := call.query.get("container"):
        options["container"] = container
    if call.route.sub == "exec":
        options["command"] = call.request.params("command")
    return options
