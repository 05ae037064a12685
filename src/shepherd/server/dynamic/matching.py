"""To which writes a webhook, policy or binding applies.

Source: "Matching requests" in the documentation of dynamic admission control; apiserver
pkg/admission/plugin/webhook/predicates, pkg/admission/plugin/policy/matching.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from shepherd.api.resource import Object, Resource
from shepherd.api.selectors import Selector, selector_of
from shepherd.server.dynamic.subject import Subject

Siblings = Callable[[Resource], Iterable[Resource]]
"""A resource in the other versions in which it is served."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One of `rules`, `resourceRules` or `excludeResourceRules`."""

    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: frozenset[str]
    scope: str
    names: frozenset[str]

    @classmethod
    def read(cls, rule: Object) -> "Rule":
        def words(name: str) -> frozenset[str]:
            return frozenset(rule.get(name) or ())

        return cls(
            words("operations"),
            words("apiGroups"),
            words("apiVersions"),
            words("resources"),
            rule.get("scope") or "*",
            words("resourceNames"),
        )

    def covers(self, subject: Subject, resource: Resource) -> bool:
        """Whether a write, seen as one of `resource`, is meant."""
        return (
            not self.operations.isdisjoint(("*", subject.operation))
            and not self.groups.isdisjoint(("*", resource.group))
            and not self.versions.isdisjoint(("*", resource.version))
            and self._covers_resource(resource.plural, subject.asked.route.sub)
            and (self.scope == "*" or (self.scope == "Namespaced") is resource.namespaced)
            and (not self.names or subject.name in self.names)
        )

    def _covers_resource(self, plural: str, sub: str) -> bool:
        if not sub:
            return not self.resources.isdisjoint(("*", "*/*", plural, f"{plural}/*"))
        return not self.resources.isdisjoint(("*/*", f"{plural}/*", f"*/{sub}", f"{plural}/{sub}"))


class Matching:
    """Rules and selectors together."""

    def __init__(self, rules: Any, excluded: Any, content: Object, *, open: bool = False) -> None:
        """`open`: without rules every write is meant."""
        self._rules = [Rule.read(rule) for rule in rules or ()]
        self._open = open and not self._rules
        self._excluded = [Rule.read(rule) for rule in excluded or ()]
        self._equivalent = content.get("matchPolicy", "Equivalent") == "Equivalent"
        self._namespaces = _selector(content.get("namespaceSelector"))
        self._objects = _selector(content.get("objectSelector"))

    @classmethod
    def of_webhook(cls, webhook: Object) -> "Matching":
        return cls(webhook.get("rules"), (), webhook)

    @classmethod
    def of_policy(cls, found: Object | None) -> "Matching":
        """matchConstraints of a policy, or matchResources of a binding."""
        content = found or {}
        rules, excluded = content.get("resourceRules"), content.get("excludeResourceRules")
        return cls(rules, excluded, content, open=True)

    async def find(self, subject: Subject, siblings: Siblings) -> Resource | None:
        """As which resource the write is meant; None if it is not."""
        found = self._resource(subject, siblings)
        return found if found and await self.selects(subject) else None

    def _resource(self, subject: Subject, siblings: Siblings) -> Resource | None:
        own = subject.resource
        candidates = [own, *siblings(own)] if self._equivalent else [own]
        if any(rule.covers(subject, one) for one in candidates for rule in self._excluded):
            return None
        if self._open:
            return own
        for one in candidates:
            if any(rule.covers(subject, one) for rule in self._rules):
                return one
        return None

    async def selects(self, subject: Subject) -> bool:
        """Whether the object, new or old, and its namespace have the labels that are asked for."""
        if self._objects and not any(
            obj is not None and self._objects.matches(_labels(obj))
            for obj in await subject.view(subject.resource)
        ):
            return False
        if not self._namespaces:
            return True
        namespace = await subject.namespace()
        return namespace is None or self._namespaces.matches(_labels(namespace))


def _selector(found: Object | None) -> Selector | None:
    return selector_of(found) if found else None


def _labels(obj: Object) -> Mapping[str, str]:
    return (obj.get("metadata") or {}).get("labels") or {}


def exempt(resource: Resource) -> bool:
    """What registers webhooks and policies is judged by none: a bad one can always be removed."""
    return resource.group == "admissionregistration.k8s.io"
