"""A program in a pod reaches the API by the `kubernetes` Service, as its service account."""

import json

import yaml

from shepherd.testing.program import Program, eventually

# The node's Python, so that the image needs none; what it does is what client libraries do.
ASK = """
import json, os, ssl, urllib.request
folder = "/var/run/secrets/kubernetes.io/serviceaccount/"
host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
request = urllib.request.Request(
    f"https://{host}:{port}/apis/authentication.k8s.io/v1/selfsubjectreviews",
    json.dumps(review).encode(),
    {
        "Authorization": "Bearer " + open(folder + "token").read(),
        "Content-Type": "application/json",
    },
)
tls = ssl.create_default_context(cafile=folder + "ca.crt")
user = json.load(urllib.request.urlopen(request, context=tls, timeout=5))["status"]["userInfo"]
print(json.dumps([open(folder + "namespace").read(), user]))
"""


def in_cluster_client(name: str, account: str) -> str:
    lent = ("usr", "lib", "lib64")
    mounts = [{"name": one, "mountPath": f"/{one}", "readOnly": True} for one in lent]
    container = {
        "name": "main",
        "image": "shepherd.local/demo:1",
        "command": ["/usr/bin/python3", "-c", ASK],
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


def test_an_in_cluster_client_is_known_as_its_account(cluster: Program) -> None:
    file = cluster.data_dir / "client.yaml"
    file.write_text(in_cluster_client("client", "robot"))
    cluster.kubectl("create", "namespace", "shop")
    cluster.kubectl("create", "serviceaccount", "robot", "-n", "shop")
    cluster.kubectl("apply", "-f", str(file))

    def phase() -> str:
        return str(cluster.get("pod", "client", "-n", "shop")["status"]["phase"])

    eventually(lambda: phase() in ("Succeeded", "Failed"), what="the client has ended")
    log = cluster.kubectl("logs", "client", "-n", "shop")
    assert phase() == "Succeeded", log
    namespace, user = json.loads(log)
    assert namespace == "shop"
    assert user["username"] == "system:serviceaccount:shop:robot"
    assert user["extra"]["authentication.kubernetes.io/pod-name"] == ["client"]
    cluster.kubectl("delete", "namespace", "shop")
