"""Commands that write: apply in its forms, create, replace, delete, patch, label, scale, set."""

import json
import re
from base64 import b64decode
from pathlib import Path

import pytest
from clients.scripts.kubectl.program import Kubectl, deployment, pod


def config_map(name: str = "one", **data: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def test_apply(kubectl: Kubectl) -> None:
    assert kubectl.apply(config_map(a="1", b="1")) == "configmap/one created\n"
    assert kubectl.apply(config_map(a="1", b="1")) == "configmap/one unchanged\n"
    assert kubectl.apply(config_map(a="2")) == "configmap/one configured\n"
    assert kubectl.get("cm", "one")["data"] == {"a": "2"}
    dry = kubectl.apply(config_map(a="3"), "--dry-run=server")
    assert dry == "configmap/one configured (server dry run)\n"
    assert kubectl.get("cm", "one")["data"] == {"a": "2"}


def test_apply_refuses_unknown_fields(kubectl: Kubectl) -> None:
    bad = config_map() | {"colour": "red"}
    assert "colour" in kubectl.apply(bad, code=1)
    assert "created" in kubectl.apply(bad, "--validate=false")


@pytest.mark.since(22)
def test_apply_on_the_server(kubectl: Kubectl) -> None:
    made = kubectl.apply(config_map(a="1", b="1"), "--server-side")
    assert made == "configmap/one serverside-applied\n"
    fields = kubectl("get", "cm", "one", "-o", "json", "--show-managed-fields")
    (manager,) = json.loads(fields)["metadata"]["managedFields"]
    assert (manager["manager"], manager["operation"]) == ("kubectl", "Apply")
    kubectl.apply(config_map(a="1"), "--server-side")
    assert kubectl.get("cm", "one")["data"] == {"a": "1"}
    kubectl("patch", "cm", "one", "-p", '{"data":{"a":"2"}}')
    conflict = kubectl.apply(config_map(a="1"), "--server-side", code=1)
    assert 'conflict with "kubectl-patch"' in conflict
    assert ".data.a" in conflict
    kubectl.apply(config_map(a="1"), "--server-side", "--force-conflicts")
    assert kubectl.get("cm", "one")["data"] == {"a": "1"}


@pytest.mark.since(29)
def test_apply_moves_from_the_client_to_the_server(kubectl: Kubectl) -> None:
    kubectl.apply(config_map(a="1", b="1"))
    kubectl.apply(config_map(a="1"), "--server-side")
    assert kubectl.get("cm", "one")["data"] == {"a": "1"}


def test_apply_prunes(kubectl: Kubectl) -> None:
    def labelled(name: str) -> dict[str, object]:
        return config_map(name) | {"metadata": {"name": name, "labels": {"set": "s"}}}

    kubectl.apply(labelled("one"))
    kubectl.apply(labelled("two"))
    pruned = kubectl.apply(
        labelled("two"), "--prune", "-l", "set=s", "--prune-allowlist=core/v1/ConfigMap"
        if kubectl.minor > 25 else "--prune-whitelist=core/v1/ConfigMap",
    )  # fmt: skip
    assert "configmap/one pruned" in pruned


def test_diff(kubectl: Kubectl) -> None:
    kubectl.apply(config_map(a="1"))
    assert kubectl("diff", "-f", "-", stdin=json.dumps(config_map(a="1"))) == ""
    process = kubectl.start("diff", "-f", "-")
    out, _ = process.communicate(json.dumps(config_map(a="2")))
    assert process.returncode == 1
    assert '-  a: "1"\n+  a: "2"\n' in out
    on_the_server = kubectl.start("diff", "--server-side", "--force-conflicts", "-f", "-")
    out, _ = on_the_server.communicate(json.dumps(config_map(a="3")))
    assert on_the_server.returncode == 1
    assert '-  a: "1"\n+  a: "3"\n' in out


def test_create_from_a_file_and_replace(kubectl: Kubectl) -> None:
    text = json.dumps(config_map(a="1"))
    assert kubectl("create", "-f", "-", stdin=text) == "configmap/one created\n"
    assert "AlreadyExists" in kubectl("create", "-f", "-", stdin=text, code=1)
    uid = kubectl.get("cm", "one")["metadata"]["uid"]
    changed = json.dumps(config_map(a="2"))
    assert kubectl("replace", "-f", "-", stdin=changed) == "configmap/one replaced\n"
    assert kubectl.get("cm", "one")["metadata"]["uid"] == uid
    assert "replaced" in kubectl("replace", "--force", "-f", "-", stdin=changed)
    assert kubectl.get("cm", "one")["metadata"]["uid"] != uid


def test_apply_remembers_what_was_applied(kubectl: Kubectl) -> None:
    both = {"apiVersion": "v1", "kind": "List", "items": [config_map("a"), config_map("b")]}
    assert kubectl.apply(both) == "configmap/a created\nconfigmap/b created\n"
    text = json.dumps(config_map("a", x="y"))
    edited = kubectl("apply", "set-last-applied", "-f", "-", stdin=text)
    assert edited == "configmap/a configured\n"
    assert 'x: "y"' in kubectl("apply", "view-last-applied", "cm", "a")


CREATE = {
    "configmap/x": ("configmap", "x", "--from-literal=a=b"),
    "secret/x": ("secret", "generic", "x", "--from-literal=a=b"),
    "secret/registry": (
        "secret", "docker-registry", "registry", "--docker-username=u", "--docker-password=p",
    ),
    "serviceaccount/x": ("serviceaccount", "x"),
    "deployment.apps/x": ("deployment", "x", "--image=busybox:1.36", "--replicas=0"),
    "job.batch/x": ("job", "x", "--image=busybox:1.36", "--", "true"),
    "cronjob.batch/x": ("cronjob", "x", "--image=busybox:1.36", "--schedule=0 0 * * *"),
    "role.rbac.authorization.k8s.io/x": ("role", "x", "--verb=get", "--resource=pods"),
    "rolebinding.rbac.authorization.k8s.io/x": ("rolebinding", "x", "--role=x", "--user=u"),
    "resourcequota/x": ("quota", "x", "--hard=pods=9"),
    "poddisruptionbudget.policy/x": (
        "poddisruptionbudget", "x", "--selector=a=b", "--min-available=1",
    ),
    "service/x": ("service", "clusterip", "x", "--tcp=80:80"),
    "service/node": ("service", "nodeport", "node", "--tcp=80:80"),
    "service/balanced": ("service", "loadbalancer", "balanced", "--tcp=80:80"),
    "service/outside": ("service", "externalname", "outside", "--external-name=a.example"),
    "ingress.networking.k8s.io/x": ("ingress", "x", "--rule=a.example/=x:80"),
}  # fmt: skip


@pytest.mark.parametrize("made", CREATE)
def test_create(kubectl: Kubectl, made: str) -> None:
    assert kubectl("create", *CREATE[made]) == f"{made} created\n"
    kind, _, name = made.partition("/")
    assert kubectl("get", kind, name, "-o", "name") == f"{made}\n"
    assert f'"{name}" deleted' in kubectl("delete", kind, name)


def test_create_cluster_wide(kubectl: Kubectl) -> None:
    name = kubectl.namespace
    made = kubectl("create", "priorityclass", name, "--value=7")
    assert made == f"priorityclass.scheduling.k8s.io/{name} created\n"
    kubectl("delete", "priorityclass", name)
    role = kubectl("create", "clusterrole", name, "--verb=get", "--resource=pods")
    assert role == f"clusterrole.rbac.authorization.k8s.io/{name} created\n"
    bound = kubectl("create", "clusterrolebinding", name, f"--clusterrole={name}", "--user=u")
    assert bound == f"clusterrolebinding.rbac.authorization.k8s.io/{name} created\n"
    kubectl("delete", f"clusterrolebinding/{name}", f"clusterrole/{name}")
    assert kubectl("create", "namespace", f"{name}-2") == f"namespace/{name}-2 created\n"
    assert kubectl("delete", "namespace", f"{name}-2") == f'namespace "{name}-2" deleted\n'


def test_create_a_tls_secret(kubectl: Kubectl, tmp_path: Path) -> None:
    (user,) = json.loads(kubectl("config", "view", "--raw", "-o", "json"))["users"]
    for kind in ("certificate", "key"):
        (tmp_path / kind).write_bytes(b64decode(user["user"][f"client-{kind}-data"]))
    files = (f"--cert={tmp_path / 'certificate'}", f"--key={tmp_path / 'key'}")
    assert kubectl("create", "secret", "tls", "x", *files) == "secret/x created\n"
    assert kubectl.get("secret", "x")["type"] == "kubernetes.io/tls"


def test_create_a_job_from_a_cron_job(kubectl: Kubectl) -> None:
    kubectl("create", "cronjob", "c", "--image=busybox:1.36", "--schedule=0 0 * * *", "--", "true")
    assert kubectl("create", "job", "j", "--from=cronjob/c") == "job.batch/j created\n"
    assert kubectl.get("job", "j")["metadata"]["ownerReferences"][0]["kind"] == "CronJob"


@pytest.mark.since(24)
def test_create_a_token(kubectl: Kubectl) -> None:
    kubectl("create", "serviceaccount", "x")
    assert kubectl("create", "token", "x").count(".") == 2


def test_delete(kubectl: Kubectl) -> None:
    kubectl.apply(config_map())
    dry = kubectl("delete", "cm", "one", "--dry-run=server")
    assert 'configmap "one" deleted' in dry
    assert kubectl("get", "cm", "one", "-o", "name") == "configmap/one\n"
    kubectl.apply(deployment(replicas=1))
    kubectl("wait", "--for=condition=Available", "deploy/web", "--timeout=30s")
    kubectl("delete", "deploy", "web", "--cascade=orphan")
    assert kubectl("get", "rs", "-o", "name").startswith("replicaset.apps/web-")
    kubectl("delete", "rs", "-l", "app=web", "--cascade=foreground")
    kubectl("wait", "--for=delete", "pod", "-l", "app=web", "--timeout=30s")
    assert kubectl("get", "pods", "-o", "name") == ""
    assert "deleted" in kubectl("delete", "cm", "--all")
    assert kubectl("delete", "cm", "none", "--ignore-not-found") == ""


def test_delete_by_force(kubectl: Kubectl) -> None:
    kubectl.apply(pod(terminationGracePeriodSeconds=300))
    kubectl("wait", "--for=condition=Ready", "pod/box", "--timeout=30s")
    assert "force deleted" in kubectl("delete", "pod", "box", "--force", "--grace-period=0")
    assert "NotFound" in kubectl("get", "pod", "box", code=1)


def test_scale(kubectl: Kubectl) -> None:
    kubectl.apply(deployment(replicas=0))
    assert kubectl("scale", "deploy/web", "--replicas=2") == "deployment.apps/web scaled\n"
    kubectl("wait", "--for=condition=Available", "deploy/web", "--timeout=30s")
    scaled = kubectl("scale", "deploy/web", "--current-replicas=2", "--replicas=1")
    assert scaled == "deployment.apps/web scaled\n"
    refused = kubectl("scale", "deploy/web", "--current-replicas=2", "--replicas=1", code=1)
    assert "Expected replicas to be 2, was 1" in refused


def test_label_annotate_and_patch(kubectl: Kubectl) -> None:
    kubectl.apply(config_map(a="1"))
    assert kubectl("label", "cm", "one", "x=y") == "configmap/one labeled\n"
    assert "already has a value" in kubectl("label", "cm", "one", "x=z", code=1)
    unlabelled = kubectl("label", "cm", "one", "x-")
    assert unlabelled in ("configmap/one unlabeled\n", "configmap/one labeled\n")
    assert kubectl("annotate", "cm", "one", "n=1") == "configmap/one annotated\n"
    kubectl("patch", "cm", "one", "-p", '{"data":{"b":"2"}}')
    kubectl("patch", "cm", "one", "--type=merge", "-p", '{"data":{"a":null}}')
    patch = '[{"op":"add","path":"/data/c","value":"3"}]'
    assert kubectl("patch", "cm", "one", "--type=json", "-p", patch) == "configmap/one patched\n"
    assert kubectl.get("cm", "one")["data"] == {"b": "2", "c": "3"}
    assert "no change" in kubectl("patch", "cm", "one", "-p", "{}")


@pytest.mark.since(24)
def test_patch_a_subresource(kubectl: Kubectl) -> None:
    kubectl.apply(deployment(replicas=0))
    scaled = kubectl(
        "patch", "deploy", "web", "--subresource=scale", "--type=merge",
        "-p", '{"spec":{"replicas":1}}',
    )  # fmt: skip
    assert scaled == "scale.autoscaling/web patched\n"
    assert kubectl.get("deploy", "web")["spec"]["replicas"] == 1


def test_edit(kubectl: Kubectl, monkeypatch: pytest.MonkeyPatch) -> None:
    kubectl.apply(config_map(a="old"))
    monkeypatch.setenv("KUBE_EDITOR", "sed -i s/old/new/")
    assert kubectl("edit", "cm", "one") == "configmap/one edited\n"
    assert kubectl.get("cm", "one")["data"] == {"a": "new"}


def test_set(kubectl: Kubectl) -> None:
    kubectl.apply(deployment(replicas=0))
    kubectl("create", "serviceaccount", "robot")
    updated = kubectl("set", "image", "deploy/web", "main=nginx:1.15.4")
    assert updated == "deployment.apps/web image updated\n"
    assert kubectl("set", "env", "deploy/web", "A=B") == "deployment.apps/web env updated\n"
    limits = kubectl("set", "resources", "deploy/web", "--limits=cpu=1")
    assert limits == "deployment.apps/web resource requirements updated\n"
    robot = kubectl("set", "serviceaccount", "deploy/web", "robot")
    assert robot == "deployment.apps/web serviceaccount updated\n"
    kubectl("expose", "deploy", "web", "--port=80")
    chosen = kubectl("set", "selector", "service", "web", "app=other")
    assert chosen == "service/web selector updated\n"
    assert kubectl.get("svc", "web")["spec"]["selector"] == {"app": "other"}
    spec = kubectl.get("deploy", "web")["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert spec["serviceAccountName"] == "robot"
    assert container["image"] == "nginx:1.15.4"
    assert container["env"] == [{"name": "A", "value": "B"}]
    assert container["resources"] == {"limits": {"cpu": "1"}}
    assert not any(key.startswith("$") for key in spec)


def test_expose_and_autoscale(kubectl: Kubectl) -> None:
    kubectl.apply(deployment(replicas=0))
    assert kubectl("expose", "deploy", "web", "--port=80") == "service/web exposed\n"
    assert re.fullmatch(r"10\.43\.\d+\.\d+", kubectl.get("svc", "web")["spec"]["clusterIP"])
    scaled = kubectl("autoscale", "deploy", "web", "--max=3")
    assert scaled == "horizontalpodautoscaler.autoscaling/web autoscaled\n"
