"""Who owns which field: server-side apply, and the upkeep of managedFields by other writes.

Pure functions from the live object and the request to the new object with its managedFields.
Source: apimachinery `util/managedfields`, structured-merge-diff `merge.Updater`.
"""

from dataclasses import dataclass, replace

from shepherd.api.errors import ApiError
from shepherd.api.fieldset import (
    MEMBER,
    FieldSet,
    difference,
    intersection,
    outside,
    path_text,
    paths,
    read,
    union,
)
from shepherd.api.resource import Object
from shepherd.api.schema import Type
from shepherd.api.typed import Node, compare, fields_of, merge, remove, root

MAX_UPDATERS = 10
"""Entries of plain writes; older ones become one."""
BEFORE_FIRST_APPLY = "before-first-apply"
ANCIENT_CHANGES = "ancient-changes"

APPLY, UPDATE = "Apply", "Update"

_UNTRACKED: FieldSet = {
    "f:apiVersion": MEMBER,
    "f:kind": MEMBER,
    "f:metadata": dict.fromkeys(
        (
            ".", "f:name", "f:namespace", "f:creationTimestamp", "f:selfLink", "f:uid",
            "f:clusterName", "f:generation", "f:managedFields", "f:resourceVersion",
        ),
        MEMBER,
    ),
}  # fmt: skip


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
    live: Object | None,
    config: Object,
    type: Type | Node | None,
    writer: Writer,
    *,
    force: bool = False,
) -> Object:
    """The live object (None: there is none) with the applied configuration.

    Fields that this applier owned and no longer names go, unless others own them too. An apply
    that changes nothing returns `live` itself. Raises ApiError: 400 for a configuration of the
    wrong form, 409 that names the other owners, unless `force` takes the fields from them.
    """
    node = root(type)
    current = _bare(live or {})
    claims = _claims(_entries(live))
    if live and not claims and (fields := difference(compare({}, current, node).set, _UNTRACKED)):
        before = Writer(BEFORE_FIRST_APPLY, UPDATE, live.get("apiVersion") or writer.api_version)
        claims[before.identity] = _Claim(before, fields)
    old_claims = dict(claims)
    last = claims.get(writer.identity)
    claims[writer.identity] = _Claim(writer, difference(fields_of(config, node), _UNTRACKED))
    result = merge(current, config, node)
    if last:
        owned: FieldSet = {}
        for claim in claims.values():
            owned = union(owned, claim.fields)
        result = remove(result, node, outside(last.fields, owned))
    changes = compare(current, result, node)
    conflicts = [
        (claim.writer, found)
        for identity, claim in claims.items()
        if identity != writer.identity and (found := intersection(claim.fields, changes.set))
    ]
    if conflicts and not force:
        raise _conflict(conflicts)
    _take(claims, union(changes.set, changes.removed), keep=writer.identity)
    if live and result == current and _owners(claims) == _owners(old_claims):
        return live
    return _with_claims(result, claims)


def update(live: Object | None, new: Object, type: Type | Node | None, writer: Writer) -> Object:
    """`new`, which replaces `live`, with managedFields that say what this writer changed.

    The sender's own managedFields count if there are any; `[{}]` forgets all, and then nothing is
    tracked until the next apply.
    """
    given, known = _entries(new), _entries(live)
    claims: _Claims = {}
    if given != [{}]:
        claims = _claims(given, checked=given == known) or _claims(known)
    new = _bare(new)
    if live and not claims:
        return new
    changes = compare(_bare(live or {}), new, root(type))
    taken = difference(changes.set, _UNTRACKED)
    _take(claims, union(changes.set, changes.removed))
    if taken:
        left = claims.get(writer.identity)
        claims[writer.identity] = _Claim(writer, union(left.fields, taken) if left else taken)
    return _with_claims(new, _capped(claims))


def _entries(obj: Object | None) -> list[Object]:
    """metadata.managedFields."""
    return (obj or {}).get("metadata", {}).get("managedFields") or []


def _bare(obj: Object) -> Object:
    """The object without managedFields."""
    metadata = obj.get("metadata")
    if not metadata or "managedFields" not in metadata:
        return obj
    rest = {key: value for key, value in metadata.items() if key != "managedFields"}
    return obj | {"metadata": rest}


def _claims(entries: list[Object], *, checked: bool = True) -> _Claims:
    """What entries say; nothing if they are malformed, as upstream. Stored ones are `checked`."""
    claims: _Claims = {}
    for entry in entries:
        writer = Writer(
            entry.get("manager", ""), entry.get("operation", ""), entry.get("apiVersion", ""),
            entry.get("subresource", ""), entry.get("time", ""),
        )  # fmt: skip
        sound = entry.get("fieldsType") == "FieldsV1" and writer.operation in {APPLY, UPDATE}
        if not sound or not writer.api_version:
            return {}
        fields = entry.get("fieldsV1") or {}
        try:
            claims[writer.identity] = _Claim(writer, fields if checked else read(fields))
        except ValueError:
            return {}
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
        "fieldsV1": claim.fields,
        "subresource": writer.subresource,
    }
    return {key: value for key, value in entry.items() if value or key == "fieldsV1"}


def _take(claims: _Claims, fields: FieldSet, keep: tuple[str, ...] = ()) -> None:
    """Take the fields from all owners but `keep`; who owns nothing any more goes."""
    for identity, claim in list(claims.items()):
        left = claim.fields if identity == keep else difference(claim.fields, fields)
        if not left:
            del claims[identity]
        elif left is not claim.fields:
            claims[identity] = replace(claim, fields=left)


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
        fields = union(claim.fields, before.fields) if before else claim.fields
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
        for path in paths(fields)
    ]
    if len(causes) == 1:
        text = f"1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        lines = []
        for writer, fields in found:
            lines.append(f"conflicts with {writer}:")
            lines += [f"- {path_text(path)}" for path in paths(fields)]
        text = f"{len(causes)} conflicts: " + "\n".join(lines)
    return ApiError(409, "Conflict", f"Apply failed with {text}", details={"causes": causes})
