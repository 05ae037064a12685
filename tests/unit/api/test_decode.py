"""Bodies of requests: JSON and YAML, and every way in which they can be wrong."""

import json
from typing import Any

import pytest

from shepherd.api.decode import (
    Decoded,
    FieldValidation,
    check_object,
    decode_object,
    decode_value,
    field_validation,
)
from shepherd.api.errors import ApiError
from shepherd.api.resource import Object


def _pod(body: Object | bytes, type: str = "", mode: FieldValidation = "Warn") -> Decoded:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return decode_object(data, type, "", "v1", "Pod", validation=mode)


def test_kind_and_version_are_filled_in() -> None:
    found = _pod({"metadata": {"name": "a"}})
    assert found == Decoded({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}})


def test_other_kinds_are_refused() -> None:
    with pytest.raises(ApiError, match=r"data \(apps/v1\) does not match .* \(v1\)") as caught:
        _pod({"apiVersion": "apps/v1"})
    assert caught.value.code == 400
    with pytest.raises(ApiError, match="Node in version v1 cannot be handled as a Pod"):
        _pod({"kind": "Node"})


def test_delete_options_come_under_any_version() -> None:
    body = b'{"kind":"DeleteOptions","apiVersion":"apps/v1","gracePeriodSeconds":0}'
    found = decode_object(body, "", "", "v1", "DeleteOptions").object
    assert found["gracePeriodSeconds"] == 0


ODD = b'{"spec":{"nodeName":"a","foo":1,"nodeName":"b"},"metadata":{"name":"x"}}'


def test_field_validation() -> None:
    warned = _pod(ODD)
    assert warned.warnings == ['duplicate field "spec.nodeName"', 'unknown field "spec.foo"']
    assert warned.object["spec"] == {"nodeName": "b"}
    assert _pod(ODD, mode="Ignore").warnings == []
    with pytest.raises(ApiError) as caught:
        _pod(ODD, mode="Strict")
    assert caught.value.code == 400
    assert caught.value.message == (
        'Pod in version "v1" cannot be handled as a Pod: strict decoding error: '
        'duplicate field "spec.nodeName", unknown field "spec.foo"'
    )


def test_the_field_validation_parameter() -> None:
    assert field_validation("") == "Warn"
    assert field_validation("Strict") == "Strict"
    with pytest.raises(ApiError, match='Unsupported value: "strict"'):
        field_validation("strict")


def test_keys_that_only_look_like_duplicates() -> None:
    body = {"metadata": {"annotations": {'a":': 'b":"c', "\\": "1", "x\\": '":'}}}
    assert _pod(body).warnings == []


def test_wrong_types_are_named() -> None:
    with pytest.raises(ApiError, match=r"Pod.spec.containers\[0\].name of type string"):
        _pod({"spec": {"containers": [{"name": 1}]}})
    with pytest.raises(ApiError) as caught:
        check_object({"spec": {"nodeName": 1}}, "", "v1", "Pod")
    assert caught.value.code == 400


def test_kinds_without_a_schema_keep_everything() -> None:
    body = b'{"spec":{"any":[null]}}'
    assert decode_object(body, "", "example.com", "v1", "Thing").object["spec"] == {"any": [None]}


@pytest.mark.parametrize(
    ("body", "type", "code", "message"),
    [
        (b"", "", 400, "the request body is empty"),
        (b"{", "", 400, "not valid JSON"),
        (b'{"a":NaN}', "", 400, "not valid JSON"),
        (b'{"metadata":{"generation":1e999}}', "", 400, "not valid JSON"),
        (b"\xff\xfe", "", 400, "not valid JSON"),
        (b'{"metadata":{"name":"\xff"}}', "", 400, "not valid JSON"),
        (b'{"metadata":{"name":"\\ud800"}}', "", 400, "not valid JSON"),
        (b'{"metadata":{"generation":' + b"9" * 5000 + b"}}", "", 400, "not valid JSON"),
        (b'{"metadata":{"generation":99999999999999999999}}', "", 400, "metadata.generation"),
        (b"[" * 100_000, "", 400, "nested too deep"),
        (b'{"metadata":' * 150 + b"1" + b"}" * 150, "", 400, "nested too deep"),
        (b"[[]" + b",[]" * 500_000 + b"]", "", 400, "more than 200000 values"),
        (b"[]", "", 400, "an object, not a list"),
        (b"null", "", 400, "an object, not null"),
        (b'"text"', "", 400, "an object, not a text"),
        (b"1", "", 400, "an object, not a number"),
        (b"a: [", "application/yaml", 400, "not valid YAML"),
        (b"\xff", "application/yaml", 400, "not valid UTF-8"),
        (b'a: "\\ud800"', "application/yaml", 400, "not valid YAML"),
        (b"a: .nan", "application/yaml", 400, "has no JSON form"),
        (b"a: -.inf", "application/yaml", 400, "has no JSON form"),
        (b"a: !!binary aGk=", "application/yaml", 400, "has no JSON form"),
        (b"a: !!python/name:os.system", "application/yaml", 400, "has no JSON form"),
        (b'\x00{"a":1}', "application/yaml", 400, "not valid YAML"),
        (b"%YAML 9.9\n---\na", "application/yaml", 400, "not valid YAML"),
        (b"? [a]\n: b", "application/yaml", 400, "the key in line 1 is not a text"),
        (b"a: 1\n---\nb: 2", "application/yaml", 400, "one YAML document, not 2"),
        (b"# nothing", "application/yaml", 400, "one YAML document, not 0"),
        (b"a: &a [*a]", "application/yaml", 400, "too large"),
        (b"[" * 500, "application/yaml", 400, "not valid YAML"),
        (b"[" * 100_000, "application/yaml", 400, "not valid YAML"),
        (b"a: " + b"[" * 150 + b"]" * 150, "application/yaml", 400, "nested too deep"),
        (b"a: " + b"9" * 5000, "application/yaml", 400, "not valid YAML"),
        (b"{}", "text/plain", 415, "unknown format (text/plain)"),
        (b"{}", "application/cbor", 415, "unknown format"),
        (b"{}", "application/json; charset=utf-8", 200, ""),
    ],
)
def test_bad_bodies(body: bytes, type: str, code: int, message: str) -> None:
    if code == 200:
        _pod(body, type)
        return
    with pytest.raises(ApiError) as caught:
        _pod(body, type)
    assert caught.value.code == code
    assert message in caught.value.message
    assert len(caught.value.message) < 1000


def _bomb(link: str) -> bytes:
    lines = ["a0: &a0 {k: xxxxxxxxxx}"]
    lines += [
        f"a{i}: &a{i} " + link.format(",".join([f"*a{i - 1}"] * 10), i=i) for i in range(1, 12)
    ]
    return "\n".join(lines).encode()


def test_alias_bombs_do_not_go_off() -> None:
    with pytest.raises(ApiError, match="too large"):
        decode_value(_bomb("[{}]"), "application/yaml")
    merged, _ = decode_value(_bomb("{{<<: [{}], k{i}: 1}}"), "application/yaml")
    assert len(merged["a11"]) == 12
    text = b"a: &a " + b"x" * 10_000 + b"\nb: [" + b",".join([b"*a"] * 10_000) + b"]"
    with pytest.raises(ApiError, match="too large"):
        decode_value(text, "application/yaml")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"), ("on", "on"), ("n", "n"), ("True", True), ("false", False),
        ("0644", 420), ("0o17", 15), ("0x1F", 31), ("-0b11", -3), ("1_000", 1000), ("089", 89),
        ("1:30", "1:30"), ("2026-01-01", "2026-01-01"), ("1e3", 1000), ("0.5", 0.5), ("2.0", 2),
        ("~", None), ("", None), ("null", None), ("'1'", "1"), ("500m", "500m"), ("1.2.3", "1.2.3"),
        (".5", 0.5), ("+7", 7), ("=", "="), ("0.0.0.0:80", "0.0.0.0:80"),
    ],
)  # fmt: skip
def test_yaml_values(text: str, value: Any) -> None:
    assert decode_value(f"a: {text}".encode(), "application/yaml")[0] == {"a": value}


def test_yaml_keys_merges_and_duplicates() -> None:
    text = b"base: &b {x: 1, y: 1}\nuse: {<<: *b, y: 2}\n80: port\ntrue: x\nl: [{a: 1, a: 2}]\n"
    value, problems = decode_value(text, "application/apply-patch+yaml")
    assert value["use"] == {"x": 1, "y": 2}
    assert value["80"] == "port"
    assert value["true"] == "x"
    assert problems == ['duplicate field "l[0].a"']


def test_patches_are_read_by_their_suffix() -> None:
    assert decode_value(b"[1]", "application/json-patch+json") == ([1], [])
    assert decode_value(b'{"a":1}', "application/merge-patch+json") == ({"a": 1}, [])


def test_many_keys_and_one_twice_take_no_time() -> None:
    keys = ",".join(f'"k{i}":1' for i in range(50_000))
    value, problems = decode_value(f'{{"x":1,{keys},"x":2}}'.encode())
    assert problems == ['duplicate field "x"']
    assert value["x"] == 2
