"""Whatever arrives: a clear 4xx, nothing stored, and the server lives on."""

import json
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
DEEP = b'{"metadata":{"name":"a"},"data":' + b'{"x":' * 5000 + b"1" + b"}" * 5000 + b"}"
BODIES: dict[str, tuple[bytes, str, int]] = {
    "empty": (b"", "application/json", 400),
    "not JSON": (b"{nope", "application/json", 400),
    "a list": (b"[]", "application/json", 400),
    "a number": (b"7", "application/json", 400),
    "null": (b"null", "application/json", 400),
    "bad UTF-8": (b'{"metadata":{"name":"\xff"}}', "application/json", 400),
    "lone surrogate": (b'{"metadata":{"name":"\\ud800"}}', "application/json", 400),
    "too deep": (DEEP, "application/json", 400),
    "wrong types": (b'{"metadata":{"name":"a"},"data":[1]}', "application/json", 400),
    "name a number": (b'{"metadata":{"name":7}}', "application/json", 400),
    "metadata a text": (b'{"metadata":"a"}', "application/json", 400),
    "labels a list": (b'{"metadata":{"name":"a","labels":["x"]}}', "application/json", 400),
    "bad YAML": (b"a: [", "application/yaml", 400),
    "two documents": (b"a: 1\n---\nb: 2", "application/yaml", 400),
    "not protobuf": (b"nope", "application/vnd.kubernetes.protobuf", 400),
    "cut protobuf": (b"k8s\x00\x0a\xff\xff", "application/vnd.kubernetes.protobuf", 400),
    "a form": (b"a=b", "application/x-www-form-urlencoded", 415),
    "CBOR": (b"\xa0", "application/cbor", 415),
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_a_bad_body_is_refused(api: Any, name: str, method: str) -> None:
    body, content_type, code = BODIES[name]
    path = CONFIG_MAPS if method == "POST" else f"{CONFIG_MAPS}/a"
    if method == "PUT":
        await api.ok("POST", CONFIG_MAPS, {"metadata": {"name": "a"}, "data": {"k": "v"}})
    revision = api.store.revision
    status = await api.fails(code, method, path, body, content_type=content_type)
    assert status["message"]
    assert "Traceback" not in status["message"]
    assert api.store.revision == revision


@pytest.mark.parametrize(
    "content_type", ["merge-patch+json", "json-patch+json", "strategic-merge-patch+json"]
)
@pytest.mark.parametrize("body", [b"", b"{nope", b'"text"', b"7", b"null", DEEP, b"\xff"])
async def test_a_bad_patch_is_refused(api: Any, content_type: str, body: bytes) -> None:
    await api.ok("POST", CONFIG_MAPS, {"metadata": {"name": "a"}, "data": {"k": "v"}})
    revision = api.store.revision
    answer = await api.ask(
        "PATCH", f"{CONFIG_MAPS}/a", body, content_type=f"application/{content_type}"
    )
    assert 400 <= answer.code < 500, answer.body
    assert api.store.revision == revision


@pytest.mark.parametrize(
    "path", ["/version", "/healthz", "/api", "/apis", "/openapi/v2", "/shepherd/v1/cluster"]
)
async def test_documents_are_only_read(api: Any, path: str) -> None:
    for method in ("GET", "HEAD"):
        assert (await api.ask(method, path)).code == 200
    for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"):
        assert method in (await api.fails(405, method, path))["message"]
        await api.fails(404, method, f"{path}x")


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "BREW"])
async def test_objects_have_no_other_methods(api: Any, method: str) -> None:
    for path in (CONFIG_MAPS, f"{CONFIG_MAPS}/a"):
        assert method in (await api.fails(405, method, path))["message"]


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
_pod_fields = st.sampled_from(
    ["containers", "name", "image", "ports", "containerPort", "env", "labels", "resources",
     "limits", "cpu", "volumes", "nodeName", "tolerations", "affinity", "securityContext"]
)  # fmt: skip
_pods = st.recursive(
    _values,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_pod_fields, inner, max_size=4),
    max_leaves=12,
)


@given(spec=_pods, metadata=_values)
async def test_no_object_makes_the_server_fail(api: Any, spec: Any, metadata: Any) -> None:
    body = json.dumps({"metadata": metadata, "spec": spec}).encode()
    answer = await api.ask("POST", PODS, body)
    assert answer.code < 500, (body, answer.body)
    answer = await api.ask("POST", "/api/v1/namespaces/default/services", body)
    assert answer.code < 500, (body, answer.body)


@given(patch=_values | st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), _values))
@pytest.mark.parametrize("kind", ["merge-patch", "strategic-merge-patch", "json-patch"])
async def test_no_patch_makes_the_server_fail(api: Any, kind: str, patch: Any) -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
    await api.ask("POST", PODS, pod)
    content_type = f"application/{kind}+json"
    for sub in ("", "/status"):
        body = json.dumps(patch).encode()
        answer = await api.ask("PATCH", f"{PODS}/p{sub}", body, content_type=content_type)
        assert answer.code < 500, (body, answer.body)


@given(spec=_pods, metadata=_values, name=st.sampled_from(["p", "q"]))
async def test_no_apply_makes_the_server_fail(
    api: Any, spec: Any, metadata: Any, name: str
) -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
    await api.ask("POST", PODS, pod)
    config = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    for sub in ("", "/status"):
        answer = await api.ask(
            "PATCH",
            f"{PODS}/{name}{sub}?fieldManager=me&force=true",
            json.dumps(config).encode(),
            content_type="application/apply-patch+yaml",
        )
        assert answer.code < 500, (config, answer.body)


_fields = st.recursive(
    st.just({}) | _values,
    lambda inner: st.dictionaries(
        st.sampled_from([".", "f:data", "f:a", "k:{}", "k:x", 'k:{"a":1}', "v:1", "i:0", "", "x"]),
        inner,
        max_size=3,
    ),
    max_leaves=6,
)
_entries = st.fixed_dictionaries(
    {"fieldsV1": _fields},
    optional={
        "manager": st.text(max_size=3),
        "operation": st.sampled_from(["Apply", "Update", "x"]),
        "apiVersion": st.just("v1"),
        "fieldsType": st.sampled_from(["FieldsV1", "x"]),
        "time": st.sampled_from(["2026-01-01T00:00:00Z", "x"]),
    },
)


@given(entries=st.lists(_entries | _values, max_size=2))
async def test_no_managed_fields_make_the_server_fail(api: Any, entries: Any) -> None:
    merge = {"content_type": "application/merge-patch+json"}
    await api.ask("POST", CONFIG_MAPS, {"metadata": {"name": "a"}, "data": {"a": "1"}})
    edit = {"metadata": {"managedFields": entries}}
    answer = await api.ask("PATCH", f"{CONFIG_MAPS}/a", json.dumps(edit).encode(), **merge)
    assert answer.code < 500, (edit, answer.body)
    for data in ({"a": "2"}, {"b": "1"}):
        answer = await api.ask("PATCH", f"{CONFIG_MAPS}/a", {"data": data}, **merge)
        assert answer.code == 200, (edit, answer.body)
        config = {"apiVersion": "v1", "kind": "ConfigMap", "data": data}
        for force in ("false", "true"):
            answer = await api.ask(
                "PATCH",
                f"{CONFIG_MAPS}/a?fieldManager=me&force={force}",
                config,
                content_type="application/apply-patch+yaml",
            )
            assert answer.code in (200, 409), (edit, answer.body)


@given(text=st.text(max_size=12))
async def test_no_query_makes_the_server_fail(api: Any, text: str) -> None:
    for name in ("labelSelector", "fieldSelector", "continue", "limit", "sendInitialEvents"):
        answer = await api.ask("GET", f"{CONFIG_MAPS}?{name}={quote(text)}")
        assert answer.code < 500, answer.body
