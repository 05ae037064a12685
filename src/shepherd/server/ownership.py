"""Whose the fields are: what a request says of its writer, and the managedFields it leaves behind.

`api.managedfields` decides; this is how the write path asks it. Source: apiserver
`endpoints/handlers/{create,update,patch}`, apimachinery `util/managedfields`,
`apis/meta/v1/validation`.
"""

from collections.abc import Mapping

from shepherd.api import errors, managedfields
from shepherd.api.decode import Check, Decoded, FieldValidation, check_object, decode_value
from shepherd.api.kinds import SECRET
from shepherd.api.kinds.configuration import overlay_string_data
from shepherd.api.managedfields import APPLY, Writer
from shepherd.api.resource import Object, Resource
from shepherd.api.schema import Type, type_of
from shepherd.api.typed import Node
from shepherd.lib.http import Request

MAX_NAME = 128
"""Bytes of a field manager's name."""
_OPTIONS = {"create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions"}


def manager_of(request: Request, query: Mapping[str, str], verb: str, *, applying: bool) -> str:
    """The writer's name: `?fieldManager`, or the first word of its User-Agent.

    Raises ApiError 422 for a name that cannot be one; an apply must give one, and only an apply
    may say `force`.
    """
    name = query.get("fieldManager", "")
    found = []
    if applying and not name:
        found.append(errors.required("fieldManager", "is required for apply patch"))
    if not applying and verb == "patch" and "force" in query:
        found.append(errors.forbidden_field("force", "may not be specified for non-apply patch"))
    if len(name.encode()) > MAX_NAME:
        found.append(errors.too_long("fieldManager", MAX_NAME))
    if not name.isprintable():
        detail = "should only contain printable characters"
        found.append(errors.invalid_value("fieldManager", name, detail))
    if found:
        raise errors.invalid("meta.k8s.io", _OPTIONS.get(verb, "WriteOptions"), "", found)
    if name:
        return name
    agent = request.headers.get("user-agent", "").partition("/")[0]
    if not agent.isprintable():
        agent = "".join(filter(str.isprintable, agent))
    return agent.encode()[:MAX_NAME].decode(errors="ignore") or "unknown"


def read_config(
    request: Request,
    group: str,
    version: str,
    kind: str,
    validation: FieldValidation,
    check: Check | None = None,
) -> Decoded:
    """The configuration in the body of an apply. Raises ApiError 400."""
    config, problems = decode_value(request.body, "application/yaml")
    if not isinstance(config, dict):
        raise errors.bad_request("the applied configuration must be an object")
    expected = f"{group}/{version}" if group else version
    given = config.get("apiVersion") or ""
    if given != expected:
        raise errors.bad_request(
            "Incorrect version specified in apply patch. "
            f"Specified patch version: {given}, expected: {expected}"
        )
    if config.get("kind") != kind:
        raise errors.bad_request(f"kind: the applied configuration must be a {kind}")
    decoded = check_object(
        config, group, version, kind, validation=validation, problems=problems, check=check
    )
    if (decoded.object.get("metadata") or {}).get("managedFields") is not None:
        raise errors.bad_request("metadata.managedFields must be nil")
    return decoded


def applicable(resource: Resource, config: Object, sub: str) -> Object:
    """The part of a configuration that an apply to the object, or its status, may write."""
    if sub == "status":
        metadata = config.get("metadata") or {}
        kept = {key: metadata[key] for key in ("name", "namespace", "uid") if key in metadata}
        if asked := metadata.get("resourceVersion"):
            kept["resourceVersion"] = asked
        head = {"kind": config["kind"], "apiVersion": config["apiVersion"], "metadata": kept}
        return head | ({"status": config["status"]} if "status" in config else {})
    config = dict(config)
    if resource.status:
        config.pop("status", None)
    if resource is SECRET:  # what is applied as stringData is owned, and later removed, as data
        overlay_string_data(config)
    return config


def schema_of(resource: Resource) -> Type | Node | None:
    """The type that takes objects as they are stored apart; None if none is known."""
    if resource.custom:
        return resource.custom.fields()
    return type_of(resource.group, resource.version, resource.kind)


def track_new(resource: Resource, obj: Object, writer: Writer) -> None:
    """Say in `obj`, in place, that all it sets is the writer's."""
    tracked = obj
    if resource.status and "status" in obj:
        tracked = {key: value for key, value in obj.items() if key != "status"}
    if writer.operation == APPLY:
        applied = managedfields.apply(None, tracked, schema_of(resource), writer)
        obj["metadata"] = applied["metadata"]
        return
    obj["metadata"] = _with(obj["metadata"], _owned(resource, None, tracked, writer))


def track(resource: Resource, wanted: Object, new: Object, old: Object, writer: Writer) -> None:
    """Say in `new`, in place, what of it is the writer's now.

    `wanted` is what the writer sent: an apply has made its managedFields already, and whoever
    writes the object itself may edit them.
    """
    given = wanted["metadata"].get("managedFields")
    metadata = new["metadata"]
    if writer.operation != APPLY:
        if writer.subresource:
            given = metadata.get("managedFields")
        sent = new | {"metadata": _with(metadata, given)}
        given = _owned(resource, old, sent, writer)
    if given != metadata.get("managedFields"):
        new["metadata"] = _with(metadata, given)


def _owned(
    resource: Resource, old: Object | None, new: Object, writer: Writer
) -> list[Object] | None:
    try:
        owned = managedfields.update(old, new, schema_of(resource), writer)
    except errors.ApiError:  # lists without their keys: validation has the word, as upstream
        return None
    entries: list[Object] | None = owned["metadata"].get("managedFields")
    return entries


def _with(metadata: Object, entries: list[Object] | None) -> Object:
    rest = {key: value for key, value in metadata.items() if key != "managedFields"}
    return rest | {"managedFields": entries} if entries else rest


def unchanged(new: Object, old: Object) -> bool:
    """Whether a write changes nothing, or nothing but the times of its managedFields."""
    if new == old:
        return True
    mine, theirs = new["metadata"].get("managedFields"), old["metadata"].get("managedFields")
    if not mine or not theirs or mine == theirs:
        return False
    if [entry | {"time": ""} for entry in mine] != [entry | {"time": ""} for entry in theirs]:
        return False
    return new | {"metadata": _with(new["metadata"], None)} == old | {
        "metadata": _with(old["metadata"], None)
    }
