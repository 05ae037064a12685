"""An operator as a kopf user writes it: a Greeter has a ConfigMap and a Deployment as children."""

from typing import Any

import kopf
import kubernetes


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.persistence.finalizer = "shepherd.example/greeters"
    kubernetes.config.load_kube_config()


def _children(name: str, spec: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    page = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {"index.html": spec["greeting"]},
    }
    labels = {"greeter": name}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": spec["copies"],
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "nginx:1.14.2"}]},
            },
        },
    }
    return page, deployment


@kopf.on.create("greeters.shepherd.example")
def create(name: str, namespace: str, spec: Any, body: Any, patch: Any, **_: Any) -> None:
    page, deployment = _children(name, spec)
    kopf.adopt([page, deployment])
    kubernetes.client.CoreV1Api().create_namespaced_config_map(namespace, page)
    kubernetes.client.AppsV1Api().create_namespaced_deployment(namespace, deployment)
    patch.status["page"] = name
    kopf.info(body, reason="Greeted", message=f"says {spec['greeting']}")


@kopf.on.update("greeters.shepherd.example", field="spec")
def update(name: str, namespace: str, spec: Any, **_: Any) -> None:
    page, deployment = _children(name, spec)
    kubernetes.client.CoreV1Api().patch_namespaced_config_map(name, namespace, page)
    kubernetes.client.AppsV1Api().patch_namespaced_deployment(name, namespace, deployment)


@kopf.on.delete("greeters.shepherd.example")
def delete(namespace: str, name: str, **_: Any) -> None:
    farewell = {"metadata": {"name": f"{name}-farewell"}}
    kubernetes.client.CoreV1Api().create_namespaced_config_map(namespace, farewell)
