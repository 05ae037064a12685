"""The paths of OpenAPI documents: what a client can do with a resource and its subresources.

Operation ids are upstream's, as generated clients are named after them. Source: apiserver
endpoints/installer.go; kube-openapi `builder3`.
"""

from dataclasses import dataclass, replace
from typing import Any

from shepherd.api.resource import Resource
from shepherd.api.schema import openapi_name, type_of
from shepherd.server.subresources import SUBRESOURCES, Subresource

Json = dict[str, Any]
Kind = tuple[str, str, str]
"""Group, version, kind."""

JSON = "application/json"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_PATCHES: tuple[str, ...] = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)
_STRING: Json = {"type": "string"}
_WORDS = {"get": "read", "post": "create", "put": "replace", "deletecollection": "delete"}
"""How operation ids call an action, if otherwise."""
_METHODS = {"create": "post", "update": "put"}
"""Of a verb, if otherwise."""


def component(group: str, version: str, kind: str) -> str:
    """The name of a kind's schema."""
    if known := type_of(group, version, kind):
        return openapi_name(known.name)
    return ".".join([*reversed(group.split(".")), version, kind])


def gvk(group: str, version: str, kind: str) -> Json:
    """How documents name a kind."""
    return {"group": group, "version": version, "kind": kind}


# -- parameters --------------------------------------------------------------------------------


def _parameter(name: str, type: str = "string", where: str = "query") -> Json:
    found: Json = {"name": name, "in": where, "schema": {"type": type, "uniqueItems": True}}
    return found | {"required": True} if where == "path" else found


def _parameters(**types: str) -> list[Json]:
    return [_parameter(name, of) for name, of in types.items()]


_NAME = _parameter("name", where="path")
_NAMESPACE = _parameter("namespace", where="path")
_PRETTY = _parameter("pretty")
_WRITE = [_parameter(name) for name in ("dryRun", "fieldManager", "fieldValidation")]
_FORCE = _parameter("force", "boolean")
_SELECT = [
    _parameter("continue"), _parameter("fieldSelector"), _parameter("labelSelector"),
    _parameter("limit", "integer"), _parameter("resourceVersion"),
    _parameter("resourceVersionMatch"), _parameter("sendInitialEvents", "boolean"),
    _parameter("timeoutSeconds", "integer"),
]  # fmt: skip
_LIST = [
    _parameter("allowWatchBookmarks", "boolean"), *_SELECT, _parameter("watch", "boolean"),
]  # fmt: skip
_DELETE = [
    _parameter("dryRun"), _parameter("gracePeriodSeconds", "integer"),
    _parameter("orphanDependents", "boolean"), _parameter("propagationPolicy"),
]  # fmt: skip
_STREAMS = {"stderr": "boolean", "stdin": "boolean", "stdout": "boolean", "tty": "boolean"}
_OWN: dict[str, list[Json]] = {
    "attach": _parameters(container="string", **_STREAMS),
    "exec": _parameters(command="string", container="string", **_STREAMS),
    "log": _parameters(
        container="string", follow="boolean", insecureSkipTLSVerifyBackend="boolean",
        limitBytes="integer", previous="boolean", sinceSeconds="integer", stream="string",
        tailLines="integer", timestamps="boolean",
    ),
    "portforward": _parameters(ports="integer"),
    "proxy": _parameters(path="string"),
}  # fmt: skip
"""Of subresources that answer with text or bytes."""


# -- operations --------------------------------------------------------------------------------


def _reference(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


@dataclass(frozen=True, slots=True)
class _Operations:
    """The operations of one kind, at its own paths or at a subresource's."""

    api: str
    """The group and version as ids show them: `CoreV1`."""
    subject: str
    """What ids say they act on: `NamespacedPodStatus`."""
    kind: Kind
    answer: Json
    """The schema of what is answered."""
    patches: tuple[str, ...]

    def operation(
        self, action: str, parameters: list[Json], *,
        answer: Json | None = None, accepts: str = "", media: tuple[str, ...] = ("*/*",),
        codes: tuple[str, ...] = (), subject: str = "", sends: str = JSON,
    ) -> Json:  # fmt: skip
        content = {sends: {"schema": answer or self.answer}}
        names = {"200": "OK", "201": "Created", "202": "Accepted"}
        responses: Json = {
            code: {"description": names[code], "content": content} for code in ("200", *codes)
        }
        responses["401"] = {"description": "Unauthorized"}
        word = _WORDS.get(action, action)
        found: Json = {
            "operationId": f"{word}{self.api}{subject or self.subject}",
            "parameters": parameters,
            "responses": responses,
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": gvk(*self.kind),
        }
        if accepts:
            body: Json = {"content": {one: {"schema": _reference(accepts)} for one in media}}
            required = {} if word == "delete" else {"required": True}
            found["requestBody"] = body | required
        return found

    @property
    def _schema(self) -> str:
        return component(*self.kind)

    def list(self, subject: str, list_kind: str) -> Json:
        listed = _reference(component(*self.kind[:2], list_kind))
        return self.operation("list", _LIST, answer=listed, subject=subject)

    def get(self) -> Json:
        return self.operation("get", [])

    def create(self) -> Json:
        return self.operation("post", _WRITE, accepts=self._schema, codes=("201", "202"))

    def update(self) -> Json:
        return self.operation("put", _WRITE, accepts=self._schema, codes=("201",))

    def patch(self) -> Json:
        return self.operation(
            "patch", [*_WRITE, _FORCE],
            accepts=f"{_META}.Patch", media=self.patches, codes=("201",),
        )  # fmt: skip

    def delete(self, answer: Json) -> Json:
        return self.operation(
            "delete", _DELETE, answer=answer, accepts=f"{_META}.DeleteOptions", codes=("202",)
        )

    def delete_collection(self) -> Json:
        return self.operation(
            "deletecollection", [*_SELECT, *_DELETE],
            answer=_reference(f"{_META}.Status"), accepts=f"{_META}.DeleteOptions",
            subject=f"Collection{self.subject}",
        )  # fmt: skip

    def connect(self, method: str) -> Json:
        """What only passes requests or streams on."""
        found = self.operation("connect", [], answer=_STRING, sends="*/*")
        found["operationId"] = f"connect{self.api}{method.capitalize()}{self.subject}"
        return found


# -- paths -------------------------------------------------------------------------------------


def resource_paths(group: str, version: str, resource: Resource) -> Json:
    """All paths of a resource, as a group and version serves it."""
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    collection = f"{root}/namespaces/{{namespace}}" if resource.namespaced else root
    collection += f"/{resource.plural}"
    item = f"{collection}/{{name}}"
    place = [_NAMESPACE, _PRETTY] if resource.namespaced else [_PRETTY]
    main = _operations(group, version, resource)
    list_kind = resource.list_kind or f"{resource.kind}List"
    status = _reference(f"{_META}.Status")
    actions: dict[str, tuple[str, str, Json]] = {
        "list": (collection, "get", main.list(main.subject, list_kind)),
        "create": (collection, "post", main.create()),
        "deletecollection": (collection, "delete", main.delete_collection()),
        "get": (item, "get", main.get()),
        "update": (item, "put", main.update()),
        "patch": (item, "patch", main.patch()),
        "delete": (item, "delete", main.delete(main.answer if resource.shown_deleted else status)),
    }
    paths: Json = {}
    for verb, (path, method, operation) in actions.items():
        if verb in resource.verbs:
            own = [_NAME] if path == item else []
            paths.setdefault(path, {"parameters": [*own, *place]})[method] = operation
    if resource.namespaced and "list" in resource.verbs:
        everywhere = main.list(f"{resource.kind}ForAllNamespaces", list_kind)
        paths[f"{root}/{resource.plural}"] = {"get": everywhere, "parameters": [_PRETTY]}
    for sub in SUBRESOURCES:
        if sub.has(resource):
            paths |= _subresource_paths(f"{item}/{sub.name}", main, sub, [_NAME, *place])
    return paths


def _operations(group: str, version: str, resource: Resource) -> _Operations:
    words = [*(group.removesuffix(".k8s.io") or "core").split("."), version]
    return _Operations(
        api="".join(word.capitalize() for word in words),
        subject=f"{'Namespaced' if resource.namespaced else ''}{resource.kind}",
        kind=(group, version, resource.kind),
        answer=_reference(component(group, version, resource.kind)),
        patches=_PATCHES[:3] if resource.custom else _PATCHES,
    )


def kind_of(main: Kind, sub: Subresource) -> Kind:
    """What a subresource of a kind reads and writes."""
    group, version, kind = main
    return (sub.group, sub.version, sub.kind) if sub.version else (group, version, sub.kind or kind)


def _subresource_paths(path: str, main: _Operations, sub: Subresource, place: list[Json]) -> Json:
    kind = kind_of(main.kind, sub)
    part = replace(
        main,
        subject=f"{main.subject}{sub.name.capitalize()}",
        kind=kind,
        answer=_STRING if sub.name in _OWN else _reference(component(*kind)),
    )
    shared: Json = {"parameters": [*place, *_OWN.get(sub.name, [])]}
    if sub.name == "log" or sub.name not in _OWN:
        make = {"get": part.get, "create": part.create, "update": part.update, "patch": part.patch}
        return {path: {_METHODS.get(verb, verb): make[verb]() for verb in sub.verbs} | shared}
    methods = [_METHODS.get(verb, verb) for verb in sub.verbs]
    paths: Json = {path: {method: part.connect(method) for method in methods} | shared}
    if sub.name == "proxy":
        deeper = replace(part, subject=f"{part.subject}WithPath")
        inner = [*shared["parameters"], _parameter("path", where="path")]
        below = {method: deeper.connect(method) for method in methods}
        paths[f"{path}/{{path}}"] = below | {"parameters": inner}
    return paths
