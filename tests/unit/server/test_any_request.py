"""Whole requests, near to what is valid: never a 5xx, and what is refused changes nothing."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd.lib.http import Request, User

CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.x.io"},
    "spec": {
        "group": "x.io",
        "scope": "Namespaced",
        "names": {"kind": "Thing", "plural": "things"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.n",
                                                         "statusReplicasPath": ".status.n"}},
                "additionalPrinterColumns": [
                    {"name": "N", "type": "integer", "jsonPath": ".spec.n"},
                    {"name": "D", "type": "date", "jsonPath": ".spec.d"},
                    {"name": "All", "type": "string", "jsonPath": "..*"},
                ],
                "selectableFields": [{"jsonPath": ".spec.colour"}],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                        "properties": {
                            "spec": {
                                "type": "object",
                                "x-kubernetes-preserve-unknown-fields": True,
                                "properties": {
                                    "n": {"type": "integer", "default": 1},
                                    "d": {"type": "string"},
                                    "colour": {"type": "string", "pattern": "^(a+)+$"},
                                },
                                "x-kubernetes-validations": [{"rule": "self.n != 7"}],
                            }
                        },
                    }
                },
            }
        ],
    },
}  # fmt: skip
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "namespace": "default", "labels": {"a": "b"}},
    "spec": {
        "terminationGracePeriodSeconds": 30,
        "containers": [
            {
                "name": "a",
                "image": "b",
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
                "livenessProbe": {"httpGet": {"port": 80}, "periodSeconds": 1},
            }
        ],
        "tolerations": [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}],
    },
}
SAMPLES: dict[str, Any] = {
    "pods": POD,
    "services": {"spec": {"selector": {"a": "b"}, "ports": [{"port": 80, "targetPort": "x"}]}},
    "configmaps": {"data": {"a": "b"}, "binaryData": {"b": "YQ=="}},
    "deployments": {"spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}},
                             "template": {"metadata": {"labels": {"a": "b"}},
                                          "spec": POD["spec"]}}},
    "things": {"apiVersion": "x.io/v1", "kind": "Thing", "spec": {"n": 1, "d": "x"}},
    "leases": {"spec": {"leaseDurationSeconds": 1, "renewTime": "2026-01-01T00:00:00.000000Z"}},
    "events": {"reason": "a", "count": 1, "lastTimestamp": "2026-01-01T00:00:00Z",
               "involvedObject": {"kind": "Pod", "name": "a", "namespace": "default"}},
    "cronjobs": {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {
        "spec": POD["spec"] | {"restartPolicy": "Never"}}}}}},
    "poddisruptionbudgets": {"spec": {"minAvailable": "50%", "selector": {}}},
    "resourcequotas": {"spec": {"hard": {"pods": "1"}}},
}  # fmt: skip
GROUPS = {
    "deployments": "apis/apps/v1", "things": "apis/x.io/v1", "cronjobs": "apis/batch/v1",
    "leases": "apis/coordination.k8s.io/v1", "events": "apis/events.k8s.io/v1",
    "poddisruptionbudgets": "apis/policy/v1",
}  # fmt: skip
EDGES: list[Any] = [
    None, True, 0, -1, 2**31 - 1, 2**31, 2**63 - 1, -(2**63), 2**64, 1e308, 0.1, "", "0", "a\0b",
    "é", "\u2028", "x" * 300, "%s", "9" * 30, "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", [],
    {}, [None], {"": None}, [[]], "-1", "101%", "1e30", "../..", "$(A)", "=", "a=b", "*",
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where there is something in a JSON value."""
    if path:
        yield path
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(item, (*path, key))


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy of a value with another part at a place."""
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = changed(value[path[0]], path[1:], new)
    return copy


@st.composite
def objects(draw: st.DrawFn) -> tuple[str, Any]:
    """A resource, and an object of it of which one or two parts are at an edge or gone."""
    plural = draw(st.sampled_from(sorted(SAMPLES)))
    obj = {"metadata": POD["metadata"]} | SAMPLES[plural]
    for _ in range(draw(st.integers(0, 2))):
        found = list(places(obj))
        if found:
            edge = draw(st.sampled_from(EDGES) | st.integers() | st.text(max_size=4))
            obj = changed(obj, draw(st.sampled_from(found)), edge)
    return plural, obj


_noise = st.text(max_size=6) | st.sampled_from(["", "true", "0", "-1", "9" * 19, "All", "a=b"])
queries = st.dictionaries(
    st.sampled_from(
        ["labelSelector", "fieldSelector", "limit", "continue", "resourceVersion", "dryRun",
         "resourceVersionMatch", "fieldManager", "force", "fieldValidation", "propagationPolicy",
         "gracePeriodSeconds", "includeObject", "pretty", "orphanDependents", "timeoutSeconds",
         "tailLines", "sinceTime", "container", "command", "ports", "path"]
    ),
    _noise | st.sampled_from(["Strict", "Exact", "NotOlderThan", "a in (b)", "metadata.name=a"]),
    max_size=3,
)  # fmt: skip
headers = st.fixed_dictionaries(
    {
        "content-type": st.sampled_from(
            ["application/json", "application/yaml", "application/apply-patch+yaml",
             "application/merge-patch+json", "application/strategic-merge-patch+json",
             "application/json-patch+json", "application/vnd.kubernetes.protobuf", "", "text/x"]
        )
    },
    optional={
        "accept": st.sampled_from(
            ["application/json;as=Table;v=v1;g=meta.k8s.io", "*/*", "application/yaml", ";",
             "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
             "application/vnd.kubernetes.protobuf,application/json"]
        ),
        "user-agent": _noise,
        "if-none-match": _noise,
        "content-encoding": st.sampled_from(["gzip", "identity"]),
        "upgrade": st.sampled_from(["websocket", "SPDY/3.1", "x"]),
        "connection": st.just("Upgrade"),
    },
)  # fmt: skip
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "PATCH", "DELETE", "OPTIONS", "BREW"]
SUBS = ["", "", "", "/status", "/scale", "/log", "/exec", "/eviction", "/binding", "/proxy/x",
        "/ephemeralcontainers", "/finalize", "/token", "/approval", "/resize", "/x", "/%2e%2e",
        "/portforward", "/attach"]  # fmt: skip
DELIBERATE = (503, 504, 507)
"""An agent that is not there, a revision that does not come, a full disk."""


@st.composite
def requests(draw: st.DrawFn) -> Request:
    plural, obj = draw(objects())
    namespace = draw(st.sampled_from(["namespaces/default/"] * 4 + ["", "namespaces//", "watch/"]))
    name = draw(
        st.sampled_from(["", "/a", "/a", "/a", "/b", "//", "/\0", "/é", "/A", "/" + "a" * 300])
    )
    path = f"/{GROUPS.get(plural, 'api/v1')}/{namespace}{plural}{name}"
    other = st.sampled_from(
        [
            "/",
            "/api",
            "/apis/",
            "/apis/apps",
            "/version",
            "/healthz",
            "/readyz/x",
            "/openapi/v2",
            "/openapi/v3",
            "/shepherd/v1/cluster",
            "//api",
            "/api/v9/x",
        ]
    )
    path = draw(
        st.just(path + draw(st.sampled_from(SUBS))) | (other if name == "//" else st.just(path))
    )
    query = draw(queries)
    if "things" in path or "limit" in query:
        query["timeoutSeconds"] = "1"
    body = json.dumps(obj).encode()
    if draw(st.booleans()) and draw(st.booleans()):
        at = draw(st.integers(0, len(body)))
        body = body[:at] + draw(st.binary(max_size=4)) + body[at + draw(st.integers(0, 3)) :]
    return Request(
        draw(st.sampled_from(METHODS)), path, list(query.items()), draw(headers), body,
        peer=User("admin", ("system:masters",)),
    )  # fmt: skip


async def answered(api: Any, request: Request) -> Any:
    """The status of the answer, which must be one that a client can use."""
    revision = api.store.revision
    response = await api.server.handle(request)
    if not isinstance(response.body, bytes):
        await response.body.aclose()
        return response.status
    assert response.status < 500 or response.status in DELIBERATE, (request, response.body)
    if response.status >= 400:
        status = json.loads(response.body)
        assert status["message"], request
        assert status["code"] == response.status
        assert api.store.revision == revision, request
    return response.status


@given(sent=st.lists(requests(), min_size=1, max_size=4))
async def test_no_request_makes_the_server_fail(things: Any, sent: list[Request]) -> None:
    for request in sent:
        await answered(things, request)
    for plural in SAMPLES:
        path = f"/{GROUPS.get(plural, 'api/v1')}/{plural}"
        for accept in ("", "application/json;as=Table;v=v1;g=meta.k8s.io"):
            assert (await things.ask("GET", path, accept=accept)).code == 200, path


@pytest.fixture
async def things(api: Any) -> Any:
    """The API with one object of each resource that the requests are about."""
    await api.ok("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", CRD)
    for plural, sample in SAMPLES.items():
        body = {"metadata": POD["metadata"]} | sample
        await api.ok("POST", f"/{GROUPS.get(plural, 'api/v1')}/namespaces/default/{plural}", body)
    return api
