"""kubectl 1.37 and RBAC: roles made by command, what is then allowed, and questions about it."""

import json
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.parametrize("served", ["tls"], indirect=True)

ACCOUNT = "system:serviceaccount:default:robot"


async def as_account(served: Any, name: str) -> tuple[str, ...]:
    """Options with which kubectl is that service account, by a token and by nothing else."""
    token = (await served.kubectl("create", "token", name)).strip()
    path = served.home / f"{name}.kubeconfig"
    config = yaml.safe_load((served.home / "kubeconfig").read_text())
    config["users"] = [{"name": name, "user": {"token": token}}]
    config["contexts"][0]["context"]["user"] = name
    path.write_text(yaml.safe_dump(config))
    return "--kubeconfig", str(path)


async def test_an_account_may_nothing_until_a_role_is_bound_to_it(served: Any) -> None:
    kubectl = served.kubectl
    await kubectl("create", "serviceaccount", "robot")
    me = await as_account(served, "robot")
    denied = await kubectl("get", "pods", *me, code=1)
    assert denied == (
        f'Error from server (Forbidden): pods is forbidden: User "{ACCOUNT}" cannot list resource '
        '"pods" in API group "" in the namespace "default"\n'
    )
    await kubectl("create", "role", "reader", "--verb=get,list,watch", "--resource=pods,pods/log")
    await kubectl("create", "rolebinding", "r", "--role=reader", "--serviceaccount=default:robot")
    assert await kubectl("get", "pods", *me) == ""
    for denied_command in (
        ("get", "pods", "--all-namespaces"),
        ("get", "secrets"),
        ("run", "p", "--image=a"),
        ("delete", "pod", "p"),
    ):
        assert "is forbidden" in await kubectl(*denied_command, *me, code=1)
    await kubectl("delete", "rolebinding", "r")
    assert "is forbidden" in await kubectl("get", "pods", *me, code=1)


async def test_a_cluster_role_holds_everywhere_or_where_it_is_bound(served: Any) -> None:
    kubectl = served.kubectl
    await kubectl("create", "namespace", "shop")
    await kubectl("create", "clusterrole", "maps", "--verb=*", "--resource=configmaps")
    await kubectl(
        "create", "rolebinding", "m", "--clusterrole=maps", "--user=eve", "--namespace=shop"
    )
    await kubectl("create", "configmap", "c", "--as=eve", "--namespace=shop")
    assert "is forbidden" in await kubectl("create", "configmap", "c", "--as=eve", code=1)
    await kubectl("create", "clusterrolebinding", "m", "--clusterrole=maps", "--group=ops")
    await kubectl("create", "configmap", "c", "--as=eve", "--as-group=ops")
    await kubectl("delete", "configmap", "c", "--as=bob", "--as-group=ops")


async def test_can_i_answers_for_oneself_and_for_others(served: Any) -> None:
    kubectl = served.kubectl
    await kubectl("create", "serviceaccount", "robot")
    me = await as_account(served, "robot")
    assert await kubectl("auth", "can-i", "*", "*") == "yes\n"
    assert await kubectl("auth", "can-i", "create", "pods", *me, code=1) == ""
    await kubectl(
        "create", "rolebinding", "e", "--clusterrole=edit", "--serviceaccount=default:robot"
    )
    assert await kubectl("auth", "can-i", "create", "pods", *me) == "yes\n"
    assert await kubectl("auth", "can-i", "get", "pods", "--subresource=log", *me) == "yes\n"
    assert await kubectl("auth", "can-i", "get", "/version", *me) == "yes\n"
    for question in (
        ("create", "pods", "--namespace=kube-system"),
        ("create", "roles"),
        ("list", "nodes"),
        ("get", "/metrics"),
    ):
        await kubectl("auth", "can-i", *question, *me, code=1)
        await kubectl("auth", "can-i", *question, f"--as={ACCOUNT}", code=1)
    assert await kubectl("auth", "can-i", "create", "pods", f"--as={ACCOUNT}") == "yes\n"
    assert (
        await kubectl("auth", "can-i", "list", "nodes", "--as=x", "--as-group=system:masters")
        == "yes\n"
    )
    listed = [line.split() for line in (await kubectl("auth", "can-i", "--list", *me)).splitlines()]
    assert ["secrets", "[]", "[]", "[get", "list", "watch", "create", "delete",
            "deletecollection", "patch", "update]"] in listed  # fmt: skip
    assert ["[/api/*]", "[]", "[get]"] in listed


async def test_whoami_tells_whom_one_acts_as(served: Any) -> None:
    text = await served.kubectl("auth", "whoami", f"--as={ACCOUNT}", "-o", "json")
    assert json.loads(text)["status"]["userInfo"] == {
        "username": ACCOUNT,
        "groups": [
            "system:serviceaccounts",
            "system:serviceaccounts:default",
            "system:authenticated",
        ],
    }
    assert await served.kubectl("auth", "whoami", "--as=eve", "--as-group=dev", "-o", "name")


async def test_who_administers_a_namespace_gives_away_no_more_than_that(served: Any) -> None:
    kubectl = served.kubectl
    await kubectl("create", "rolebinding", "a", "--clusterrole=admin", "--user=ann")
    ann = ("--as=ann",)
    await kubectl("create", "role", "own", "--verb=get", "--resource=secrets", *ann)
    await kubectl("create", "rolebinding", "own", "--role=own", "--user=eve", *ann)
    denied = await kubectl(
        "create", "rolebinding", "all", "--clusterrole=cluster-admin", "--user=eve", *ann, code=1
    )
    assert 'rolebindings.rbac.authorization.k8s.io "all" is forbidden: user "ann"' in denied
    assert "is attempting to grant RBAC permissions not currently held:" in denied
    assert '{APIGroups:["*"], Resources:["*"], Verbs:["*"]}' in denied
    denied = await kubectl("create", "role", "n", "--verb=list", "--resource=nodes", *ann, code=1)
    assert '{APIGroups:[""], Resources:["nodes"], Verbs:["list"]}' in denied


CHART = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: operator, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: operator
  labels: {app.kubernetes.io/managed-by: Helm}
rules:
- apiGroups: [""]
  resources: [pods, services]
  verbs: [get, list, watch]
- apiGroups: [apps]
  resources: [deployments, "*/scale"]
  verbs: ["*"]
- nonResourceURLs: [/metrics, /healthz/*]
  verbs: [get]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: operator}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: operator}
subjects:
- {kind: ServiceAccount, name: operator, namespace: default}
"""


async def test_auth_reconcile_adds_what_is_missing(served: Any) -> None:
    path = served.home / "chart.yaml"
    path.write_text(CHART)
    reconcile = ("auth", "reconcile", "-f", str(path))
    reconciled = [
        f"{kind}.rbac.authorization.k8s.io/operator reconciled"
        for kind in ("clusterrole", "clusterrolebinding")
    ]
    assert (await served.kubectl(*reconcile)).splitlines() == reconciled
    path.write_text(CHART.replace("[pods, services]", "[nodes]"))
    assert (await served.kubectl(*reconcile)).splitlines() == reconciled
    role = json.loads(await served.kubectl("get", "clusterrole", "operator", "-o", "json"))
    found = [resource for rule in role["rules"] for resource in rule.get("resources", ())]
    assert {"pods", "services", "nodes"} <= set(found)


async def test_what_a_chart_brings_acts_and_is_described(served: Any) -> None:
    kubectl = served.kubectl
    path = served.home / "chart.yaml"
    path.write_text(CHART)
    for _ in ("install", "upgrade"):
        await kubectl("apply", "--server-side", "--field-manager=helm", "-f", str(path))
    me = await as_account(served, "operator")
    assert await kubectl("get", "pods", "--all-namespaces", *me) == ""
    await kubectl("create", "deployment", "web", "--image=a", *me)
    await kubectl("scale", "deployment", "web", "--replicas=2", *me)
    assert "is forbidden" in await kubectl(
        "create", "service", "clusterip", "s", "--tcp=1", *me, code=1
    )
    described = await kubectl("describe", "clusterrole", "operator")
    assert ["deployments.apps", "[]", "[]", "[*]"] in [
        line.split() for line in described.splitlines()
    ]
    await kubectl("delete", "-f", str(path))
    assert "Unauthorized" in await kubectl("get", "pods", *me, code=1)


async def test_roles_say_nothing_of_having_no_effect(served: Any) -> None:
    process = await served.start_kubectl("create", "role", "r", "--verb=get", "--resource=pods")
    _, err = await process.communicate()
    assert err == b""
