"""Whatever is missing from an object, the rules answer with values and never raise."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from shepherd.api.kinds import RESOURCES
from shepherd.api.resource import Resource
from shepherd.api.schema import get_type, type_of

CONTAINER = {
    "name": "a",
    "image": "a:1",
    "ports": [{"name": "p", "containerPort": 80, "hostPort": 80, "hostIP": "127.0.0.1"}],
    "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a']"}}}],
    "envFrom": [{"configMapRef": {"name": "c"}}],
    "volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "a"}],
    "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": 1}},
    "livenessProbe": {"httpGet": {"port": 80, "httpHeaders": [{"name": "a"}]}},
    "lifecycle": {"preStop": {"sleep": {"seconds": 1}}},
    "securityContext": {"capabilities": {"add": ["X"]}, "seccompProfile": {"type": "Localhost"}},
}
SELECTOR = {
    "matchLabels": {"a": "b"},
    "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}],
}
TERM = {"labelSelector": SELECTOR, "topologyKey": "zone"}
NODE_TERM = {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}
POD_SPEC = {
    "containers": [CONTAINER, CONTAINER],
    "initContainers": [CONTAINER],
    "volumes": [
        {"name": "v", "projected": {"sources": [{"downwardAPI": {"items": [{"path": "a"}]}}]}},
        {"name": "s", "secret": {"secretName": "s", "items": [{"key": "a", "path": "b"}]}},
        {"name": "h", "hostPath": {"path": "/"}},
    ],
    "tolerations": [{"key": "a", "effect": "NoExecute", "tolerationSeconds": 1}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [NODE_TERM]},
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "preference": NODE_TERM}
            ],
        },
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]},
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "podAffinityTerm": TERM}
            ]
        },
    },
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone"}],
    "hostAliases": [{"ip": "1.2.3.4", "hostnames": ["a"]}],
    "dnsPolicy": "None",
    "dnsConfig": {"nameservers": ["1.2.3.4"]},
    "securityContext": {"sysctls": [{"name": "a"}], "supplementalGroups": [1]},
    "readinessGates": [{"conditionType": "a"}],
    "schedulingGates": [{"name": "a"}],
    "overhead": {"cpu": "1"},
    "imagePullSecrets": [{"name": "a"}],
}
STATUS = {
    "name": "a",
    "state": {"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T00:00:00Z"}},
    "lastState": {"terminated": {"finishedAt": "2026-01-01T00:00:00Z"}},
}
METADATA = {"name": "a", "labels": {"a": "b"}, "annotations": {"a": "b"}}
TEMPLATE = {"metadata": METADATA, "spec": POD_SPEC}
WORKLOAD = {
    "metadata": METADATA,
    "spec": {
        "selector": SELECTOR,
        "template": TEMPLATE,
        "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": "25%"}},
    },
}
TUBE_SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["colour"],
            "properties": {
                "colour": {"type": "string", "enum": ["red"], "pattern": "^r", "default": "red"},
                "port": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}]},
                "parts": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}},
                        "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "m"}],
                    },
                },
            },
            "oneOf": [{"required": ["colour"]}, {"properties": {"colour": {"maxLength": 1}}}],
        },
    },
}
OBJECTS: dict[str, dict[str, Any]] = {
    "Pod": {
        "metadata": METADATA,
        "spec": POD_SPEC,
        "status": {
            "conditions": [{"type": "PodScheduled"}],
            "containerStatuses": [STATUS],
            "initContainerStatuses": [STATUS],
        },
    },
    "Deployment": WORKLOAD,
    "ReplicaSet": WORKLOAD,
    "Service": {
        "metadata": METADATA,
        "spec": {
            "type": "LoadBalancer",
            "selector": {"a": "b"},
            "clusterIPs": ["10.43.0.1"],
            "ports": [{"name": "a", "port": 80, "nodePort": 30000}],
            "sessionAffinity": "ClientIP",
        },
        "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}},
    },
    "Node": {
        "metadata": METADATA,
        "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
        "status": {
            "capacity": {"cpu": "1"},
            "conditions": [{"type": "Ready"}],
            "addresses": [{"type": "InternalIP", "address": "1.2.3.4"}],
            "nodeInfo": {},
        },
    },
    "ConfigMap": {"metadata": METADATA, "data": {"a": "b"}, "binaryData": {"c": "YQ=="}},
    "Secret": {
        "metadata": METADATA,
        "type": "kubernetes.io/tls",
        "data": {"tls.crt": "YQ=="},
        "stringData": {"a": "b"},
    },
    "Event": {
        "metadata": METADATA,
        "involvedObject": {"kind": "Pod", "name": "a"},
        "source": {},
        "series": {},
        "eventTime": "2026-01-01T00:00:00Z",
    },
    "Endpoints": {
        "metadata": METADATA,
        "subsets": [{"addresses": [{"ip": "1.2.3.4"}], "ports": [{"port": 1}]}],
    },
    "EndpointSlice": {
        "metadata": METADATA,
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["1.2.3.4"]}],
        "ports": [{"port": 1}],
    },
    "Lease": {"metadata": METADATA, "spec": {"leaseDurationSeconds": 1}},
    "Namespace": {"metadata": METADATA, "spec": {"finalizers": ["kubernetes"]}},
    "CustomResourceDefinition": {
        "metadata": METADATA | {"name": "tubes.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "tubes", "kind": "Tube", "shortNames": ["tb"]},
            "conversion": {
                "strategy": "Webhook",
                "webhook": {
                    "conversionReviewVersions": ["v1"],
                    "clientConfig": {"service": {"namespace": "a", "name": "b"}},
                },
            },
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": TUBE_SCHEMA},
                    "subresources": {
                        "scale": {
                            "specReplicasPath": ".spec.n",
                            "statusReplicasPath": ".status.n",
                        },
                    },
                    "additionalPrinterColumns": [
                        {"name": "N", "type": "integer", "jsonPath": ".spec.n"}
                    ],
                    "selectableFields": [{"jsonPath": ".spec.colour"}],
                }
            ],
        },
        "status": {"storedVersions": ["v1"]},
    },
    "ServiceAccount": {"metadata": METADATA, "secrets": [{"name": "a"}]},
}


SMALL = {"metadata": METADATA, "spec": {"containers": [{"name": "a", "image": "a:1"}]}}
SCALARS: dict[str, Any] = {
    "bool": True, "int32": 1, "int64": 1, "double": 1.5, "bytes": "YQ==", "quantity": "1",
    "intstr": "50%", "time": "2026-01-01T00:00:00Z", "microtime": "2026-01-01T00:00:00.000000Z",
    "raw": {}, "json": {}, "fields": {},
}  # fmt: skip
DEEPEST = 7


def filled(type_name: str, depth: int = 0) -> Any:
    """An object of a type with every field of the schema set, of lists and maps one item."""
    if type_name == "meta.v1.ObjectMeta":
        return METADATA
    if type_name == "core.v1.PodTemplateSpec":
        return SMALL
    found = {}
    for field in get_type(type_name).fields.values() if depth < DEEPEST else ():
        shape = field.shape
        value = SCALARS.get(shape.of, "a") if shape.scalar else filled(shape.of, depth + 1)
        match shape.container:
            case "list":
                value = [value]
            case "map":
                value = {"a": value}
            case "map of lists":
                value = {"a": [value]}
        found[field.name] = value
    return found


def sample(resource: Resource) -> dict[str, Any]:
    if resource.kind in OBJECTS:
        return OBJECTS[resource.kind]
    known = type_of(resource.group, resource.version, resource.kind)
    assert known is not None
    found: dict[str, Any] = filled(known.name)
    return found


def with_gaps(value: Any) -> Iterator[Any]:
    """Copies of a JSON value, in each of which another part of it is missing or empty."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield {other: item for other, item in value.items() if other != key}
            for variant in with_gaps(part):
                yield value | {key: variant}
    elif isinstance(value, list):
        for index, part in enumerate(value):
            for variant in with_gaps(part):
                yield [*value[:index], variant, *value[index + 1 :]]
    yield type(value)()


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.kind)
def test_a_gap_anywhere_is_answered_and_never_raised(resource: Resource) -> None:
    whole = sample(resource)
    for obj in (whole, *with_gaps(whole)):
        obj, old = copy.deepcopy(obj), copy.deepcopy(whole)
        resource.default(obj)
        resource.default(old)
        resource.prepare(copy.deepcopy(obj), None)
        resource.prepare(obj, old)
        for error in resource.validate(obj) + resource.validate_update(obj, old):
            assert error.message
        assert all(resource.warnings(obj))
        assert all(isinstance(value, str) for value in resource.fields(obj).values())
        for column in resource.columns:
            assert column.cell(obj, 0) is not None
