"""What is refused about a pod, where, and in which words; what may change; what only warns."""

import copy
from typing import Any

import pytest

from shepherd.api.kinds import POD

POD_BASE: dict[str, Any] = {
    "metadata": {"name": "p"},
    "spec": {
        "containers": [
            {
                "name": "a",
                "image": "a:1",
                "ports": [{"name": "http", "containerPort": 80}],
                "env": [{"name": "A", "value": "1"}],
                "readinessProbe": {"httpGet": {"port": "http"}},
                "livenessProbe": {"exec": {"command": ["true"]}},
                "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}},
                "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            }
        ],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}],
    },
}


def new(**spec: Any) -> dict[str, Any]:
    """A sound pod with `spec` laid over."""
    obj = copy.deepcopy(POD_BASE)
    obj["spec"] |= spec
    POD.default(obj)
    return obj


def with_container(**fields: Any) -> dict[str, Any]:
    """A sound pod with `fields` laid over its container."""
    obj = copy.deepcopy(POD_BASE)
    obj["spec"]["containers"][0] |= fields
    POD.default(obj)
    return obj


def found(obj: dict[str, Any]) -> list[str]:
    return [f"{error.field}: {error.message}" for error in POD.validate(obj)]


def test_a_sound_pod_is_accepted_without_a_word() -> None:
    assert found(new()) == []
    assert POD.warnings(new()) == []


C = "spec.containers[0]"
CONTAINER_CASES: list[tuple[dict[str, Any], str]] = [
    ({"name": ""}, f"{C}.name: Required value"),
    ({"image": ""}, f"{C}.image: Required value"),
    (
        {"image": " a:1"},
        f'{C}.image: Invalid value: " a:1": must not have leading or trailing whitespace',
    ),
    (
        {"imagePullPolicy": "Sometimes"},
        f'{C}.imagePullPolicy: Unsupported value: "Sometimes": '
        'supported values: "Always", "IfNotPresent", "Never"',
    ),
    ({"ports": [{"name": "x"}]}, f"{C}.ports[0].containerPort: Required value"),
    (
        {"ports": [{"containerPort": 70000}]},
        f"{C}.ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
    ),
    (
        {"ports": [{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]},
        f'{C}.ports[1].name: Duplicate value: "a"',
    ),
    (
        {"ports": [{"containerPort": 1, "protocol": "tcp"}]},
        f'{C}.ports[0].protocol: Unsupported value: "tcp": supported values: "SCTP", "TCP", "UDP"',
    ),
    (
        {"ports": [{"containerPort": 1, "hostPort": 9}, {"containerPort": 2, "hostPort": 9}]},
        f'{C}.ports[1].hostPort: Duplicate value: "TCP//9"',
    ),
    ({"env": [{"name": ""}]}, f"{C}.env[0].name: Required value"),
    (
        {"env": [{"name": "A", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "spec.x"}}}]},
        f'{C}.env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty',
    ),
    (
        {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c"}}}]},
        f"{C}.env[0].valueFrom.configMapKeyRef.key: Required value",
    ),
    (
        {"envFrom": [{}]},
        f'{C}.envFrom[0]: Invalid value: "": must specify one of: `configMapRef` or `secretRef`',
    ),
    (
        {"volumeMounts": [{"name": "w", "mountPath": "/v"}]},
        f'{C}.volumeMounts[0].name: Not found: "w"',
    ),
    (
        {"volumeMounts": [{"name": "v", "mountPath": "/v"}, {"name": "v", "mountPath": "/v"}]},
        f'{C}.volumeMounts[1].mountPath: Invalid value: "/v": must be unique',
    ),
    (
        {"volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "../etc"}]},
        f'{C}.volumeMounts[0].subPath: Invalid value: "../etc": must not contain \'..\'',
    ),
    (
        {"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}},
        f'{C}.resources.requests: Invalid value: "2": '
        "must be less than or equal to cpu limit of 1",
    ),
    (
        {"resources": {"limits": {"memory": "-1"}}},
        f'{C}.resources.limits[memory]: Invalid value: "-1": '
        "must be greater than or equal to 0",
    ),
    (
        {"resources": {"limits": {"cpus": "1"}}},
        f'{C}.resources.limits[cpus]: Invalid value: "cpus": '
        "must be a standard resource type or fully qualified",
    ),
    ({"livenessProbe": {"periodSeconds": 3}}, f"{C}.livenessProbe: Required value: "
     "must specify a handler type"),
    (
        {"livenessProbe": {"exec": {"command": ["x"]}, "successThreshold": 2}},
        f"{C}.livenessProbe.successThreshold: Invalid value: 2: must be 1",
    ),
    (
        {"readinessProbe": {"tcpSocket": {"port": 0}}},
        f"{C}.readinessProbe.tcpSocket.port: Invalid value: 0: "
        "must be between 1 and 65535, inclusive",
    ),
    (
        {"readinessProbe": {"exec": {"command": ["x"]}, "httpGet": {"port": 1}}},
        f"{C}.readinessProbe.httpGet: Forbidden: may not specify more than 1 handler type",
    ),
    (
        {"securityContext": {"privileged": True, "allowPrivilegeEscalation": False}},
        f"{C}.securityContext: Invalid value: "
        '{"privileged":true,"allowPrivilegeEscalation":false}: '
        "cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "message"), CONTAINER_CASES)
def test_containers(fields: dict[str, Any], message: str) -> None:
    assert message in found(with_container(**fields))


SPEC_CASES: list[tuple[dict[str, Any], str]] = [
    (
        {"securityContext": {"sysctls": [{"name": "net/../kernel/panic", "value": "1"}]}},
        'spec.securityContext.sysctls[0].name: Invalid value: "net/../kernel/panic": '
        r"must have at most 253 characters and match regex "
        r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$",
    ),
    ({"containers": []}, "spec.containers: Required value"),
    (
        {"initContainers": [{"name": "a", "image": "b"}]},
        'spec.initContainers[0].name: Duplicate value: "a"',
    ),
    (
        {"initContainers": [{"name": "i", "image": "b", "lifecycle": {"preStop": {}}}]},
        "spec.initContainers[0].lifecycle: Forbidden: "
        "may not be set for init containers without restartPolicy=Always",
    ),
    (
        {"restartPolicy": "never"},
        'spec.restartPolicy: Unsupported value: "never": '
        'supported values: "Always", "Never", "OnFailure"',
    ),
    (
        {"dnsPolicy": "None"},
        "spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None",
    ),
    (
        {"activeDeadlineSeconds": 0},
        "spec.activeDeadlineSeconds: Invalid value: 0: "
        "must be between 1 and 2147483647, inclusive",
    ),
    ({"volumes": [{"name": "v"}, {"name": "v"}]}, 'spec.volumes[1].name: Duplicate value: "v"'),
    (
        {"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]},
        "spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type",
    ),
    (
        {"volumes": [{"name": "v", "secret": {"secretName": "s", "defaultMode": 512}}]},
        "spec.volumes[0].secret.defaultMode: Invalid value: 512: "
        "must be a number between 0 and 0777 (octal), both inclusive",
    ),
    (
        {"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "much"}}]},
        'spec.volumes[0].emptyDir.sizeLimit: Invalid value: "much": quantities must match the '
        "regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    ),
    (
        {"tolerations": [{"key": "k", "effect": "NoSchedule", "tolerationSeconds": 3}]},
        'spec.tolerations[0].effect: Invalid value: "NoSchedule": '
        "effect must be 'NoExecute' when `tolerationSeconds` is set",
    ),
    (
        {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In"}]}]}}}},
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
        ".nodeSelectorTerms[0].matchExpressions[0].values: Required value: "
        "must be specified when `operator` is 'In' or 'NotIn'",
    ),
    (
        {"hostAliases": [{"ip": "localhost"}]},
        'spec.hostAliases[0].ip: Invalid value: "localhost": '
        "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
    ),
    (
        {"schedulingGates": [{"name": "a"}], "nodeName": "n1"},
        "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "message"), SPEC_CASES, ids=[case[1] for case in SPEC_CASES])
def test_the_spec(spec: dict[str, Any], message: str) -> None:
    assert message in found(new(**spec))


def changes(old: dict[str, Any], obj: dict[str, Any]) -> list[str]:
    return [f"{error.field}: {error.message}" for error in POD.validate_update(obj, old)]


def test_image_deadline_and_more_tolerations_may_change() -> None:
    old = new(activeDeadlineSeconds=60)
    obj = copy.deepcopy(old)
    obj["spec"]["containers"][0]["image"] = "a:2"
    obj["spec"]["activeDeadlineSeconds"] = 30
    obj["spec"]["tolerations"].append({"key": "more", "operator": "Exists"})
    assert changes(old, obj) == []


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("hostNetwork", True, "spec: Forbidden: pod updates may not change fields other than "),
        ("nodeName", "n2", "spec: Forbidden: pod updates may not change fields other than "),
        ("containers", [], "spec.containers: Forbidden: pod updates may not add or remove"),
        ("tolerations", [], "spec.tolerations: Forbidden: existing toleration can not be modified"),
        (
            "activeDeadlineSeconds", 90,
            "spec.activeDeadlineSeconds: Invalid value: 90: "
            "must be less than or equal to previous value",
        ),
        (
            "schedulingGates", [{"name": "g"}],
            "spec.schedulingGates[0]: Forbidden: only deletion is allowed, "
            "but found new scheduling gate 'g'",
        ),
    ],
)  # fmt: skip
def test_nothing_else_may_change(field: str, value: Any, message: str) -> None:
    old = new(activeDeadlineSeconds=60)
    obj = copy.deepcopy(old)
    obj["spec"][field] = value
    assert changes(old, obj)[0].startswith(message)


def test_a_gated_pod_may_still_be_told_where_to_run() -> None:
    old = new(schedulingGates=[{"name": "g"}])
    obj = copy.deepcopy(old) | {"spec": old["spec"] | {"nodeSelector": {"disk": "ssd"}}}
    assert changes(old, obj) == []


@pytest.mark.parametrize(
    ("obj", "warning"),
    [
        (
            with_container(resources={"limits": {"memory": "400m"}}),
            f'{C}.resources.limits[memory]: fractional byte value "400m" is invalid, '
            "must be an integer",
        ),
        (
            with_container(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]),
            f'{C}.env[1]: hides previous definition of "A", which may be dropped when using apply',
        ),
        (
            with_container(env=[{"name": "A", "value": "$(B)"}, {"name": "B", "value": "2"}]),
            f'{C}.env[0]: $(B) is not expanded here: "B" is defined further down',
        ),
        (
            with_container(ports=[{"containerPort": 1}, {"containerPort": 1}]),
            f"{C}.ports[1]: duplicate port definition with {C}.ports[0]",
        ),
        (
            {
                "spec": {
                    "volumes": [{"name": "v", "configMap": {"name": "c"}}],
                    "containers": [{"name": "c", "volumeMounts": [{"name": "v", "subPath": "a"}]}],
                }
            },
            f'{C}.volumeMounts[0].subPath: does not follow changes of what volume "v" is made of; '
            "a mount of the whole volume does",
        ),
        (
            new(terminationGracePeriodSeconds=-1),
            "spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid "
            "and will be treated as 1",
        ),
    ],
)
def test_warnings(obj: dict[str, Any], warning: str) -> None:
    """Accepted, as by Kubernetes, and told. kubernetes/kubernetes#79950, #103761 and
    stackrox/kube-linter#189: `400m` of memory; #62366: one port twice; #47248, #48069: a variable
    that is defined further down."""
    assert warning in POD.warnings(obj)


def test_a_variable_that_builds_on_its_earlier_value_is_no_surprise() -> None:
    env = [{"name": "PATH", "value": "/a"}, {"name": "PATH", "value": "$(PATH):/b"}]
    assert POD.warnings(with_container(env=env)) == []


def test_an_accepted_field_without_effect_says_so() -> None:
    bundle = {"sources": [{"clusterTrustBundle": {"path": "t"}}]}
    volumes = [
        {"name": "v", "persistentVolumeClaim": {"claimName": "c"}},
        {"name": "t", "projected": bundle},
    ]
    obj = new(volumes=volumes, runtimeClassName="kata", hostUsers=False)
    assert [warning.partition(":")[0] for warning in POD.warnings(obj)] == [
        "spec.runtimeClassName",
        "spec.hostUsers",
        "spec.volumes[0].persistentVolumeClaim",
        "spec.volumes[1].projected.sources[0].clusterTrustBundle",
    ]
    obj = with_container(restartPolicy="Never", securityContext={"procMount": "Unmasked"})
    assert [warning.partition(":")[0] for warning in POD.warnings(obj)] == [
        f"{C}.securityContext.procMount", f"{C}.restartPolicy",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"memory": "1Gi"}}, "Burstable"),
    ],
)
def test_a_new_pod_is_pending_and_has_its_quality_of_service(
    resources: dict[str, Any], quality: str
) -> None:
    obj = with_container(resources=resources) | {"status": {"phase": "Running", "podIP": "1.2.3.4"}}
    POD.prepare(obj, None)
    assert obj["status"] == {"phase": "Pending", "qosClass": quality}
