"""ClusterRole aggregation: a ClusterRole with an aggregationRule has the rules of those it selects.

The rules are written into the role, where people and authorizers look for them. Source: kubernetes
pkg/controller/clusterroleaggregation.
"""

import msgspec

from shepherd.api.objects.rbac import Role
from shepherd.api.rbac import aggregated
from shepherd.client.workqueue import WorkQueue
from shepherd.client.writer import Writer
from shepherd.controllers.informers import Informers


class ClusterRoleAggregation:
    """Any change of a ClusterRole may concern any aggregated one: there are few of them."""

    name = "clusterrole-aggregation-controller"

    def __init__(self, informers: Informers, roles: Writer[Role]) -> None:
        self._informers = informers
        self._roles = roles

    def connect(self, queue: WorkQueue) -> None:
        def role_changed(old: Role | None, new: Role | None) -> None:
            for role in self._informers.cluster_roles.all():
                if role.aggregation_rule:
                    queue.add(role.metadata.name)

        self._informers.cluster_roles.on_change(role_changed)

    async def reconcile(self, key: str) -> float | None:
        role = self._informers.cluster_roles.get(key)
        if role is None or role.aggregation_rule is None or role.metadata.deletion_timestamp:
            return None
        rules = aggregated(role, self._informers.cluster_roles.all())
        if rules != role.rules:
            await self._roles.patch(role.metadata, {"rules": msgspec.to_builtins(rules)})
        return None
