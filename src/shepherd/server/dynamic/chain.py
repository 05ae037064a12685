"""`DynamicAdmission`: what is registered to judge writes, and the running of it.

A configuration holds from the very write that stores it: who got an answer can rely on it. Source:
apiserver pkg/admission/configuration; for the order, kubernetes pkg/kubeapiserver/options.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from shepherd.api.errors import ApiError
from shepherd.api.kinds.admissions import (
    MUTATING_ADMISSION_POLICY,
    MUTATING_ADMISSION_POLICY_BINDING,
    MUTATING_WEBHOOK_CONFIGURATION,
    VALIDATING_ADMISSION_POLICY,
    VALIDATING_ADMISSION_POLICY_BINDING,
    VALIDATING_WEBHOOK_CONFIGURATION,
)
from shepherd.api.meta import key_prefix
from shepherd.api.resource import Object, Resource
from shepherd.lib.tasks import all_of
from shepherd.server.admission import Attributes
from shepherd.server.authorization.actions import Authorizer
from shepherd.server.callouts import Callouts
from shepherd.server.codec import decode
from shepherd.server.dynamic.matching import exempt
from shepherd.server.dynamic.parameters import Parameters
from shepherd.server.dynamic.policies import MutatingPolicy, Policy, ValidatingPolicy
from shepherd.server.dynamic.requests import judged_request
from shepherd.server.dynamic.subject import Subject
from shepherd.server.dynamic.webhooks import MutatingWebhook, ValidatingWebhook, Webhook
from shepherd.server.served import Served
from shepherd.server.versions import Versions
from shepherd.store.base import Span, Store

if TYPE_CHECKING:
    from shepherd.server.handlers import Call

View = Callable[[Resource, Object], Object]
"""What a subresource shows of an object."""

_Webhook = TypeVar("_Webhook", bound=Webhook)
_Policy = TypeVar("_Policy", bound=Policy)

_JUDGED_BEFORE = ("binding", "eviction")
"""Writes through these were judged when they were asked for, by `judge`."""


class Plugin(Protocol):
    """A webhook or policy."""

    async def target(self, subject: Subject) -> Resource | None:
        """As which resource it is to see the write; None if that is none of its business.

        Raises ApiError.
        """
        ...


class Mutator(Plugin, Protocol):
    """Rewrites what is written."""

    @property
    def again(self) -> bool:
        """It wants to see what others make of the object after it."""
        ...

    async def mutate(self, subject: Subject, resource: Resource) -> bool:
        """Whether it changed the object. Raises ApiError."""
        ...


class Validator(Plugin, Protocol):
    """Judges what is written."""

    async def validate(self, subject: Subject, resource: Resource) -> None:
        """Raises ApiError for a write that it refuses."""
        ...


@contextmanager
def _told(asked: Attributes) -> Iterator[None]:
    """Who is refused hears all warnings too."""
    try:
        yield
    except ApiError as error:
        error.warnings += asked.warnings
        raise


class DynamicAdmission:
    """Runs the registered webhooks and policies on the writes that they ask for."""

    followed = (
        MUTATING_ADMISSION_POLICY,
        MUTATING_ADMISSION_POLICY_BINDING,
        MUTATING_WEBHOOK_CONFIGURATION,
        VALIDATING_ADMISSION_POLICY,
        VALIDATING_ADMISSION_POLICY_BINDING,
        VALIDATING_WEBHOOK_CONFIGURATION,
    )
    """The kinds that say what is to be done."""

    def __init__(
        self,
        store: Store,
        served: Served,
        versions: Versions,
        callouts: Callouts,
        views: dict[str, tuple[Object, View]],
        authorizer: Authorizer | None,
    ) -> None:
        """`views`: by subresource, the kind of what it reads and writes, and how that is made."""
        self._store = store
        self._versions = versions
        self._callouts = callouts
        self._parameters = Parameters(store, served, versions)
        self._views = views
        self._authorizer = authorizer
        self._registered: dict[Resource, dict[str, Object]] = {one: {} for one in self.followed}
        self._mutating: tuple[Mutator, ...] = ()
        self._validating: tuple[Validator, ...] = ()

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
        self._mutating = (
            *self._policies(
                MutatingPolicy, MUTATING_ADMISSION_POLICY, MUTATING_ADMISSION_POLICY_BINDING
            ),
            *self._webhooks(MutatingWebhook, MUTATING_WEBHOOK_CONFIGURATION),
        )
        self._validating = (
            *self._policies(
                ValidatingPolicy, VALIDATING_ADMISSION_POLICY, VALIDATING_ADMISSION_POLICY_BINDING
            ),
            *self._webhooks(ValidatingWebhook, VALIDATING_WEBHOOK_CONFIGURATION),
        )

    def _webhooks(self, make: type[_Webhook], resource: Resource) -> Iterator[_Webhook]:
        for _, configuration in sorted(self._registered[resource].items()):
            for webhook in configuration.get("webhooks") or ():
                yield make(webhook, self._callouts, self._parameters.siblings)

    def _policies(
        self, make: type[_Policy], policies: Resource, bindings: Resource
    ) -> Iterator[_Policy]:
        for name, policy in sorted(self._registered[policies].items()):
            mine = [
                binding
                for _, binding in sorted(self._registered[bindings].items())
                if binding["spec"].get("policyName") == name
            ]
            if mine:
                yield make(policy, mine, self._parameters)

    # -- what it does ----------------------------------------------------------------------------

    async def mutate(self, asked: Attributes) -> bool:
        """May replace `asked.obj`; true if it did. Raises ApiError."""
        if not self._mutating or not self._judges(asked) or asked.route.sub in self._views:
            return False
        with _told(asked):
            return await self._mutate(asked)

    async def _mutate(self, asked: Attributes) -> bool:
        subject, changed = Subject(asked, self._store, self._versions, self._authorizer), False
        left: list[tuple[Mutator, Object]] = []
        for mutator in self._mutating:
            if resource := await mutator.target(subject):
                changed |= await mutator.mutate(subject, resource)
                if mutator.again:
                    left.append((mutator, asked.obj))
        for mutator, obj in left:
            if asked.obj != obj and (resource := await mutator.target(subject)):
                changed |= await mutator.mutate(subject, resource)
        return changed

    async def validate(self, asked: Attributes) -> None:
        """Raises ApiError, of one of those that refuse the write."""
        if self._validating and self._judges(asked):
            await self._validate(asked)

    async def judge(self, call: "Call") -> None:
        """The same of a request that asks for more than a write. Raises ApiError."""
        if self._validating and (asked := judged_request(call)):
            await self._validate(asked)

    async def _validate(self, asked: Attributes) -> None:
        if (sub := asked.route.sub) in self._views:
            kind, view = self._views[sub]
            resource, old = asked.route.resource, asked.old
            shown = None if old is None else view(resource, old)
            asked = replace(asked, obj=view(resource, asked.obj), old=shown, kind=kind)
        subject = Subject(asked, self._store, self._versions, self._authorizer)
        meant = [(one, to) for one in self._validating if (to := await one.target(subject))]
        if meant:
            with _told(asked):
                await all_of(one.validate(subject, resource) for one, resource in meant)

    def _judges(self, asked: Attributes) -> bool:
        route = asked.route
        return not exempt(route.resource) and route.sub not in _JUDGED_BEFORE
