"""Admission webhooks and policies as a user of kubectl sees them."""

import base64
from pathlib import Path
from typing import Any

import msgspec
import pytest

from shepherd.lib.clock import SystemClock
from shepherd.lib.http import Request, Response
from shepherd.lib.httpd import serve
from shepherd.server.pki import Pki

plain = pytest.mark.parametrize("served", ["plain"], indirect=True)

POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: limits}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}
  variables:
  - {name: replicas, expression: object.spec.replicas}
  validations:
  - expression: variables.replicas <= 5
    messageExpression: "'at most 5 replicas, not ' + string(variables.replicas)"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: limits}
spec:
  policyName: limits
  validationActions: [Deny]
  matchResources:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: default}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: team}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: >-
        Object{metadata: Object.metadata{labels: {"team": "web"}}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: team}
spec: {policyName: team}
"""


@plain
async def test_policies_are_applied_and_act(served: Any) -> None:
    kubectl = served.kubectl
    done = await kubectl("apply", "-f", "-", stdin=POLICY)
    assert done.splitlines() == [
        "validatingadmissionpolicy.admissionregistration.k8s.io/limits created",
        "validatingadmissionpolicybinding.admissionregistration.k8s.io/limits created",
        "mutatingadmissionpolicy.admissionregistration.k8s.io/team created",
        "mutatingadmissionpolicybinding.admissionregistration.k8s.io/team created",
    ]
    await kubectl("create", "deployment", "web", "--image=i")
    labels = await kubectl("get", "deployment", "web", "-o", "jsonpath={.metadata.labels}")
    assert labels == '{"app":"web","team":"web"}'
    refused = await kubectl("create", "deployment", "b", "--image=i", "--replicas=6", code=1)
    assert refused == (
        'error: failed to create deployment: deployments.apps "b" is forbidden: '
        "ValidatingAdmissionPolicy 'limits' with binding 'limits' denied request: "
        "at most 5 replicas, not 6\n"
    )
    patch = '{"spec":{"replicas":9}}'
    refused = await kubectl("patch", "deployment", "web", "-p", patch, code=1)
    assert "at most 5 replicas, not 9" in refused
    await kubectl("create", "namespace", "free")
    await kubectl("-n", "free", "create", "deployment", "b", "--image=i", "--replicas=6")
    broken = POLICY.replace("variables.replicas <= 5", "variables.replicas <")
    refused = await kubectl("apply", "-f", "-", stdin=broken, code=1)
    assert "spec.validations[0].expression: Invalid value" in refused


@plain
async def test_a_webhook_warns_and_refuses(served: Any, tmp_path: Path) -> None:
    async def judge(request: Request) -> Response:
        review = msgspec.json.decode(request.body)
        name = review["request"]["name"]
        response = {"uid": review["request"]["uid"], "warnings": [f"{name} was seen"]}
        response |= {"allowed": name != "bad", "status": {"code": 403, "message": "no bad names"}}
        body = {"kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": response}
        return Response(200, {"content-type": "application/json"}, msgspec.json.encode(body))

    pki = Pki.open(tmp_path / "webhook", clock=SystemClock())
    httpd = await serve(judge, "127.0.0.1", 0, ssl=pki.serving_context())
    webhook = {
        "name": "names.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {
            "url": f"https://127.0.0.1:{httpd.port}/judge",
            "caBundle": base64.b64encode(pki.ca.encode()).decode(),
        },
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
             "resources": ["configmaps"]}
        ],
    }  # fmt: skip
    configuration = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "names"},
        "webhooks": [webhook],
    }
    text = msgspec.json.encode(configuration).decode()
    await served.kubectl("apply", "-f", "-", stdin=text)
    refused = await served.kubectl("create", "configmap", "bad", code=1)
    assert refused == (
        "Warning: bad was seen\n"
        'error: failed to create configmap: admission webhook "names.example.com" denied the '
        "request: no bad names\n"
    )
    process = await served.start_kubectl("create", "configmap", "good")
    out, err = await process.communicate()
    assert (out, err) == (b"configmap/good created\n", b"Warning: good was seen\n")
    await httpd.close(0)
