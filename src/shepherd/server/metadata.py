"""The rules of object metadata that hold for every kind: what creation sets, what updates keep.

Source: apiserver registry/rest create.go and update.go; apimachinery api/validation objectmeta.go.
"""

from random import Random

from shepherd.api import errors
from shepherd.api.errors import FieldError
from shepherd.api.kinds import CUSTOM_RESOURCE_DEFINITION
from shepherd.api.meta import format_time
from shepherd.api.names import check_name, label_value, qualified_name
from shepherd.api.resource import Object, Resource
from shepherd.lib.ids import name_suffix, new_uid
from shepherd.server.routes import Route

_ANNOTATIONS_LIMIT = 256 * 1024
_NEVER_STORED = ("resourceVersion", "selfLink", "managedFields")
_FROM_CREATION = (
    "name", "namespace", "generateName", "uid", "creationTimestamp", "generation",
    "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields",
)  # fmt: skip
_SUFFIX = 5
"""Letters of a generated name that are random."""
_STANDARD_FINALIZERS = ("foregroundDeletion", "orphan", "kubernetes")
_LONGEST_BASE = 63 - _SUFFIX
"""Of a generateName: longer ones are cut, so that the name remains a label."""


def normal_form(resource: Resource, obj: Object) -> Object:
    """`obj` as stored: kind, apiVersion and metadata first (api.meta.stamp needs it so)."""
    head: Object = {
        "kind": resource.kind,
        "apiVersion": resource.api_version,
        "metadata": dict(obj.get("metadata") or {}),
    }
    return head | {key: value for key, value in obj.items() if key not in head}


def check_target(route: Route, obj: Object) -> None:
    """The body must be of the namespace and name that the path says, or name none.

    Fills them in. Raises ApiError 400.
    """
    metadata = obj.get("metadata")
    if metadata is None:
        metadata = obj["metadata"] = {}
    namespace = metadata.get("namespace") or ""
    if namespace and namespace != route.namespace:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if route.namespace:
        metadata["namespace"] = route.namespace
    name = metadata.get("name") or ""
    if route.name and name and name != route.name:
        raise errors.bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({route.name})"
        )
    if route.name:
        metadata["name"] = route.name


def begin(resource: Resource, metadata: Object, now: float, random: Random) -> None:
    """Make the metadata that of a new object, in place. Raises ApiError 400 and 422."""
    if metadata.get("resourceVersion"):
        raise errors.bad_request("resourceVersion should not be set on objects to be created")
    for field in (*_NEVER_STORED, "deletionTimestamp", "deletionGracePeriodSeconds"):
        metadata.pop(field, None)
    if not metadata.get("name"):
        generate_name(resource, metadata, random)
    metadata["uid"] = new_uid(random)
    metadata["creationTimestamp"] = format_time(now)
    metadata.pop("generation", None)
    if resource.generation:
        metadata["generation"] = 1


def generate_name(resource: Resource, metadata: Object, random: Random) -> None:
    """Give a name that begins with metadata.generateName."""
    base = metadata.get("generateName") or ""
    if not base:
        error = errors.required("metadata.name", "name or generateName is required")
        raise errors.invalid(resource.group, resource.kind, "", [error])
    metadata["name"] = base[:_LONGEST_BASE] + name_suffix(random)


def remade(resource: Resource, obj: Object, before: Object) -> Object:
    """What others made of an object, in normal form; of its metadata (`before`) they change
    nothing that clients cannot change, nor whose its fields are."""
    obj = normal_form(resource, obj)
    carry(obj["metadata"], before)
    return obj


def asked_name(metadata: Object) -> str:
    """What the sender called the object: its generateName, if its name was made of that."""
    base, name = metadata.get("generateName") or "", metadata["name"]
    return base if base and name[:-_SUFFIX] == base[:_LONGEST_BASE] else name


def carry(metadata: Object, old: Object) -> None:
    """Make the metadata that of an update: what a client cannot change comes from `old`."""
    for field in _NEVER_STORED:
        metadata.pop(field, None)
    for field in _FROM_CREATION:
        if field in old:
            metadata[field] = old[field]
        else:
            metadata.pop(field, None)


def validate(resource: Resource, metadata: Object) -> list[FieldError]:
    """Names, labels, annotations, finalizers and owner references."""
    base, name = metadata.get("generateName") or "", metadata.get("name", "")
    rule = resource.name_rule
    found = []
    if base:
        found += _invalid("metadata.generateName", base, check_name(rule, base, prefix=True))
    found += _invalid("metadata.name", name, check_name(rule, name))
    for key, value in (metadata.get("labels") or {}).items():
        found += _invalid("metadata.labels", key, qualified_name(key))
        found += _invalid("metadata.labels", value, label_value(value))
    size = 0
    for key, value in (metadata.get("annotations") or {}).items():
        size += len(key.encode()) + len(value.encode())
        found += _invalid("metadata.annotations", key, qualified_name(key.lower()))
    if size > _ANNOTATIONS_LIMIT:
        found.append(errors.too_long("metadata.annotations", _ANNOTATIONS_LIMIT))
    if resource.custom is None and resource is not CUSTOM_RESOURCE_DEFINITION:
        found += _validate_standard_finalizers(metadata)
    return found + _validate_finalizers(metadata) + _validate_owners(metadata)


def _invalid(path: str, value: str, problems: list[str]) -> list[FieldError]:
    return [errors.invalid_value(path, value, problem) for problem in problems]


def _validate_finalizers(metadata: Object) -> list[FieldError]:
    found: list[FieldError] = []
    finalizers = metadata.get("finalizers") or []
    for index, finalizer in enumerate(finalizers):
        path = f"metadata.finalizers[{index}]"
        found += _invalid(path, finalizer, qualified_name(finalizer))
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        detail = "finalizer orphan and foregroundDeletion cannot be both set"
        found.append(errors.invalid_value("metadata.finalizers", finalizers, detail))
    return found


def _validate_standard_finalizers(metadata: Object) -> list[FieldError]:
    """Kubernetes' own kinds take no unqualified names but a few known ones."""
    detail = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        errors.invalid_value(f"metadata.finalizers[{index}]", finalizer, detail)
        for index, finalizer in enumerate(metadata.get("finalizers") or [])
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS
    ]


def _validate_owners(metadata: Object) -> list[FieldError]:
    found: list[FieldError] = []
    owners = metadata.get("ownerReferences") or []
    for index, owner in enumerate(owners):
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                path = f"metadata.ownerReferences[{index}].{field}"
                found.append(errors.invalid_value(path, "", f"{field} must not be empty"))
    if sum(bool(owner.get("controller")) for owner in owners) > 1:
        detail = "Only one reference can have Controller set to true"
        found.append(errors.invalid_value("metadata.ownerReferences", "", detail))
    return found


def validate_update(metadata: Object, old: Object) -> list[FieldError]:
    """An object that is being deleted gets no new finalizers."""
    if not old.get("deletionTimestamp"):
        return []
    known = set(old.get("finalizers") or ())
    added = [name for name in metadata.get("finalizers") or () if name not in known]
    if not added:
        return []
    names = ", ".join(f'"{name}"' for name in added)
    detail = (
        "no new finalizers can be added if the object is being deleted, "
        f"found new finalizers []string{{{names}}}"
    )
    return [errors.forbidden_field("metadata.finalizers", detail)]
