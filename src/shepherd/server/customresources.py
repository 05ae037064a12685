"""CustomResourceDefinitions that are stored: names, conditions, what is served, and the end.

A CRD is established by the very write that stores it: who got an answer can use the new kind at
once. Source: apiextensions-apiserver pkg/controller/{status,establish,finalizer}.
"""

import asyncio
import logging

from shepherd.api import errors
from shepherd.api.conditions import condition_is_true
from shepherd.api.custom.definition import define
from shepherd.api.kinds import CUSTOM_RESOURCE_DEFINITION as CRD
from shepherd.api.kinds.customresourcedefinitions import CLEANUP_FINALIZER
from shepherd.api.meta import format_time, key_prefix, split_key
from shepherd.api.resource import Object, Resource
from shepherd.lib.backoff import Backoff
from shepherd.lib.clock import Clock
from shepherd.server.admission import Attributes
from shepherd.server.bootstrap import SELF
from shepherd.server.codec import decode
from shepherd.server.deletion import DeleteOptions
from shepherd.server.hub import Hub
from shepherd.server.registry import Registry, main, status
from shepherd.server.routes import Route
from shepherd.server.selection import select
from shepherd.server.served import Served
from shepherd.store.base import Span, Store

log = logging.getLogger("shepherd.server")

_BACKOFF = Backoff(initial=0.1, cap=30.0, jitter=0.1)
_PARTS = (
    ("plural", "Plural", "resource"), ("singular", "Singular", "resource"),
    ("shortNames", "ShortNames", "resource"), ("kind", "Kind", "kind"),
    ("listKind", "ListKind", "kind"),
)  # fmt: skip

_Claim = tuple[str, str, str]
"""Group, whether a resource or a kind, and the name."""


class Names:
    """Who has which name in a group: the first CRD that asked for it, as long as it is there."""

    def __init__(self, builtin: tuple[Resource, ...]) -> None:
        self._owners: dict[_Claim, str] = {}
        self._claims: dict[str, list[_Claim]] = {}
        for resource in builtin:
            own = (resource.plural, resource.singular, *resource.short_names)
            for name in filter(None, own):
                self._owners[resource.group, "resource", name] = ""
            for name in (resource.kind, resource.list_kind or f"{resource.kind}List"):
                self._owners[resource.group, "kind", name] = ""

    def claim(
        self, owner: str, group: str, names: Object, accepted: Object
    ) -> tuple[Object, str, str]:
        """Take the names that are free.

        The accepted names (for those that are taken, those from before), and the reason and message
        of what is in the way, if anything is.
        """
        result, reason, message = dict(accepted), "", ""
        for part, word, space in _PARTS:
            wanted = names.get(part) or ([] if part == "shortNames" else "")
            taken = [
                name
                for name in _each(wanted)
                if self._owners.get((group, space, name), owner) != owner
            ]
            if taken:
                reason = f"{word}Conflict"
                message = ", ".join(f'"{name}" is already in use' for name in taken)
            else:
                result[part] = wanted
        if names.get("categories"):
            result["categories"] = names["categories"]
        self.release(owner)
        for part, _, space in _PARTS:
            for name in _each(result.get(part) or ""):
                self._owners[group, space, name] = owner
                self._claims.setdefault(owner, []).append((group, space, name))
        return {key: value for key, value in result.items() if value}, reason, message

    def release(self, owner: str) -> None:
        """Give back all that a CRD has."""
        for claim in self._claims.pop(owner, ()):
            self._owners.pop(claim, None)


def _each(value: str | list[str]) -> list[str]:
    return value if isinstance(value, list) else [value] if value else []


class CustomResources:
    """Follows the CRDs as they are written, and tells `served` and the hub."""

    def __init__(self, store: Store, served: Served, hub: Hub, clock: Clock) -> None:
        self._store = store
        self._served = served
        self._hub = hub
        self._clock = clock
        self._names = Names(served.builtin)
        self._refused: dict[str, str] = {}
        """CRDs whose names are not all theirs, with their group."""
        self._ending: set[str] = set()
        """CRDs that are being deleted."""
        self._freed: set[str] = set()
        """Groups in which names came free."""
        self._wake = asyncio.Event()

    async def load(self) -> None:
        """Serve what is stored."""
        page = await self._store.list(Span.prefix(key_prefix(CRD)))
        for item in page.items:
            crd = decode(item.value)
            name, accepted = crd["metadata"]["name"], (crd.get("status") or {}).get("acceptedNames")
            self._names.claim(name, crd["spec"]["group"], accepted or {}, {})
            self._publish(crd, item.revision)

    # -- writes of CRDs --------------------------------------------------------------------------

    def reserve(self, asked: Attributes) -> None:
        """Settle names and conditions of a CRD that is about to be stored, in place."""
        crd, name = asked.obj, asked.obj["metadata"]["name"]
        if asked.operation != "delete":
            before = (asked.old or {}).get("status", {}).get("acceptedNames") or {}
            self._settle(crd, before)
        asked.on_end(lambda stored: self._stored(asked, name, stored))

    def _settle(self, crd: Object, before: Object) -> None:
        name, spec = crd["metadata"]["name"], crd["spec"]
        accepted, reason, message = self._names.claim(name, spec["group"], spec["names"], before)
        conditions = Conditions(crd, self._clock.now())
        if reason:
            conditions.set("NamesAccepted", False, reason, message)
        else:
            conditions.set("NamesAccepted", True, "NoConflicts", "no conflicts found")
        if not reason and not condition_is_true(crd, "Established"):
            text = "the initial names have been accepted"
            conditions.set("Established", True, "InitialNamesAccepted", text)
        elif not condition_is_true(crd, "Established"):
            conditions.set("Established", False, "NotAccepted", "not all names are accepted")
        if crd["metadata"].get("deletionTimestamp"):
            text = (
                "CustomResourceDefinition marked for deletion; "
                "CustomResource deletion will occur soon"
            )
            conditions.set("Terminating", True, "InstanceDeletionPending", text)
        crd["status"] = crd["status"] | {
            "acceptedNames": {"plural": "", "kind": ""} | accepted,
            "conditions": conditions.all,
        }

    def _stored(self, asked: Attributes, name: str, stored: bool) -> None:
        gone = asked.operation == "delete"
        if not stored:
            self._restore(asked.old, name)
        elif gone:
            self._retire(name, asked.obj["spec"]["group"])
        else:
            self._publish(asked.obj, asked.revision)

    def _restore(self, old: Object | None, name: str) -> None:
        """Nothing was stored: the names are as they were before."""
        if old is not None:
            accepted = (old.get("status") or {}).get("acceptedNames") or {}
            self._names.claim(name, old["spec"]["group"], accepted, {})
        elif self._served.definition(name) is None and name not in self._refused:
            self._names.release(name)

    def _publish(self, crd: Object, revision: int) -> None:
        name, metadata = crd["metadata"]["name"], crd["metadata"]
        if metadata.get("deletionTimestamp"):
            self._ending.add(name)
            self._wake.set()
        if condition_is_true(crd, "NamesAccepted"):
            self._refused.pop(name, None)
        else:
            self._refused[name] = crd["spec"]["group"]
        if not condition_is_true(crd, "Established"):
            return
        present, essence = self._served.definition(name), _essence(crd)
        if present and present.made_from == essence:
            return
        if present and present.stored.custom and essence[-1]:
            # Only that nothing new is created any more: who watches sees the objects go.
            revision = present.stored.custom.since
        self._served.add(define(crd, revision, essence))
        if present and not essence[-1]:
            self._hub.end(present.stored)

    def _retire(self, name: str, group: str) -> None:
        definition = self._served.definition(name)
        self._served.remove(name)
        if definition:
            self._hub.end(definition.stored)
        self._names.release(name)
        self._ending.discard(name)
        self._refused.pop(name, None)
        self._freed.add(group)
        self._wake.set()

    # -- background ------------------------------------------------------------------------------

    async def run(self, registry: Registry) -> None:
        """Empty and remove CRDs that are being deleted, and give names that came free to those that
        asked for them. For ever."""
        async with asyncio.TaskGroup() as group:
            started: set[str] = set()
            while True:
                for name in self._ending - started:
                    group.create_task(self._end(registry, name))
                started = set(self._ending)
                freed, self._freed = self._freed, set()
                for name in [n for n, where in self._refused.items() if where in freed]:
                    await self._ask_again(registry, name)
                self._wake.clear()
                await self._wake.wait()

    async def _ask_again(self, registry: Registry, name: str) -> None:
        def forget(crd: Object) -> Object:
            return crd | {"status": crd["status"] | {"conditions": []}}

        try:
            await registry.update(_route(CRD, "update", name=name), forget, SELF, merge=status)
        except errors.ApiError as error:
            log.warning("customresourcedefinition %s: %s", name, error)

    async def _end(self, registry: Registry, name: str) -> None:
        failures = 0
        while name in self._ending:
            try:
                await self._empty(registry, name)
                await registry.update(
                    _route(CRD, "update", name=name), _without_finalizer, SELF, merge=main
                )
            except errors.ApiError as error:
                if error.code == 404:
                    return
                failures += 1
                log.warning("customresourcedefinition %s is not deleted yet: %s", name, error)
                await self._clock.sleep(_BACKOFF.delay(failures))
            else:
                return

    async def _empty(self, registry: Registry, name: str) -> None:
        """Delete all objects of a CRD; return when they are gone."""
        definition = self._served.definition(name)
        if definition is None:
            return
        resource = definition.stored
        while True:
            page = await self._store.list(Span.prefix(key_prefix(resource)))
            if not page.items:
                return
            for item in page.items:
                _, namespace, object_name = split_key(item.key)
                route = _route(resource, "delete", namespace, object_name)
                try:
                    await registry.delete(route, DeleteOptions(), SELF)
                except errors.ApiError as error:
                    if error.code != 404:
                        raise
            await self._change(resource)

    async def _change(self, resource: Resource) -> None:
        """Return once something of the resource may have changed since the last look."""
        if not (await self._store.list(Span.prefix(key_prefix(resource)), limit=1)).items:
            return
        stream = await self._hub.open(select(_route(resource, "watch"), {}), self._store.revision)
        try:
            await stream.next()
        finally:
            await self._hub.close(stream)


def _route(resource: Resource, verb: str, namespace: str = "", name: str = "") -> Route:
    return Route(verb, resource, resource.group, resource.version, namespace, name)


def _without_finalizer(crd: Object) -> Object:
    kept = [name for name in crd["metadata"].get("finalizers") or () if name != CLEANUP_FINALIZER]
    return crd | {"metadata": crd["metadata"] | {"finalizers": kept}}


def _essence(crd: Object) -> tuple[object, ...]:
    """What of a CRD decides what is served."""
    metadata = crd["metadata"]
    return (
        metadata["uid"],
        metadata.get("generation"),
        crd["status"]["acceptedNames"],
        "deletionTimestamp" in metadata,
    )


class Conditions:
    """The conditions of a CRD, under change."""

    def __init__(self, crd: Object, now: float) -> None:
        self._by_type = {c["type"]: c for c in (crd.get("status") or {}).get("conditions") or ()}
        self._now = format_time(now)

    def set(self, type: str, true: bool, reason: str, message: str) -> None:
        """Its time changes only with its status."""
        state = "True" if true else "False"
        before = self._by_type.get(type, {})
        since = before.get("lastTransitionTime") if before.get("status") == state else self._now
        self._by_type[type] = {
            "type": type,
            "status": state,
            "lastTransitionTime": since or self._now,
            "reason": reason,
            "message": message,
        }

    @property
    def all(self) -> list[Object]:
        return list(self._by_type.values())
