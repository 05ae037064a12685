"""The life of a release, in order: each test goes on where the one before it ended."""

import json
from collections import Counter
from pathlib import Path

from clients.scripts.kubectl.program import Kubectl

from shepherd.testing.program import eventually

CHART = str(Path(__file__).parent / "shop")
WAIT = ("--wait", "--timeout=60s")


def image(kubectl: Kubectl) -> str:
    path = "jsonpath={.spec.template.spec.containers[0].image}"
    return kubectl("get", "deploy", "shop-web", "-o", path)


def test_the_chart_is_of_many_kinds(helm: Kubectl) -> None:
    manifest = helm("template", "shop", CHART, "--no-hooks")
    kinds = Counter(line for line in manifest.splitlines() if line.startswith("kind: "))
    assert (kinds.total(), len(kinds)) == (15, 12)


def test_install(helm: Kubectl, kubectl: Kubectl) -> None:
    shown = helm("install", "shop", CHART, *WAIT)
    assert "STATUS: deployed" in shown
    assert kubectl.get("deploy", "shop-web")["status"]["readyReplicas"] == 2
    assert kubectl.get("statefulset", "shop-cache")["status"]["readyReplicas"] == 2
    assert kubectl.get("daemonset", "shop-watch")["status"]["numberReady"] == 1
    assert kubectl("logs", "job/shop-pre-install") == "pre-install\n"
    # The hook was waited for: what it prepares is there before the rest.
    hook = kubectl.get("job", "shop-pre-install")["status"]["completionTime"]
    assert hook <= kubectl.get("deploy", "shop-web")["metadata"]["creationTimestamp"]
    (release,) = json.loads(helm("list", "-o", "json"))
    assert (release["name"], release["status"], release["revision"]) == ("shop", "deployed", "1")
    assert "kind: Deployment" in helm("get", "manifest", "shop")


def test_test(helm: Kubectl) -> None:
    shown = helm("test", "shop", "--timeout=60s")
    assert "Phase:          Succeeded" in shown


def test_upgrade(helm: Kubectl, kubectl: Kubectl) -> None:
    values = ("--set", "tag=1.15.4", "--set", "replicas=1", "--set", "greeting=again")
    shown = helm("upgrade", "shop", CHART, *values, *WAIT)
    assert "STATUS: deployed" in shown
    assert "REVISION: 2" in shown
    assert image(kubectl) == "nginx:1.15.4"
    assert kubectl.get("cm", "shop-settings")["data"] == {"greeting": "again"}
    assert kubectl.get("deploy", "shop-web")["status"]["replicas"] == 1
    pods = kubectl("get", "pods", "-l", "app=shop-cache", "-o", "name").split()
    assert pods == ["pod/shop-cache-0"]
    assert kubectl("logs", "job/shop-post-upgrade") == "post-upgrade\n"


def test_rollback(helm: Kubectl, kubectl: Kubectl) -> None:
    assert "Rollback was a success" in helm("rollback", "shop", "1", *WAIT)
    assert image(kubectl) == "nginx:1.14.2"
    assert kubectl.get("cm", "shop-settings")["data"] == {"greeting": "hello"}
    assert kubectl.get("statefulset", "shop-cache")["status"]["readyReplicas"] == 2


def test_history(helm: Kubectl) -> None:
    revisions = json.loads(helm("history", "shop", "-o", "json"))
    assert [(entry["revision"], entry["status"]) for entry in revisions] == [
        (1, "superseded"), (2, "superseded"), (3, "deployed"),
    ]  # fmt: skip
    assert json.loads(helm("status", "shop", "-o", "json"))["info"]["status"] == "deployed"


def test_uninstall(helm: Kubectl, kubectl: Kubectl) -> None:
    assert helm("uninstall", "shop", *WAIT) == 'release "shop" uninstalled\n'
    assert json.loads(helm("list", "-o", "json")) == []
    # What hooks made stays, by their policy; Helm 3 does not wait for the pods of what it deleted.
    left = "deploy,rs,sts,ds,cronjob,controllerrevision,svc,sa,role,rolebinding,pdb,ingress,secret"
    for app in ("web", "cache", "watch"):
        kubectl("wait", "--for=delete", "pods", "-l", f"app=shop-{app}", "--timeout=30s")
    eventually(lambda: "shop" not in kubectl("get", left, "-o", "name"), what="all is deleted")
