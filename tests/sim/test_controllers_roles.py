"""Aggregated ClusterRoles over the real API, in virtual time."""

from shepherd.api.kinds.rbac import CLUSTER_ROLE
from shepherd.api.resource import Object
from shepherd.testing.control_plane import ControlPlane
from shepherd.testing.virtual import run_virtual

_WIDGETS: Object = {"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get"]}
_TO_VIEW = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}


def _role(name: str, rules: list[Object], labels: dict[str, str], **content: Object) -> Object:
    head = {"kind": "ClusterRole", "apiVersion": CLUSTER_ROLE.api_version}
    return head | {"metadata": {"name": name, "labels": labels}, "rules": rules} | content


def test_a_role_that_is_labelled_adds_to_view_edit_and_admin_until_it_goes() -> None:
    async def story() -> None:
        async with ControlPlane.open() as plane:
            await plane.client.create(CLUSTER_ROLE, _role("widgets", [_WIDGETS], _TO_VIEW))
            for name in ("view", "edit", "admin"):
                await plane.until(CLUSTER_ROLE, name, lambda role: _WIDGETS in role["rules"])
            await plane.client.delete(CLUSTER_ROLE, "widgets", None)
            for name in ("view", "edit", "admin"):
                await plane.until(CLUSTER_ROLE, name, lambda role: _WIDGETS not in role["rules"])

    run_virtual(story())


def test_rules_written_by_hand_into_an_aggregated_role_do_not_stay() -> None:
    async def story() -> None:
        async with ControlPlane.open() as plane:
            selectors = {"clusterRoleSelectors": [{"matchLabels": _TO_VIEW}]}
            mine = _role("mine", [_WIDGETS], {}, aggregationRule=selectors)
            await plane.client.create(CLUSTER_ROLE, mine)
            view = await plane.client.get(CLUSTER_ROLE, "view", None)
            await plane.until(CLUSTER_ROLE, "mine", lambda role: role["rules"] == view["rules"])
            await plane.client.patch(CLUSTER_ROLE, "mine", None, {"rules": []})
            await plane.until(CLUSTER_ROLE, "mine", lambda role: role["rules"] == view["rules"])

    run_virtual(story())


def test_the_default_roles_need_no_controller() -> None:
    async def story() -> None:
        async with ControlPlane.open() as plane:
            before = await plane.client.get(CLUSTER_ROLE, "admin", None)
            await plane.clock.sleep(60)
            after = await plane.client.get(CLUSTER_ROLE, "admin", None)
            assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]

    run_virtual(story())
