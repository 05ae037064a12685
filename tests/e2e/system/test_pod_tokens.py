"""A program in a pod reaches the API by the `kubernetes` Service, as its service account."""

import json
from collections.abc import Iterator

import pytest
import yaml

from shepherd.testing.program import Program, eventually

# The node's Python, so that the image needs none; what it does is what client libraries do.
CLIENT = """
import json, os, ssl, time, urllib.error, urllib.request
folder = "/var/run/secrets/kubernetes.io/serviceaccount/"
host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
tls = ssl.create_default_context(cafile=folder + "ca.crt")
namespace = open(folder + "namespace").read()

def ask(path, body=None):
    headers = {
        "Authorization": "Bearer " + open(folder + "token").read(),
        "Content-Type": "application/json",
    }
    data = body and json.dumps(body).encode()
    request = urllib.request.Request(f"https://{host}:{port}{path}", data, headers)
    return json.load(urllib.request.urlopen(request, context=tls, timeout=5))
"""
WHO_AM_I = (
    CLIENT
    + """
review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
answer = ask("/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
print(json.dumps([namespace, answer["status"]["userInfo"]]))
"""
)
LIST_PODS = (
    CLIENT
    + """
while True:
    try:
        pods = ask(f"/api/v1/namespaces/{namespace}/pods")["items"]
        print([pod["metadata"]["name"] for pod in pods], flush=True)
        break
    except urllib.error.HTTPError as error:
        print(json.load(error)["message"], flush=True)
        time.sleep(0.1)
"""
)


@pytest.fixture
def shop(cluster: Program) -> Iterator[Program]:
    cluster.kubectl("create", "namespace", "shop")
    cluster.kubectl("create", "serviceaccount", "robot", "-n", "shop")
    yield cluster
    cluster.kubectl("delete", "namespace", "shop")


def run(cluster: Program, name: str, script: str) -> None:
    """Run a script in a pod, as the account robot."""
    file = cluster.data_dir / f"{name}.yaml"
    file.write_text(in_cluster_client(name, "robot", script))
    cluster.kubectl("apply", "-f", str(file))


def log_at_end(cluster: Program, name: str) -> str:
    """What it has printed, once it has ended well."""

    def phase() -> str:
        return str(cluster.get("pod", name, "-n", "shop")["status"]["phase"])

    eventually(lambda: phase() in ("Succeeded", "Failed"), what="the client has ended")
    log = cluster.kubectl("logs", name, "-n", "shop")
    assert phase() == "Succeeded", log
    return log


def in_cluster_client(name: str, account: str, script: str) -> str:
    lent = ("usr", "lib", "lib64")
    mounts = [{"name": one, "mountPath": f"/{one}", "readOnly": True} for one in lent]
    container = {
        "name": "main",
        "image": "shepherd.local/demo:1",
        "command": ["/usr/bin/python3", "-c", script],
        "volumeMounts": mounts,
    }
    spec = {
        "serviceAccountName": account,
        "restartPolicy": "Never",
        "containers": [container],
        "volumes": [{"name": one, "hostPath": {"path": f"/{one}"}} for one in lent],
    }
    metadata = {"name": name, "namespace": "shop"}
    return yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def test_an_in_cluster_client_is_known_as_its_account(shop: Program) -> None:
    run(shop, "client", WHO_AM_I)
    namespace, user = json.loads(log_at_end(shop, "client"))
    assert namespace == "shop"
    assert user["username"] == "system:serviceaccount:shop:robot"
    assert user["extra"]["authentication.kubernetes.io/pod-name"] == ["client"]


def test_an_in_cluster_client_may_what_its_account_is_given(shop: Program) -> None:
    run(shop, "lister", LIST_PODS)
    denied = (
        'pods is forbidden: User "system:serviceaccount:shop:robot" cannot list resource "pods" '
        'in API group "" in the namespace "shop"'
    )
    logs = ("logs", "lister", "-n", "shop")

    def is_denied() -> bool:
        started = shop.get("pod", "lister", "-n", "shop")["status"]["phase"] != "Pending"
        return started and denied in shop.kubectl(*logs)

    eventually(is_denied, what="the client was refused")
    binding = ("--clusterrole=view", "--serviceaccount=shop:robot")
    shop.kubectl("create", "rolebinding", "viewer", *binding, "-n", "shop")
    *refusals, listed = log_at_end(shop, "lister").splitlines()
    assert set(refusals) == {denied}
    assert listed == "['lister']"
