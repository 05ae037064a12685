"""What the rules of roles allow, cover, and add up to.

Source: kubernetes component-helpers auth/rbac/validation (policy_comparator.go), pkg/apis/rbac/v1
(evaluation_helpers.go), pkg/controller/clusterroleaggregation; "Using RBAC Authorization".
"""

import json
from collections.abc import Iterable, Iterator, Sequence

from shepherd.api.objects.rbac import PolicyRule, Role
from shepherd.api.selectors import selector_of

ALL = "*"
EVERYTHING = (
    PolicyRule(verbs=[ALL], api_groups=[ALL], resources=[ALL]),
    PolicyRule(verbs=[ALL], non_resource_urls=[ALL]),
)
"""The rules of cluster-admin."""


def allows(rule: PolicyRule, verb: str, group: str, resource: str, name: str = "") -> bool:
    """Whether it allows `verb` on a resource, or on `pods/log`, a subresource."""
    return (
        (verb in rule.verbs or ALL in rule.verbs)
        and (group in rule.api_groups or ALL in rule.api_groups)
        and _has_resource(rule.resources, resource)
        and (not rule.resource_names or name in rule.resource_names)
    )


def allows_path(rule: PolicyRule, verb: str, path: str) -> bool:
    """Whether it allows `verb` on the document at `path`."""
    return (verb in rule.verbs or ALL in rule.verbs) and _has_path(rule.non_resource_urls, path)


def _has_resource(resources: Sequence[str], resource: str) -> bool:
    if resource in resources or ALL in resources:
        return True
    _, slash, subresource = resource.partition("/")
    return bool(slash) and f"{ALL}/{subresource}" in resources


def _has_path(paths: Sequence[str], path: str) -> bool:
    return any(
        path == known or (known.endswith(ALL) and path.startswith(known.rstrip(ALL)))
        for known in paths
    )


def missing(held: Sequence[PolicyRule], wanted: Iterable[PolicyRule]) -> list[PolicyRule]:
    """What of `wanted` nothing in `held` covers, in the smallest parts.

    Each part is covered by one rule or by none, so the answer is exact.
    """
    parts = (part for rule in wanted for part in _parts(rule))
    return [part for part in parts if not any(_covers(rule, part) for rule in held)]


def _parts(rule: PolicyRule) -> Iterator[PolicyRule]:
    """The same as rules of one verb, one group, one resource and one name."""
    for verb in rule.verbs:
        for group in rule.api_groups:
            for resource in rule.resources:
                for name in rule.resource_names or [""]:
                    yield PolicyRule(
                        api_groups=[group],
                        resources=[resource],
                        resource_names=[name] if name else [],
                        verbs=[verb],
                    )
        for path in rule.non_resource_urls:
            yield PolicyRule(non_resource_urls=[path], verbs=[verb])


def _covers(rule: PolicyRule, part: PolicyRule) -> bool:
    [verb] = part.verbs
    if part.non_resource_urls:
        return allows_path(rule, verb, part.non_resource_urls[0])
    # Whoever may do it to one name only must not give it away for all.
    name = part.resource_names[0] if part.resource_names else ""
    return allows(rule, verb, part.api_groups[0], part.resources[0], name)


def describe(parts: Iterable[PolicyRule]) -> list[str]:
    """Parts as people read them, sorted; the verbs of one resource together."""
    verbs: dict[tuple[str, str], list[str]] = {}
    texts = []
    for part in parts:
        if part.resource_names or part.non_resource_urls:
            texts.append(_text(part))
        else:
            verbs.setdefault((part.api_groups[0], part.resources[0]), []).extend(part.verbs)
    for (group, resource), all_verbs in verbs.items():
        whole = PolicyRule(api_groups=[group], resources=[resource], verbs=all_verbs)
        texts.append(_text(whole))
    return sorted(texts)


def _text(rule: PolicyRule) -> str:
    fields = {
        "APIGroups": rule.api_groups,
        "Resources": rule.resources,
        "NonResourceURLs": rule.non_resource_urls,
        "ResourceNames": rule.resource_names,
        "Verbs": rule.verbs,
    }
    shown = (f"{field}:[{quoted_all(v)}]" for field, v in fields.items() if v)
    return f"{{{', '.join(shown)}}}"


def quoted(text: str) -> str:
    """As Go's %q writes it."""
    return json.dumps(text, ensure_ascii=False)


def quoted_all(texts: Iterable[str]) -> str:
    """As it writes the items of a list."""
    return " ".join(map(quoted, texts))


def aggregated(role: Role, roles: Iterable[Role]) -> list[PolicyRule]:
    """The rules of all that an aggregated ClusterRole selects, each once, in the order of their
    roles' names."""
    selectors = role.aggregation_rule.cluster_role_selectors if role.aggregation_rule else []
    chosen = [selector_of(selector) for selector in selectors]
    rules: list[PolicyRule] = []
    for other in sorted(roles, key=lambda other: other.metadata.name):
        if other.metadata.name != role.metadata.name:
            labels = other.metadata.labels
            if any(selector.matches(labels) for selector in chosen):
                rules += [rule for rule in other.rules if rule not in rules]
    return rules
