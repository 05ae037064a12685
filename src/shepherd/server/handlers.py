"""One function for each verb: from a routed request to its answer."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any, Protocol

import msgspec

from shepherd.api import errors
from shepherd.api.decode import (
    Check,
    Decoded,
    FieldValidation,
    decode_object,
    field_validation,
    media_type,
)
from shepherd.api.managedfields import APPLY, UPDATE, Writer
from shepherd.api.meta import format_time
from shepherd.api.resource import Object
from shepherd.lib.clock import Clock
from shepherd.lib.http import Body, Request, Response, User
from shepherd.server import ownership, patches, reads, registry
from shepherd.server.access import Access
from shepherd.server.codec import decode
from shepherd.server.conversion import CONVERSIONS
from shepherd.server.deletion import DeleteOptions
from shepherd.server.forms import Form, Plain, choose
from shepherd.server.hub import Hub
from shepherd.server.patches import Kind, Patcher, patcher
from shepherd.server.registry import Registry, Written
from shepherd.server.routes import TRUE, Route
from shepherd.server.selection import Selection, select
from shepherd.server.watch import Watch, WatchOptions

JSON = "application/json"
_MOST_WARNINGS, _WARNING_LENGTH, _WARNINGS_LENGTH = 32, 256, 4096
"""Limits of the Warning header: texts, characters of each, and of all (apiserver's are alike)."""


@dataclass(slots=True)
class Call:
    """A request that was routed, authenticated and authorized."""

    request: Request
    route: Route
    user: User
    query: dict[str, str]
    """The first value of each parameter."""

    @property
    def kind(self) -> Kind:
        """Group, version and kind, as asked."""
        return self.route.group, self.route.version, self.route.resource.kind

    @property
    def validation(self) -> FieldValidation:
        """Raises ApiError 422."""
        return field_validation(self.query.get("fieldValidation", ""))

    def body(self, group: str, version: str, kind: str) -> Decoded:
        """The body as an object of that kind. Raises ApiError 400, 415."""
        return decode_object(
            self.request.body,
            self.request.headers.get("content-type", ""),
            group,
            version,
            kind,
            validation=self.validation,
            check=self._check(kind),
        )

    def patch(self, group: str, version: str, kind: str) -> Patcher:
        """The body as a patch of an object of that kind. Raises ApiError 400, 415."""
        kinds = (group, version, kind)
        return patcher(self.request, kinds, self.validation, self._check(kind))

    def _check(self, kind: str) -> Check | None:
        """What checks objects of the kind, if the schema data does not know it."""
        resource = self.route.resource
        return resource.check if kind == resource.kind else None

    @property
    def applies(self) -> bool:
        """Whether this is a server-side apply."""
        content_type = self.request.headers.get("content-type", "")
        return self.route.verb == "patch" and media_type(content_type) == patches.APPLY

    def writer(self, now: float) -> Writer:
        """Who writes, for managedFields. Raises ApiError 422."""
        applying = self.applies
        return Writer(
            ownership.manager_of(self.request, self.query, self.route.verb, applying=applying),
            APPLY if applying else UPDATE,
            self.route.resource.api_version,
            self.route.sub,
            format_time(now),
        )

    def config(self, group: str, version: str, kind: str) -> Decoded:
        """The body of an apply to an object of that kind. Raises ApiError 400."""
        check = self._check(kind)
        return ownership.read_config(self.request, group, version, kind, self.validation, check)

    @property
    def force(self) -> bool:
        """Whether an apply takes fields from their owners."""
        return self.query.get("force", "") in TRUE

    @property
    def dry_run(self) -> bool:
        """Raises ApiError 422 for any value but All."""
        value = self.query.get("dryRun", "")
        if value not in ("", "All"):
            found = [errors.not_supported("dryRun", value, ["All"])]
            raise errors.invalid("meta.k8s.io", "WriteOptions", "", found)
        return bool(value)


class AgentDialer(Protocol):
    """Reaches what runs on nodes."""

    async def send(self, origin: str, request: Request) -> Response:
        """Send `request` to `https://address:port` (an agent; the server proves itself with its
        client certificate) or `http://address:port` (a pod). Raises ConnectionError."""
        ...


class Handlers:
    """The verbs on objects."""

    def __init__(
        self,
        registry: Registry,
        hub: Hub,
        *,
        clock: Clock,
        random: Random,
        dialer: AgentDialer | None,
        access: Access,
    ) -> None:
        self.registry = registry
        self.access = access
        self.dialer = dialer
        self.store = registry.store
        self._versions = registry.versions
        self._hub = hub
        self.now = clock.now
        self.random = random
        self._verbs: dict[str, Callable[[Call], Awaitable[Response]]] = {
            "get": self.get,
            "list": self.list,
            "watch": self.watch,
            "create": self.create,
            "update": self.update,
            "patch": self.patch,
            "delete": self.delete,
            "deletecollection": self.delete_collection,
        }

    async def handle(self, call: Call) -> Response:
        """Serve the object itself. Raises ApiError."""
        if call.route.verb not in call.route.resource.verbs:
            raise errors.method_not_allowed(call.request.method)
        return await self._verbs[call.route.verb](call)

    async def get(self, call: Call) -> Response:
        form = self.form(call)
        await reads.wait_for(self.store, reads.revision_of(call.query.get("resourceVersion", "")))
        item = await self.registry.item(call.route)
        [item] = await self._versions.items(call.route.resource, [item])
        return answer(form.one(item.value, item.revision))

    async def list(self, call: Call) -> Response:
        form = self.form(call)
        listing = await self._list(call)
        return answer(await form.many(listing.items, listing.metadata))

    async def _list(self, call: Call) -> reads.Listing:
        return await reads.list_objects(self.store, _selection(call), call.query, self._versions)

    async def watch(self, call: Call) -> Response:
        options = WatchOptions.read(call.query, self.random)
        form = self.form(call)
        watch = Watch(self.store, self._hub, self._versions, _selection(call), form, options)
        await watch.begin()
        return answer(watch.lines())

    async def create(self, call: Call) -> Response:
        form = self.form(call)
        decoded = call.body(*call.kind)
        obj = _stored(call.route, decoded.object)
        writer = call.writer(self.now())
        written = await self.registry.create(
            call.route, obj, call.user, writer=writer, dry_run=call.dry_run
        )
        return _written(form, written, decoded.warnings, code=201)

    async def update(self, call: Call, merge: registry.Merge = registry.main) -> Response:
        return await self._change(call, lambda old: call.body(*call.kind), merge)

    async def patch(self, call: Call, merge: registry.Merge = registry.main) -> Response:
        if call.applies:
            return await self._apply(call, merge)
        return await self._change(call, call.patch(*call.kind), merge)

    async def _apply(self, call: Call, merge: registry.Merge) -> Response:
        form = self.form(call)
        writer = call.writer(self.now())
        decoded = call.config(*call.kind)
        config = _stored(call.route, decoded.object)
        written = await self.registry.apply(
            call.route,
            ownership.applicable(call.route.resource, config, call.route.sub),
            call.user,
            writer=writer,
            merge=merge,
            may_create=partial(self._may_create, call),
            force=call.force,
            dry_run=call.dry_run,
        )
        return _written(form, written, decoded.warnings, code=201 if written.created else 200)

    async def _may_create(self, call: Call) -> None:
        route = replace(call.route, verb="create")
        await self.access.allow(call.user, call.request, route)

    async def _change(self, call: Call, change: Patcher, merge: registry.Merge) -> Response:
        """Update the object by `change`, which sees and makes it as it is served."""
        form = self.form(call)
        warnings: list[str] = []

        def make(old: Object) -> Object:
            wanted = change(_served(call.route, old))
            warnings[:] = wanted.warnings
            return _stored(call.route, wanted.object)

        writer = call.writer(self.now())
        written = await self.registry.update(
            call.route, make, call.user, merge=merge, writer=writer, dry_run=call.dry_run
        )
        return _written(form, written, warnings)

    async def delete(self, call: Call) -> Response:
        form = self.form(call)
        options = _delete_options(call)
        written = await self.registry.delete(call.route, options, call.user)
        if written.gone and not call.route.resource.shown_deleted:
            return answer(msgspec.json.encode(_deleted(call.route, written.value)))
        return _written(form, written, [])

    async def delete_collection(self, call: Call) -> Response:
        """Delete each selected object; those that go meanwhile count as deleted."""
        options = _delete_options(call)
        form = Plain(call.route)
        listing = await self._list(call)
        for item in listing.items:
            try:
                await self.registry.delete(_route_to(call.route, item.key), options, call.user)
            except errors.ApiError as error:
                if error.code != 404:
                    raise
        return answer(await form.many(listing.items, listing.metadata))

    def form(self, call: Call) -> Form:
        """How to write the answer. Raises ApiError 406."""
        accept = call.request.headers.get("accept", "")
        include = call.query.get("includeObject", "")
        return choose(call.route, accept, include, self.now)


def answer(content: Body, code: int = 200) -> Response:
    return Response(code, {"content-type": JSON}, content)


def json_answer(value: Any, code: int = 200) -> Response:
    """JSON as Go writes it: the official Python client prints such answers one after another."""
    return answer(msgspec.json.encode(value) + b"\n", code)


def warn(response: Response, warnings: "list[str]") -> Response:
    """Tell the user (RFC 7234 section 5.5; kubectl prints them), as much as fits: clients refuse
    answers with long headers."""
    told: dict[str, None] = {}
    room = _WARNINGS_LENGTH
    for warning in warnings:
        text = _quotable(warning)
        if text in told:
            continue
        if len(text) > room or len(told) == _MOST_WARNINGS:
            told["there are more warnings, which do not fit in here"] = None
            break
        told[text] = None
        room -= len(text)
    if told:
        response.headers["warning"] = ", ".join(f'299 - "{text}"' for text in told)
    return response


def _quotable(text: str) -> str:
    """As what stands between quotes in a header; cut to a line that a person still reads."""
    if len(text) > _WARNING_LENGTH:
        text = f"{text[:_WARNING_LENGTH]}..."
    printable = "".join(char if char.isprintable() else " " for char in text)
    return printable.replace("\\", "\\\\").replace('"', '\\"')


def _written(form: Form, written: Written, warnings: "list[str]", code: int = 200) -> Response:
    response = answer(form.one(written.value, written.revision), code)
    return warn(response, warnings + written.warnings)


def _selection(call: Call) -> Selection:
    query = call.query
    if call.route.converted and "fieldSelector" in query:
        conversion = CONVERSIONS[call.route.api_version]
        query = query | {"fieldSelector": conversion.stored_fields(query["fieldSelector"])}
    return select(call.route, query)


def _stored(route: Route, obj: Object) -> Object:
    """A body in stored form."""
    return CONVERSIONS[route.api_version].to_stored(obj) if route.converted else obj


def _served(route: Route, obj: Object) -> Object:
    """A stored object in the form that was asked for."""
    return CONVERSIONS[route.api_version].to_served(obj) if route.converted else obj


def _route_to(route: Route, key: str) -> Route:
    _, namespace, name = key.split("/", 2)
    return Route("delete", route.resource, route.group, route.version, namespace, name)


def _delete_options(call: Call) -> DeleteOptions:
    content = call.body("", "v1", "DeleteOptions").object if call.request.body else {}
    return DeleteOptions.read(content, call.query)


def _deleted(route: Route, value: bytes) -> Object:
    details = {
        "name": route.name,
        "group": route.group,
        "kind": route.resource.plural,
        "uid": decode(value)["metadata"]["uid"],
    }
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {key: text for key, text in details.items() if text},
    }
