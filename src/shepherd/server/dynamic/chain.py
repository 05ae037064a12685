"""`DynamicAdmission`: what is registered to judge writes, and the running of it.

A configuration holds from the very write that stores it: who got an answer can rely on it. Source:
apiserver pkg/admission/configuration.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from shepherd.api.kinds.admissions import (
    MUTATING_WEBHOOK_CONFIGURATION,
    VALIDATING_WEBHOOK_CONFIGURATION,
)
from shepherd.api.meta import key_prefix
from shepherd.api.resource import Object, Resource
from shepherd.server.admission import Attributes
from shepherd.server.callouts import Callouts
from shepherd.server.codec import decode
from shepherd.server.dynamic import webhooks
from shepherd.server.dynamic.matching import exempt
from shepherd.server.dynamic.subject import Subject
from shepherd.server.dynamic.webhooks import Webhook
from shepherd.server.served import Served
from shepherd.server.versions import Versions
from shepherd.store.base import Span, Store

View = Callable[[Resource, Object], Object]
"""What a subresource shows of an object."""

_NOT_JUDGED = ("binding", "eviction")
"""Writes through these were judged when they were asked for, by `connect`."""


class DynamicAdmission:
    """Runs the registered webhooks on the writes that they ask for."""

    followed = (MUTATING_WEBHOOK_CONFIGURATION, VALIDATING_WEBHOOK_CONFIGURATION)
    """The kinds that say what is to be done."""

    def __init__(
        self,
        store: Store,
        served: Served,
        versions: Versions,
        callouts: Callouts,
        views: dict[str, tuple[Object, View]],
    ) -> None:
        """`views`: by subresource, the kind of what it reads and writes, and how that is made."""
        self._store = store
        self._served = served
        self._versions = versions
        self._callouts = callouts
        self._views = views
        self._registered: dict[Resource, dict[str, Object]] = {one: {} for one in self.followed}
        self._mutating: tuple[Webhook, ...] = ()
        self._validating: tuple[Webhook, ...] = ()

    # -- what is registered ----------------------------------------------------------------------

    async def load(self) -> None:
        """Take up what is stored."""
        for resource in self.followed:
            page = await self._store.list(Span.prefix(key_prefix(resource)))
            for item in page.items:
                obj = decode(item.value)
                self._registered[resource][obj["metadata"]["name"]] = obj
        self._read()

    def follow(self, asked: Attributes) -> None:
        """A write of one of the kinds that are followed is about to be stored."""
        resource, name = asked.route.resource, asked.obj["metadata"]["name"]

        def end(stored: bool) -> None:
            if not stored:
                return
            if asked.operation == "delete":
                self._registered[resource].pop(name, None)
            else:
                self._registered[resource][name] = asked.obj
            self._read()

        asked.on_end(end)

    def _read(self) -> None:
        self._mutating = tuple(self._webhooks(MUTATING_WEBHOOK_CONFIGURATION))
        self._validating = tuple(self._webhooks(VALIDATING_WEBHOOK_CONFIGURATION))

    def _webhooks(self, resource: Resource) -> Iterable[Webhook]:
        for _, configuration in sorted(self._registered[resource].items()):
            yield from map(Webhook, configuration.get("webhooks") or ())

    # -- what it does ----------------------------------------------------------------------------

    async def mutate(self, asked: Attributes) -> bool:
        """May replace `asked.obj`; true if it did. Raises ApiError."""
        if not self._mutating or not self._judges(asked) or asked.route.sub in self._views:
            return False
        return await webhooks.mutate(
            self._mutating, self._callouts, self._subject(asked), self._siblings
        )

    async def validate(self, asked: Attributes) -> None:
        """Raises ApiError for a write that is refused."""
        if not self._validating or not self._judges(asked):
            return
        await webhooks.validate(
            self._validating, self._callouts, self._subject(asked), self._siblings
        )

    def _judges(self, asked: Attributes) -> bool:
        route = asked.route
        return not exempt(route.resource) and route.sub not in _NOT_JUDGED

    def _subject(self, asked: Attributes) -> Subject:
        if (sub := asked.route.sub) in self._views:
            kind, view = self._views[sub]
            resource, old = asked.route.resource, asked.old
            shown = None if old is None else view(resource, old)
            asked = replace(asked, obj=view(resource, asked.obj), old=shown, kind=kind)
        return Subject(asked, self._store, self._versions)

    def _siblings(self, resource: Resource) -> Iterable[Resource]:
        """The other versions of a custom resource. Built-in kinds have but the one stored."""
        custom = resource.custom
        definition = self._served.definition(custom.definition) if custom else None
        if definition is None:
            return ()
        return (one for one in definition.resources if one.version != resource.version)
