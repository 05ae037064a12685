"""Small requests that would cost much: each is refused, says why, and takes next to no time.

The time is the process's own, and the bound far above what is used: it fails for a hang, not for a
slow machine.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from shepherd.api.errors import MAX_ERRORS, MAX_MESSAGE
from shepherd.server.registry import MAX_OBJECT_BYTES

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
APPLY, YAML = "application/apply-patch+yaml", "application/yaml"
JSON_PATCH, MERGE = "application/json-patch+json", "application/merge-patch+json"
PROTOBUF = "application/vnd.kubernetes.protobuf"
HANG_SECONDS = 10.0
ANSWER_BYTES = 16 * MAX_MESSAGE


@contextmanager
def swift() -> Iterator[None]:
    start = time.process_time()
    yield
    assert time.process_time() - start < HANG_SECONDS


def config_map(**metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"} | metadata}


def sized(number: int, data: bytes) -> bytes:
    """A field of protobuf."""
    size, head = len(data), b""
    while size > 127:
        head, size = head + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + head + bytes([size]) + data


def aliases(levels: int) -> bytes:
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join(lines).encode()


def merges(levels: int) -> bytes:
    lines = ["a0: &a0 {k1: 1, k2: 2, k3: 3, k4: 4}"]
    lines += [f"a{n}: &a{n} {{<<: [{','.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, levels)]
    return "\n".join([*lines, "x: .nan"]).encode()


_MOVES = [
    {"op": "move", "from": "/spec/a", "path": "/spec/b/x"},
    {"op": "add", "path": "/spec/a", "value": {}},
    {"op": "move", "from": "/spec/b", "path": "/spec/a/x"},
    {"op": "add", "path": "/spec/b", "value": {}},
]
_MANY = [f"x.y/{n}" for n in range(150_000)]
REFUSED: dict[str, tuple[bytes | Any, str, int, str]] = {
    "values in JSON": (b'{"data":[' + b"1," * 1_400_000 + b"1]}", "", 400, "values"),
    "values in YAML": (b"a: [" + b"a," * 1_400_000 + b"a]", YAML, 400, "lines and values"),
    "lines of YAML": (b"k: v\n" * 500_000, YAML, 400, "lines and values"),
    "documents of YAML": (b"---\n" * 700_000, YAML, 400, "lines and values"),
    "aliases of YAML": (aliases(12), YAML, 400, "aliases"),
    "merges of YAML": (merges(12), YAML, 400, "no JSON form"),
    "nesting in YAML": (b"- " * 100_000, YAML, 400, "not valid YAML"),
    "fields of protobuf": (
        b"k8s\0" + sized(2, sized(1, sized(1, b"b") + b"\x72\x00" * 1_000_000)), PROTOBUF, 400,
        "fields",
    ),
    "errors": (config_map(finalizers=[f"!{n}" for n in range(150_000)]), "", 422, "more errors"),
    "a long refused value": (config_map(finalizers=["!" * 2_000_000]), "", 422, "..."),
    "a refused name": (config_map(name="!" * 2_000_000), "", 422, "..."),
    "a long unknown kind": (config_map() | {"kind": "x" * 2_000_000}, "", 400, "..."),
    "an encoded body": (b"\x1f\x8b\x08", "application/json; gzip", 415, "Content-Encoding"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
async def test_what_would_cost_much_is_refused(api: Any, name: str) -> None:
    body, media, code, message = REFUSED[name]
    headers = {"content_encoding": "gzip"} if "gzip" in media else {}
    revision = api.store.revision
    with swift():
        answer = await api.ask("POST", CONFIG_MAPS, body, content_type=media, **headers)
    assert answer.code == code, answer.body
    assert message in answer.json["message"]
    assert len(answer.body) < ANSWER_BYTES
    assert api.store.revision == revision


async def test_an_answer_names_so_many_errors_and_counts_the_others(api: Any) -> None:
    labels = {f"!{n}": "" for n in range(MAX_ERRORS + 5)}
    status = await api.fails(422, "POST", CONFIG_MAPS, config_map(labels=labels))
    assert len(status["details"]["causes"]) == MAX_ERRORS
    assert status["message"].endswith("and 5 more errors]")


@pytest.mark.parametrize("name", ["labelSelector", "fieldSelector"])
async def test_a_selector_has_so_many_requirements(api: Any, name: str) -> None:
    terms = {"labelSelector": "a", "fieldSelector": "metadata.name%3Da"}[name]
    assert (await api.ask("GET", f"{PODS}?{name}=" + ",".join([terms] * 1000))).code == 200
    status = await api.fails(400, "GET", f"{PODS}?{name}=" + ",".join([terms] * 1001))
    assert "requirements" in status["message"]


async def test_a_duplicate_at_the_end_of_a_long_set_is_found_at_once(api: Any) -> None:
    config = config_map(finalizers=[*_MANY, "q/q", "q/q"])
    with swift():
        status = await api.fails(
            400, "PATCH", f"{CONFIG_MAPS}/b?fieldManager=a", config, content_type=APPLY
        )
    assert 'duplicate entries for key [="q/q"]' in status["message"]


async def test_patches_do_not_let_an_object_grow_for_ever(things: Any) -> None:
    path, text = f"{things.path}/a", "x" * (MAX_OBJECT_BYTES // 3)
    codes = []
    for name in ("a", "b", "c", "d"):
        answer = await things.ask("PATCH", path, {"spec": {name: text}}, content_type=MERGE)
        codes.append(answer.code)
    assert codes == [200, 200, 413, 413]
    assert str(MAX_OBJECT_BYTES) in answer.json["message"]
    shorter = await things.ok("PATCH", path, {"spec": {"b": None}}, content_type=MERGE)
    assert len(json.dumps(shorter)) < MAX_OBJECT_BYTES


async def test_no_sequence_of_operations_nests_deeper_than_a_body_may(things: Any) -> None:
    path = f"{things.path}/a"
    for operations in (
        _MOVES * 2500,
        [{"op": "copy", "from": "/spec/a", "path": "/spec/a/b"}] * 5000,
        [{"op": "copy", "from": "", "path": "/spec/c"}] * 5000,
        [{"op": "test", "path": "/" * 2_000_000, "value": 1}],
    ):
        with swift():
            answer = await things.ask("PATCH", path, operations, content_type=JSON_PATCH)
        assert answer.code in (400, 413), answer.body
        assert len(answer.body) < ANSWER_BYTES
    edit = {"spec": {"n": 2}}
    assert (await things.ok("PATCH", path, edit, content_type=MERGE))["spec"]["n"] == 2


async def test_a_grace_period_of_any_length_is_taken(api: Any) -> None:
    longest = 2**63 - 1
    spec = {"nodeName": "n", "containers": [{"name": "a", "image": "b"}]}
    for name, more, query in (
        ("a", {"terminationGracePeriodSeconds": longest}, ""),
        ("b", {}, f"?gracePeriodSeconds={longest}"),
    ):
        await api.ok("POST", PODS, {"metadata": {"name": name}, "spec": spec | more})
        marked = await api.ok("DELETE", f"{PODS}/{name}{query}")
        assert marked["metadata"]["deletionTimestamp"] > "2090"
        shorter = await api.ok("DELETE", f"{PODS}/{name}?gracePeriodSeconds=7")
        assert shorter["metadata"]["deletionGracePeriodSeconds"] == 7


@pytest.mark.parametrize("path", ["..*..*", "." + "..x" * 500, "[?(@..a)]..b"])
async def test_a_column_descends_once(api: Any, path: str) -> None:
    crd = definition(additionalPrinterColumns=[{"name": "x", "type": "string", "jsonPath": path}])
    status = await api.fails(422, "POST", CRDS, crd)
    assert "recursive descent" in status["message"]


async def test_a_host_name_of_a_schema_is_judged_in_linear_time(api: Any) -> None:
    field = {"type": "string", "format": "hostname"}
    await things_of(api, properties={"host": field})
    path = "/apis/x.io/v1/namespaces/default/things"
    with swift():
        thing = {"metadata": {"name": "b"}, "spec": {"host": "a" * 60 + ".b" * 90 + "!"}}
        await api.fails(422, "POST", path, thing)


CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def definition(properties: Any = None, **version: Any) -> dict[str, Any]:
    spec = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": spec | {"properties": properties or {}}}}
    one = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": "Thing", "plural": "things"}
    return {
        "metadata": {"name": "things.x.io"},
        "spec": {
            "group": "x.io",
            "scope": "Namespaced",
            "names": names,
            "versions": [one | version],
        },
    }


async def things_of(api: Any, properties: Any = None) -> None:
    await api.ok("POST", CRDS, definition(properties))


@pytest.fixture
async def things(api: Any) -> Any:
    """The API with a kind of any content, and one object of it."""
    await things_of(api)
    api.path = "/apis/x.io/v1/namespaces/default/things"
    await api.ok("POST", api.path, {"metadata": {"name": "a"}, "spec": {"a": {}, "b": {}}})
    return api
