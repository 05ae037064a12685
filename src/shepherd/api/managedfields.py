"""Who owns which field: server-side apply, and the upkeep of managedFields by other writes.

Pure functions from the live object and the request to the new object with its managedFields.
Source: apimachinery `util/managedfields`, structured-merge-diff `merge.Updater`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from shepherd.api.errors import ApiError, bad_request
from shepherd.api.fieldset import (
    FieldSet,
    Path,
    compare,
    fields_of,
    from_fields_v1,
    merge,
    path_text,
    remove,
    root,
    to_fields_v1,
)
from shepherd.api.patch import same
from shepherd.api.resource import Object
from shepherd.api.schema import Type

MAX_UPDATERS = 10
"""Entries of plain writes; older ones become one."""
BEFORE_FIRST_APPLY = "before-first-apply"
ANCIENT_CHANGES = "ancient-changes"

APPLY, UPDATE = "Apply", "Update"

_UNTRACKED = frozenset(
    {("f:apiVersion",), ("f:kind",), ("f:metadata",)}
    | {
        ("f:metadata", f"f:{name}")
        for name in (
            "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName",
            "generation", "managedFields", "resourceVersion",
        )
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Writer:
    """One who writes, and how: `kubectl` by Apply in apps/v1 at some time."""

    manager: str
    operation: str
    """Apply or Update."""
    api_version: str
    subresource: str = ""
    time: str = ""
    """RFC 3339."""

    @property
    def identity(self) -> tuple[str, ...]:
        """An applier stays the same one whatever version it applies."""
        version = "" if self.operation == APPLY else self.api_version
        return (self.operation, self.manager, version, self.subresource)

    def __str__(self) -> str:
        text = f'"{self.manager}"'
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        if self.operation == UPDATE:
            text += f" using {self.api_version}"
        return text


@dataclass(frozen=True, slots=True)
class _Claim:
    """A writer and the fields it owns."""

    writer: Writer
    fields: FieldSet


_Claims = dict[tuple[str, ...], _Claim]


def apply(
    live: Object | None, config: Object, type: Type | None, writer: Writer,
    *, force: bool = False, ignored: Sequence[Path] = (),
) -> Object:  # fmt: skip
    """The live object (None: there is none) with the applied configuration.

    Fields that this applier owned and no longer names go, unless others own them too. `ignored`
    are the beginnings of paths that this request does not write (`f:status` on the main
    resource). An apply that changes nothing returns `live` itself. Raises ApiError: 400 for a
    configuration of the wrong form, 409 that names the other owners, unless `force` takes the
    fields from them.
    """
    if config.get("metadata", {}).get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    node = root(type)
    config = _bare(config)
    current = _bare(live or {})
    claims = _claims(live or {})
    if live and not claims and (fields := _tracked(fields_of(current, node), ())):
        before = Writer(BEFORE_FIRST_APPLY, UPDATE, live.get("apiVersion") or writer.api_version)
        claims[before.identity] = _Claim(before, fields)
    old_claims = dict(claims)
    last = claims.get(writer.identity)
    claims[writer.identity] = _Claim(writer, _tracked(fields_of(config, node), ignored))
    result = merge(current, config, node)
    if last:
        result = remove(result, node, _abandoned(last.fields, claims))
    changes = compare(current, result, node)
    touched = frozenset(changes.added | changes.modified)
    conflicts = {
        identity: claim.fields & touched
        for identity, claim in claims.items()
        if identity != writer.identity and claim.fields & touched
    }
    if conflicts and not force:
        raise _conflict([(claims[identity].writer, found) for identity, found in conflicts.items()])
    _take(claims, touched | changes.removed, keep=writer.identity)
    if live and same(result, current) and _owners(claims) == _owners(old_claims):
        return live
    return _with_claims(result, claims)


def update(
    live: Object | None, new: Object, type: Type | None, writer: Writer,
    *, ignored: Sequence[Path] = (),
) -> Object:  # fmt: skip
    """`new`, which replaces `live`, with managedFields that say what this writer changed.

    The sender's own managedFields count if there are any; `[{}]` forgets all.
    """
    node = root(type)
    given = new.get("metadata", {}).get("managedFields")
    claims: _Claims = {}
    if given != [{}]:
        claims = (_claims(new) if given else {}) or _claims(live or {})
    if live and not claims:  # nobody asked for tracking, or the sender has ended it
        return _bare(new)
    changes = compare(_bare(live or {}), _bare(new), node)
    taken = _tracked(frozenset(changes.added | changes.modified), ignored)
    _take(claims, frozenset(changes.added | changes.modified | changes.removed))
    if taken:
        left = claims.get(writer.identity)
        fields = taken | (left.fields if left else frozenset())
        claims[writer.identity] = _Claim(writer, fields)
    return _with_claims(_bare(new), _capped(claims))


def _bare(obj: Object) -> Object:
    """The object without managedFields."""
    metadata = obj.get("metadata")
    if not metadata or "managedFields" not in metadata:
        return obj
    rest = {key: value for key, value in metadata.items() if key != "managedFields"}
    return obj | {"metadata": rest}


def _claims(obj: Object) -> _Claims:
    """What managedFields say; nothing if they are malformed, as upstream."""
    claims: _Claims = {}
    for entry in obj.get("metadata", {}).get("managedFields") or []:
        writer = Writer(
            entry.get("manager", ""), entry.get("operation", ""), entry.get("apiVersion", ""),
            entry.get("subresource", ""), entry.get("time", ""),
        )  # fmt: skip
        sound = entry.get("fieldsType") == "FieldsV1" and writer.operation in {APPLY, UPDATE}
        if not sound or not writer.api_version:
            return {}
        try:
            fields = from_fields_v1(entry.get("fieldsV1") or {})
        except ValueError:
            return {}
        claims[writer.identity] = _Claim(writer, fields)
    return claims


def _with_claims(obj: Object, claims: _Claims) -> Object:
    if not claims:
        return obj
    entries = [_entry(claim) for claim in sorted(claims.values(), key=_order)]
    return obj | {"metadata": obj.get("metadata", {}) | {"managedFields": entries}}


def _order(claim: _Claim) -> tuple[str, ...]:
    writer = claim.writer
    return (writer.operation, writer.time, writer.manager, writer.api_version, writer.subresource)


def _entry(claim: _Claim) -> Object:
    writer = claim.writer
    entry = {
        "manager": writer.manager,
        "operation": writer.operation,
        "apiVersion": writer.api_version,
        "time": writer.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": to_fields_v1(claim.fields),
        "subresource": writer.subresource,
    }
    return {key: value for key, value in entry.items() if value or key == "fieldsV1"}


def _tracked(fields: FieldSet, ignored: Sequence[Path]) -> FieldSet:
    return frozenset(
        path
        for path in fields - _UNTRACKED
        if not any(path[: len(start)] == start for start in ignored)
    )


def _abandoned(last: FieldSet, claims: _Claims) -> list[Path]:
    """What an applier owned and nobody owns now, nor anything below it."""
    owned: set[Path] = set()
    for claim in claims.values():
        for path in claim.fields:
            owned.update(path[:length] for length in range(1, len(path) + 1))
    return list(last - owned)


def _take(claims: _Claims, fields: FieldSet, keep: tuple[str, ...] = ()) -> None:
    """Take the fields from all owners but `keep`; who owns nothing any more goes."""
    for identity, claim in list(claims.items()):
        left = claim.fields if identity == keep else claim.fields - fields
        if left:
            claims[identity] = replace(claim, fields=left)
        else:
            del claims[identity]


def _owners(claims: _Claims) -> dict[tuple[str, ...], tuple[str, FieldSet]]:
    return {key: (claim.writer.api_version, claim.fields) for key, claim in claims.items()}


def _capped(claims: _Claims) -> _Claims:
    """The claims, with the oldest plain writers of one version merged while there are too many."""
    writers = [claim for claim in claims.values() if claim.writer.operation == UPDATE]
    surplus = len(writers) - MAX_UPDATERS
    if surplus <= 0:
        return claims
    writers.sort(key=lambda claim: (claim.writer.time, claim.writer.manager))
    oldest = writers[: surplus + 1]
    kept = dict(claims)
    for claim in oldest:
        del kept[claim.writer.identity]
        bucket = Writer(ANCIENT_CHANGES, UPDATE, claim.writer.api_version, time=claim.writer.time)
        before = kept.get(bucket.identity)
        fields = claim.fields | (before.fields if before else frozenset())
        kept[bucket.identity] = _Claim(bucket, fields)
    return kept


def _conflict(found: list[tuple[Writer, FieldSet]]) -> ApiError:
    found.sort(key=lambda item: str(item[0]))
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {writer}",
            "field": path_text(path),
        }
        for writer, fields in found
        for path in sorted(fields)
    ]
    if len(causes) == 1:
        text = f"1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        lines = []
        for writer, fields in found:
            lines.append(f"conflicts with {writer}:")
            lines += [f"- {path_text(path)}" for path in sorted(fields)]
        text = f"{len(causes)} conflicts: " + "\n".join(lines)
    return ApiError(409, "Conflict", f"Apply failed with {text}", details={"causes": causes})
