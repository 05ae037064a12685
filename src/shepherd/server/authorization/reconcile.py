"""Writes the default roles and bindings at start, and puts right those that lack something.

All in one commit, past the registry: a new cluster starts ten times faster with that, and who
embeds one in a test starts many. Source: kubernetes component-helpers auth/rbac/reconciliation.
"""

from random import Random

from shepherd.api.kinds.rbac import CLUSTER_ROLE, CLUSTER_ROLE_BINDING
from shepherd.api.meta import object_key
from shepherd.api.objects import decode as view
from shepherd.api.objects.rbac import PolicyRule
from shepherd.api.rbac import missing
from shepherd.api.resource import Object
from shepherd.server import metadata
from shepherd.server.authorization.policy import AUTO_UPDATE, cluster_role_bindings, cluster_roles
from shepherd.server.codec import decode, encode
from shepherd.store.base import Put, Store, Write


async def lay_policy(store: Store, now: float, random: Random) -> None:
    """Make the default policy what it should be; what a user has added stays."""
    writes: list[Write] = []
    kinds = ((CLUSTER_ROLE, cluster_roles()), (CLUSTER_ROLE_BINDING, cluster_role_bindings()))
    for resource, objects in kinds:
        for wanted in objects:
            key = object_key(resource, "", wanted["metadata"]["name"])
            item = await store.get(key)
            if item is None:
                metadata.begin(resource, wanted["metadata"], now, random)
                writes.append(Put(key, encode(wanted), 0))
            elif changed := reconciled(decode(item.value), wanted):
                writes.append(Put(key, encode(changed), item.revision))
    if writes:
        await store.commit(*writes)


def reconciled(there: Object, wanted: Object) -> Object | None:
    """The object with what it lacks; None: it lacks nothing, or it is to be left alone."""
    meta = there["metadata"]
    if (meta.get("annotations") or {}).get(AUTO_UPDATE) == "false":
        return None
    named = {
        field: wanted["metadata"][field] | (meta.get(field) or {})
        for field in ("labels", "annotations")
    }
    changed = there | {"metadata": meta | named}
    if "roleRef" in wanted:
        changed["roleRef"] = wanted["roleRef"]
        subjects = there.get("subjects") or []
        if lacking := [subject for subject in wanted["subjects"] if subject not in subjects]:
            changed["subjects"] = [*subjects, *lacking]
    elif "aggregationRule" in wanted:
        changed["aggregationRule"] = there.get("aggregationRule") or wanted["aggregationRule"]
    else:
        changed["rules"] = _with_rules(there.get("rules") or [], wanted["rules"])
    return None if changed == there else changed


def _with_rules(there: list[Object], wanted: list[Object]) -> list[Object]:
    """The rules that are there, and those of the wanted ones that they do not cover."""
    if there == wanted:
        return there
    held = [view(rule, PolicyRule) for rule in there]
    return [*there, *(rule for rule in wanted if missing(held, [view(rule, PolicyRule)]))]
