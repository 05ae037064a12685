"""The write path that all kinds share: what a create, update, patch or delete does to the store.

A write reads the present object, lets the rules make the new one, and commits it under the revision
it read; if another write came first it starts anew. Source: apiserver registry/generic store.go.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random

from shepherd.api import errors, managedfields
from shepherd.api.kinds.checks import NO_EFFECT
from shepherd.api.managedfields import APPLY, UPDATE, Writer
from shepherd.api.meta import object_key
from shepherd.api.resource import Object, Resource
from shepherd.lib.clock import Clock
from shepherd.lib.http import User
from shepherd.server import metadata, ownership
from shepherd.server.admission import Admission, Attributes
from shepherd.server.codec import decode, encode, with_revision
from shepherd.server.deletion import DeleteOptions, finished, held, mark
from shepherd.server.dynamic.chain import DynamicAdmission
from shepherd.server.routes import Route
from shepherd.server.versions import Versions
from shepherd.store.base import ConflictError, Delete, Item, Put, Store

_MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)
_NO_UID = "uid mismatch: the provided object specified uid {}, and no existing object was found"
MAX_OBJECT_BYTES = 3 * 1024 * 1024
"""Of an object as it is stored: what was read can be sent back. Patches could let it grow on."""
_NAMES_TO_TRY = 8
_ATTEMPTS = 64
"""How often a write starts anew when others keep coming first."""

Make = Callable[[Object], Object]
"""From the present object (with its resourceVersion) to the wanted one; may raise ApiError."""
Merge = Callable[[Resource, Object, Object], Object]
"""From the wanted and the present object to what is stored."""

MayCreate = Callable[[], Awaitable[None]]
"""Raises ApiError 403 if the user may change such an object but not make one."""


@dataclass(slots=True)
class Written:
    """What a write left behind."""

    value: bytes
    """The object in stored form."""
    revision: int
    """0 for a dry run of a create: nothing was stored."""
    gone: bool = False
    """It is no longer stored; `value` is its last state."""
    created: bool = False
    """An apply found no such object and made it."""
    warnings: list[str] = field(default_factory=list)
    """What to tell who wrote the object itself."""


class Registry:
    """Writes objects. Every method raises ApiError."""

    def __init__(
        self,
        store: Store,
        admission: Admission,
        dynamic: DynamicAdmission,
        versions: Versions,
        *,
        clock: Clock,
        random: Random,
    ) -> None:
        self.store = store
        self.versions = versions
        self._admission = admission
        self._dynamic = dynamic
        self._clock = clock
        self._random = random

    async def create(
        self,
        route: Route,
        obj: Object,
        user: User,
        *,
        writer: Writer | None = None,
        dry_run: bool = False,
    ) -> Written:
        """Store a new object. 409 if it exists, 422 if it is not valid.

        What it sets becomes the `writer`'s; of an apply, without what is filled in.
        """
        resource = route.resource
        metadata.check_target(route, obj)
        obj = metadata.normal_form(resource, obj)
        if resource.status and not resource.status_on_create:
            obj.pop("status", None)
        named = bool(obj["metadata"].get("name"))
        metadata.begin(resource, obj["metadata"], self._clock.now(), self._random)
        if writer and writer.operation == APPLY:
            ownership.track_new(resource, obj, writer)
        resource.default(obj)
        if writer and writer.operation == UPDATE:
            ownership.track_new(resource, obj, writer)
        asked = Attributes("create", route, obj, None, user, dry_run=dry_run)
        asked.manager = writer.manager if writer else ""
        await self._admission.admit(asked)
        if await self._dynamic.mutate(asked):
            obj = asked.obj = metadata.remade(resource, asked.obj, obj["metadata"])
        resource.prepare(obj, None)
        _accept(resource, obj, resource.validate(obj) + resource.judge(obj, None))
        await self._dynamic.validate(asked)
        for _ in range(1 if named else _NAMES_TO_TRY):
            key = object_key(resource, route.namespace, obj["metadata"]["name"])
            try:
                written = await self._commit(asked, key, 0, dry_run=dry_run)
            except ConflictError:
                taken = obj["metadata"]["name"]
                if not named:
                    metadata.generate_name(resource, obj["metadata"], self._random)
                    resource.default(obj)
            else:
                written.warnings = _warnings(resource, obj) + asked.warnings
                return written
        raise errors.already_exists(route.group, resource.plural, taken)

    async def apply(
        self,
        route: Route,
        config: Object,
        user: User,
        *,
        writer: Writer,
        merge: Merge,
        may_create: MayCreate | None = None,
        force: bool = False,
        dry_run: bool = False,
    ) -> Written:
        """Make the object what the configuration says, as far as it says anything.

        409 that names the owners of the fields that are others', unless `force` takes them. An
        object that is not there is created, if it may be.
        """
        schema, content = ownership.schema_of(route.resource), encode(config)

        def make(old: Object) -> Object:
            return managedfields.apply(old, decode(content), schema, writer, force=force)

        for _ in range(_ATTEMPTS):
            try:
                return await self.update(
                    route, make, user, merge=merge, writer=writer, dry_run=dry_run
                )
            except errors.ApiError as error:
                if error.code != 404 or writer.subresource:
                    raise
            if uid := (config.get("metadata") or {}).get("uid"):
                raise conflict(route, _NO_UID.format(uid))
            if may_create:
                await may_create()
            try:
                written = await self.create(
                    route, decode(content), user, writer=writer, dry_run=dry_run
                )
            except errors.ApiError as error:
                if error.reason != "AlreadyExists":
                    raise
            else:
                written.created = True
                return written
        raise conflict(route, _MODIFIED)

    async def update(
        self,
        route: Route,
        make: Make,
        user: User,
        *,
        merge: Merge,
        writer: Writer | None = None,
        dry_run: bool = False,
    ) -> Written:
        """Replace the object by what `make` wants, as far as `merge` lets it.

        What that changes becomes the `writer`'s. 409 if the wanted object names a resourceVersion
        or uid that no longer holds.
        """
        for _ in range(_ATTEMPTS):
            item = await self.item(route)
            try:
                return await self._update(route, item, make, user, merge, writer, dry_run)
            except ConflictError as error:
                await self._catch_up(route, error)
        raise conflict(route, _MODIFIED)

    async def _update(
        self,
        route: Route,
        item: Item,
        make: Make,
        user: User,
        merge: Merge,
        writer: Writer | None,
        dry_run: bool,
    ) -> Written:
        resource = route.resource
        old = await self.versions.load(resource, item)
        wanted = make(with_revision(old, item.revision))
        metadata.check_target(route, wanted)
        check_preconditions(route, wanted["metadata"], old, item.revision)
        new = merge(resource, wanted, old)
        if writer:
            ownership.track(resource, wanted, new, old, writer)
        asked = Attributes("update", route, new, old, user, read=item.revision, dry_run=dry_run)
        asked.manager = writer.manager if writer else ""
        if merge is main:
            await self._admission.admit(asked)
        if await self._dynamic.mutate(asked):
            kept = new["metadata"]
            new = asked.obj = metadata.remade(resource, merge(resource, asked.obj, old), kept)
        if merge is main:
            resource.prepare(new, old)
            count_generation(resource, new, old)
        if ownership.unchanged(new, old) and self.versions.current(resource, item.revision):
            return Written(item.value, item.revision)
        found = metadata.validate_update(new["metadata"], old["metadata"])
        found += resource.judge(new, old)
        if merge is main:
            found += resource.validate(new) + resource.validate_update(new, old)
        _accept(resource, new, found)
        await self._dynamic.validate(asked)
        if finished(resource, new):
            asked.operation = "delete"
        written = await self._commit(asked, item.key, item.revision, dry_run=dry_run)
        if merge is main:
            written.warnings = _warnings(resource, new)
        written.warnings += asked.warnings
        return written

    async def delete(self, route: Route, options: DeleteOptions, user: User) -> Written:
        """Remove the object, or mark it for those who must act first."""
        for _ in range(_ATTEMPTS):
            item = await self.item(route)
            try:
                return await self._delete(route, item, options, user)
            except ConflictError as error:
                await self._catch_up(route, error)
        raise conflict(route, _MODIFIED)

    async def _delete(
        self, route: Route, item: Item, options: DeleteOptions, user: User
    ) -> Written:
        old = await self.versions.load(route.resource, item)
        _check_delete(route, options, old, item.revision)
        asked = Attributes("delete", route, old, old, user, read=item.revision)
        asked.dry_run = options.dry_run
        await self._admission.admit(asked)
        await self._dynamic.mutate(asked)
        await self._dynamic.validate(asked)
        marked = mark(route.resource, old, options, self._clock.now())
        if marked == old:
            return Written(encode(old), item.revision, warnings=held(old, self._clock.now()))
        if marked is not None:
            asked.operation, asked.obj = "update", marked
        written = await self._commit(asked, item.key, item.revision, dry_run=options.dry_run)
        written.warnings = asked.warnings
        return written

    async def item(self, route: Route) -> Item:
        """The object as it is stored. Raises ApiError 404."""
        item = await self.store.get(object_key(route.resource, route.namespace, route.name))
        if item is None:
            raise _not_found(route)
        return item

    async def _commit(
        self, asked: Attributes, key: str, expected: int, *, dry_run: bool
    ) -> Written:
        """Reserve what the write needs, store it, and settle how that ended.

        Raises ConflictError if the key's revision is no longer `expected`.
        """
        await self._admission.reserve(asked)
        gone, revision, stored = asked.operation == "delete", expected, False
        try:
            value = encode(asked.obj)
            kept = await self.versions.store(asked.route.resource, asked.obj)
            stored_form = value if kept is asked.obj else encode(kept)
            _fits(asked, stored_form)
            if dry_run:
                there = await self.store.get(key)
                if (found := there.revision if there else 0) != expected:
                    raise ConflictError(key, expected, found)
            else:
                write = (
                    Delete(key, expected, stored_form) if gone else Put(key, stored_form, expected)
                )
                revision = asked.revision = await self.store.commit(write)
                stored = True
        finally:
            asked.settle(stored)
        return Written(value, revision, gone)

    async def _catch_up(self, route: Route, error: ConflictError) -> None:
        """Wait until the write that came first can be read."""
        if not error.actual:
            raise _not_found(route) from error
        await self.store.wait(error.actual)


def main(resource: Resource, wanted: Object, old: Object) -> Object:
    """An update of the object itself: status stays, if it is a subresource."""
    new = metadata.normal_form(resource, wanted)
    metadata.carry(new["metadata"], old["metadata"])
    if resource.status:
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]
    resource.default(new)
    return new


def status(resource: Resource, wanted: Object, old: Object) -> Object:
    """An update through `/status`: nothing else changes."""
    new = old | {"status": wanted.get("status") or {}}
    resource.default(new)
    return new


def count_generation(resource: Resource, new: Object, old: Object) -> None:
    """Bump metadata.generation if anything but metadata and the status subresource differs."""
    if not resource.generation:
        return
    skip = ("metadata", "status") if resource.status else ("metadata",)
    if {k: v for k, v in new.items() if k not in skip} != {
        k: v for k, v in old.items() if k not in skip
    }:
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def check_preconditions(route: Route, wanted: Object, old: Object, revision: int) -> None:
    """What the caller says it saw must still hold. Raises ApiError 409, 400."""
    uid = wanted.get("uid") or ""
    if uid and uid != old["metadata"]["uid"]:
        raise conflict(route, _uid_differs(uid, old))
    asked = wanted.get("resourceVersion") or ""
    if asked and not asked.isdecimal():
        raise errors.bad_request(f'metadata.resourceVersion: Invalid value: "{asked}"')
    if not int(asked or 0) and not route.resource.unconditional_update:
        found = errors.FieldError(
            "FieldValueInvalid",
            "metadata.resourceVersion",
            "Invalid value: 0x0: must be specified for an update",
        )
        raise errors.invalid(route.group, route.resource.kind, route.name, [found])
    if asked and int(asked) not in (0, revision):
        raise conflict(route, _MODIFIED)


def _check_delete(route: Route, options: DeleteOptions, old: Object, revision: int) -> None:
    if options.uid and options.uid != old["metadata"]["uid"]:
        raise conflict(route, _uid_differs(options.uid, old))
    if options.resource_version and options.resource_version != str(revision):
        raise conflict(
            route,
            f"Precondition failed: ResourceVersion in precondition: {options.resource_version}, "
            f"ResourceVersion in object meta: {revision}",
        )


def _uid_differs(uid: str, old: Object) -> str:
    return (
        f"Precondition failed: UID in precondition: {uid}, "
        f"UID in object meta: {old['metadata']['uid']}"
    )


def _accept(resource: Resource, obj: Object, found: list[errors.FieldError]) -> None:
    found = metadata.validate(resource, obj["metadata"]) + found
    if found:
        raise errors.invalid(resource.group, resource.kind, obj["metadata"]["name"], found)


def _fits(asked: Attributes, value: bytes) -> None:
    """Raises ApiError 413. What is on its way out may always be written."""
    if len(value) > MAX_OBJECT_BYTES and "deletionTimestamp" not in asked.obj["metadata"]:
        message = f"the object would take {len(value)} bytes, more than {MAX_OBJECT_BYTES}"
        raise errors.ApiError(413, "RequestEntityTooLarge", message)


def _warnings(resource: Resource, obj: Object) -> list[str]:
    idle = [f"{resource.kind}: {NO_EFFECT}"] if resource.idle else []
    return idle + resource.warnings(obj)


def conflict(route: Route, detail: str) -> errors.ApiError:
    return errors.conflict(route.group, route.resource.plural, route.name, detail)


def _not_found(route: Route) -> errors.ApiError:
    return errors.not_found(route.group, route.resource.plural, route.name)
