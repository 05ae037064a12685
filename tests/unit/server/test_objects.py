"""Create, read, change and delete objects, as any client does."""

import base64
from typing import Any

import pytest

from shepherd.api.kinds import CUSTOM_RESOURCE_DEFINITION, RESOURCES
from shepherd.api.resource import Object, Resource

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
POD_SPEC = {"containers": [{"name": "a", "image": "b"}]}
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": POD_SPEC}
JOB = {"template": {"spec": POD_SPEC | {"restartPolicy": "Never"}}}
MATCHING = {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]}
REQUEST = base64.b64encode(b"not one, and not asked of a signer of ours").decode()
WORKLOAD = {"selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE}
SAMPLES: dict[str, Object] = {
    "Pod": {"spec": POD_SPEC},
    "Service": {"spec": {"ports": [{"port": 80}]}},
    "Deployment": {"spec": WORKLOAD},
    "ReplicaSet": {"spec": WORKLOAD},
    "EndpointSlice": {"addressType": "IPv4", "endpoints": []},
    "Event": {
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
        "reason": "Started",
        "type": "Normal",
    },
    "DaemonSet": {"spec": WORKLOAD},
    "StatefulSet": {"spec": WORKLOAD | {"serviceName": "web"}},
    "ReplicationController": {"spec": {"template": TEMPLATE}},
    "PodTemplate": {"template": TEMPLATE},
    "ControllerRevision": {"data": {"a": 1}, "revision": 1},
    "Job": {"spec": JOB},
    "CronJob": {"spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": JOB}}},
    "PersistentVolume": {
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/data"},
        }
    },
    "PersistentVolumeClaim": {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        }
    },
    "LimitRange": {"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}}]}},
    "APIService": {
        "metadata": {"name": "v1.example.com"},
        "spec": {
            "group": "example.com",
            "version": "v1",
            "groupPriorityMinimum": 100,
            "versionPriority": 10,
        },
    },
    "HorizontalPodAutoscaler": {
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "web"}}
    },
    "CertificateSigningRequest": {
        "spec": {"request": REQUEST, "signerName": "example.com/mine", "usages": ["client auth"]}
    },
    "ClusterTrustBundle": {"spec": {"trustBundle": "a"}},
    "PodCertificateRequest": {
        "spec": {
            "signerName": "example.com/mine",
            "podName": "p",
            "podUID": "u",
            "serviceAccountName": "default",
            "serviceAccountUID": "u",
            "nodeName": "n",
            "nodeUID": "u",
            "stubPKCS10Request": "YQ==",
        }
    },
    "Ingress": {"spec": {"defaultBackend": {"service": {"name": "a", "port": {"number": 80}}}}},
    "IPAddress": {
        "metadata": {"name": "10.43.0.9"},
        "spec": {"parentRef": {"resource": "services", "name": "web"}},
    },
    "ServiceCIDR": {"spec": {"cidrs": ["10.44.0.0/16"]}},
    "RoleBinding": {"roleRef": {"kind": "Role", "name": "r"}},
    "ClusterRoleBinding": {"roleRef": {"kind": "ClusterRole", "name": "r"}},
    "CSIDriver": {"spec": {}},
    "CSINode": {"spec": {"drivers": []}},
    "CSIStorageCapacity": {"storageClassName": "fast"},
    "StorageClass": {"provisioner": "example.com/disk"},
    "VolumeAttachment": {
        "spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
    },
    "VolumeAttributesClass": {"driverName": "a", "parameters": {"a": "b"}},
    "ValidatingAdmissionPolicy": {
        "spec": {"matchConstraints": MATCHING, "validations": [{"expression": "true"}]}
    },
    "MutatingAdmissionPolicy": {
        "spec": {
            "matchConstraints": MATCHING,
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": "[]"}}],
        }
    },
    "ValidatingAdmissionPolicyBinding": {
        "spec": {"policyName": "p", "validationActions": ["Deny"]}
    },
    "MutatingAdmissionPolicyBinding": {"spec": {"policyName": "p"}},
    "RuntimeClass": {"handler": "kata"},
    "FlowSchema": {"spec": {"priorityLevelConfiguration": {"name": "a"}}},
    "PriorityLevelConfiguration": {"spec": {"type": "Exempt"}},
    "DeviceTaintRule": {"spec": {"taint": {"key": "a.com/b", "effect": "NoSchedule"}}},
    "ResourceClaim": {"spec": {}},
    "ResourceClaimTemplate": {"spec": {"spec": {}}},
    "ResourceSlice": {
        "spec": {
            "driver": "a.com",
            "nodeName": "n",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        }
    },
    "StorageVersionMigration": {"spec": {"resource": {"group": "apps", "resource": "deployments"}}},
}

ORDINARY = [
    resource
    for resource in RESOURCES
    if {"create", "get"} <= set(resource.verbs) and resource is not CUSTOM_RESOURCE_DEFINITION
]
"""Kinds whose objects may have any name, and go when they are deleted."""


def sample(resource: Resource, name: str = "sample", **metadata: Any) -> Object:
    found = SAMPLES.get(resource.kind, {})
    return found | {"metadata": {"name": name} | metadata | found.get("metadata", {})}


@pytest.mark.parametrize("resource", ORDINARY, ids=lambda resource: resource.kind)
async def test_every_kind_can_be_created_read_changed_watched_and_deleted(
    api: Any, resource: Resource
) -> None:
    namespace = "default" if resource.namespaced else None
    collection = resource.path(namespace)
    made = sample(resource)
    one = resource.path(namespace, made["metadata"]["name"])
    created = await api.ok("POST", collection, made)
    assert created["kind"] == resource.kind
    assert created["apiVersion"] == resource.api_version
    assert created["metadata"]["uid"]
    assert created["metadata"]["creationTimestamp"]
    assert await api.ok("GET", one) == created
    listed = await api.ok("GET", collection)
    assert listed["kind"] == f"{resource.kind}List"
    assert created in listed["items"]

    events = await api.watch(f"{collection}?watch=1&resourceVersion=0")
    while (await events.next())["object"] != created:
        pass
    patch = {"metadata": {"labels": {"a": "b"}}}
    patched = await api.ok("PATCH", one, patch, content_type="application/merge-patch+json")
    assert patched["metadata"]["labels"]["a"] == "b"
    while (event := await events.next())["type"] == "ADDED":
        pass  # what the server had made itself
    assert event == {"type": "MODIFIED", "object": patched}

    await api.ok("DELETE", one, {"propagationPolicy": "Background"})
    if resource.kind != "Namespace":
        await api.fails(404, "GET", one)
        assert (await events.next())["type"] == "DELETED"
