"""What a DELETE does to an object: gone at once, or marked and left to those who must finish first.

Source: apiserver registry/rest delete.go (BeforeDelete) and registry/generic store.go;
"Use Cascading Deletion" and "Finalizers" in the Kubernetes documentation.
"""

from dataclasses import dataclass

from shepherd.api import errors
from shepherd.api.kinds import NAMESPACE
from shepherd.api.kinds.cells import since
from shepherd.api.meta import format_time, parse_time
from shepherd.api.resource import Object, Resource

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
MAX_GRACE_SECONDS = 2**31 - 1
"""68 years: what is longer (any 64-bit number may be asked for) is cut to it."""
_POLICIES = {"Background": "", "Foreground": FOREGROUND, "Orphan": ORPHAN}


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """meta/v1 DeleteOptions, the fields that act."""

    grace_seconds: int | None = None
    propagation: str = ""
    uid: str = ""
    resource_version: str = ""
    dry_run: bool = False

    @classmethod
    def read(cls, body: Object, query: dict[str, str]) -> "DeleteOptions":
        """From the body, or from the query when there is no body. Raises ApiError 400, 422."""
        grace = body.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
        propagation = body.get("propagationPolicy") or query.get("propagationPolicy") or ""
        orphan = body.get("orphanDependents", query.get("orphanDependents"))
        if propagation and orphan is not None:
            raise _invalid(
                errors.invalid_value(
                    "propagationPolicy",
                    propagation,
                    "orphanDependents and deletionPropagation cannot be both set",
                )
            )
        if orphan is not None:
            propagation = "Orphan" if orphan in (True, "true", "1") else "Background"
        if propagation and propagation not in _POLICIES:
            allowed = ["Foreground", "Background", "Orphan", "nil"]
            raise _invalid(errors.not_supported("propagationPolicy", propagation, allowed))
        expected = body.get("preconditions") or {}
        dry_run = body.get("dryRun") or ([query["dryRun"]] if query.get("dryRun") else [])
        if dry_run not in ([], ["All"]):
            raise _invalid(errors.not_supported("dryRun", dry_run[0], ["All"]))
        return cls(
            _integer(grace),
            propagation,
            expected.get("uid") or "",
            expected.get("resourceVersion") or "",
            bool(dry_run),
        )


def _integer(value: object) -> int | None:
    if value is None or value == "":
        return None
    try:
        return int(str(value))
    except ValueError:
        raise errors.bad_request(f"gracePeriodSeconds: {value!r} is not an integer") from None


def _invalid(error: errors.FieldError) -> errors.ApiError:
    return errors.invalid("meta.k8s.io", "DeleteOptions", "", [error])


def finalizers(resource: Resource, obj: Object) -> list[str]:
    """Who must still act before the object may go; a namespace has a second list, in its spec."""
    waiting = list(obj["metadata"].get("finalizers") or ())
    if resource is NAMESPACE:
        waiting += (obj.get("spec") or {}).get("finalizers") or ()
    return waiting


def finished(resource: Resource, obj: Object) -> bool:
    """A marked object for which nobody has anything left to do."""
    metadata = obj["metadata"]
    return (
        "deletionTimestamp" in metadata
        and not metadata.get("deletionGracePeriodSeconds")
        and not finalizers(resource, obj)
    )


def mark(resource: Resource, obj: Object, options: DeleteOptions, now: float) -> Object | None:
    """The object as a DELETE leaves it (maybe just as it was), or None if it is to go at once."""
    metadata = dict(obj["metadata"])
    marked = obj | {"metadata": metadata}
    present = metadata.get("finalizers") or []
    decided = "deletionTimestamp" in metadata or ORPHAN in present or FOREGROUND in present
    if propagation := options.propagation or ("Orphan" if resource.orphans and not decided else ""):
        kept = [finalizer for finalizer in present if finalizer not in (ORPHAN, FOREGROUND)]
        if added := _POLICIES[propagation]:
            kept.append(added)
        _set(metadata, "finalizers", kept)
    grace = _grace_seconds(resource, obj, options)
    if not grace and not finalizers(resource, marked):
        return None
    if "deletionTimestamp" not in metadata:
        metadata["deletionTimestamp"] = format_time(now + grace)
        metadata["deletionGracePeriodSeconds"] = grace
        if metadata.get("generation"):
            metadata["generation"] += 1
    elif resource.graceful and grace < (metadata.get("deletionGracePeriodSeconds") or 0):
        # A second DELETE may shorten the wait, never lengthen it.
        asked_at = parse_time(metadata["deletionTimestamp"])
        asked_at -= metadata["deletionGracePeriodSeconds"]
        metadata["deletionTimestamp"] = format_time(asked_at + grace)
        metadata["deletionGracePeriodSeconds"] = grace
    if resource is NAMESPACE:
        marked["status"] = (obj.get("status") or {}) | {"phase": "Terminating"}
    return marked


def held(obj: Object, now: float) -> list[str]:
    """The warning for who deletes what was to go already: who holds it, and for how long now."""
    metadata = obj["metadata"]
    names = metadata.get("finalizers")
    if not names or "deletionTimestamp" not in metadata:
        return []
    age = since(metadata["deletionTimestamp"], now)
    stays = "the object stays until its finalizers are taken off"
    return [f"metadata.deletionTimestamp: set {age} ago; {stays}: {', '.join(names)}"]


def _set(metadata: Object, field: str, value: list[str]) -> None:
    if value:
        metadata[field] = value
    else:
        metadata.pop(field, None)


def _grace_seconds(resource: Resource, obj: Object, options: DeleteOptions) -> int:
    """How long the kind's owner may take; 0 when nobody has to stop anything."""
    return min(_asked_grace(resource, obj, options), MAX_GRACE_SECONDS)


def _asked_grace(resource: Resource, obj: Object, options: DeleteOptions) -> int:
    if not resource.graceful:
        return 0
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return 0
    if options.grace_seconds is None:
        grace = spec.get("terminationGracePeriodSeconds")
        return 0 if grace is None else max(int(grace), 0)
    # Negative values mean "at once, but told": upstream treats them as 1.
    return options.grace_seconds if options.grace_seconds >= 0 else 1
