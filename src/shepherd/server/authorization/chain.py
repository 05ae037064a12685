"""The authorizers of a server, one behind the other.

Source: apiserver authorization/union, authorization/authorizerfactory (privileged groups).
"""

from shepherd.lib.http import User
from shepherd.server.auth import ADMIN_GROUP
from shepherd.server.authorization.actions import Action, Authorizer, Known, Verdict
from shepherd.server.authorization.node import Bound, NodeAuthorizer
from shepherd.server.authorization.rbac import Policy, RbacAuthorizer
from shepherd.server.authorization.tracker import Tracker
from shepherd.store.base import Store


class Chain:
    """The first that allows it counts; nobody forbids what another allows.

    Administrators may do everything, whatever is stored: they can always put it right.
    """

    def __init__(self, **authorizers: Authorizer) -> None:
        self._authorizers = authorizers

    async def decide(self, action: Action) -> Verdict:
        if ADMIN_GROUP in action.user.groups:
            return Verdict(True)
        reasons = []
        for name, authorizer in self._authorizers.items():
            verdict = await authorizer.decide(action)
            if verdict.allowed:
                return verdict
            if verdict.reason:
                reasons.append(f"{name}: {verdict.reason}")
        return Verdict(False, "\n".join(reasons))

    async def rules(self, user: User, namespace: str) -> Known:
        found = [await one.rules(user, namespace) for one in self._authorizers.values()]
        problems = [known.problem for known in found if known.problem]
        return Known([rule for known in found for rule in known.rules], ", ".join(problems))


def authorizer(store: Store) -> Authorizer:
    """Node, then RBAC, as every server has it."""
    policy, bound = Policy(), Bound()
    tracker = Tracker(store, policy, bound)
    return Chain(node=NodeAuthorizer(bound, tracker), rbac=RbacAuthorizer(policy, tracker))
