"""Schemas of custom resources: what they do to objects, and which are refused."""

from typing import Any

import pytest

from shepherd.api.cel import expressions as cel
from shepherd.api.custom.definition import version_order
from shepherd.api.custom.formats import fits
from shepherd.api.custom.rules import Rules
from shepherd.api.custom.schemarules import check_schema
from shepherd.api.custom.structural import ABSENT, Structural
from shepherd.api.jsonpath import JsonPathError, parse
from shepherd.api.resource import Object


def obj(**properties: Object) -> Object:
    return {"type": "object", "properties": properties}


TEXT = {"type": "string"}
INT = {"type": "integer"}


def problems(schema: Object, value: Any, old: Any = ABSENT) -> list[str]:
    found: list[Any] = []
    Structural(schema).validate(value, "x", found, old)
    return [f"{error.field}: {error.message}" for error in found]


def test_unknown_fields_go_where_the_schema_does_not_keep_them() -> None:
    kept = {"x-kubernetes-preserve-unknown-fields": True}
    schema = obj(a=TEXT, b=obj(c=TEXT) | kept, m={"type": "object", "additionalProperties": obj()})
    unknown: list[str] = []
    value = {"a": "1", "z": 1, "b": {"c": "2", "y": {"q": 1}}, "m": {"k": {"w": 1}}}
    pruned = Structural(schema).prune(value, "", unknown)
    assert pruned == {"a": "1", "b": {"c": "2", "y": {"q": 1}}, "m": {"k": {}}}
    assert unknown == ["z", "m.k.w"]
    assert value["z"] == 1


def test_embedded_resources_keep_what_every_object_has() -> None:
    schema = obj(spec=obj(a=TEXT)) | {"x-kubernetes-embedded-resource": True}
    value = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "no": 1}, "other": 1}
    pruned = Structural(schema).prune(value)
    assert pruned == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
    assert problems(schema, {"kind": "Pod"}) == ["x.apiVersion: Required value: must not be empty"]


def test_defaults_fill_what_is_missing_and_nulls_that_may_not_be() -> None:
    one = {"type": "integer", "default": 1}
    schema = obj(a=one, b=one | {"nullable": True}, l={"type": "array", "items": obj(a=one)})
    value: Object = {"a": None, "b": None, "l": [{}, {"a": 2}]}
    Structural(schema).fill(value)
    assert value == {"a": 1, "b": None, "l": [{"a": 1}, {"a": 2}]}


VALUES: list[tuple[Object, Any, list[str]]] = [
    (INT, "a", ['x: Invalid value: "string": x in body must be of type integer: "string"']),
    (INT, 2.0, []),
    (INT | {"nullable": True}, None, []),
    (INT | {"maximum": 3}, 4, ["x: Invalid value: 4: x in body should be less than or equal to 3"]),
    (
        INT | {"minimum": 3, "exclusiveMinimum": True},
        3,
        ["x: Invalid value: 3: x in body should be greater than 3"],
    ),
    (INT | {"multipleOf": 5}, 7, ["x: Invalid value: 7: x in body should be a multiple of 5"]),
    (TEXT | {"maxLength": 2}, "abc", ["x: Too long: may not be more than 2 bytes"]),
    (
        TEXT | {"pattern": "^a+$"},
        "b",
        ["x: Invalid value: \"b\": x in body should match '^a+$'"],
    ),
    (
        TEXT | {"format": "ipv4"},
        "1.2",
        ['x: Invalid value: "1.2": x in body must be of type ipv4: "1.2"'],
    ),
    (TEXT | {"format": "unheard-of"}, "1.2", []),
    (TEXT | {"enum": ["a"]}, "b", ['x: Unsupported value: "b": supported values: "a"']),
    (
        {"type": "array", "items": TEXT, "maxItems": 1},
        ["a", "b"],
        ["x: Too many: 2: must have at most 1 items"],
    ),
    (
        {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
        ["a", "a"],
        ['x[1]: Duplicate value: "a"'],
    ),
    ({"x-kubernetes-int-or-string": True}, "a", []),
    ({"x-kubernetes-int-or-string": True}, 1, []),
    (
        {"x-kubernetes-int-or-string": True},
        True,
        ['x: Invalid value: "boolean": x in body must be of type integer,string: "boolean"'],
    ),
    (
        obj(a=TEXT, b=TEXT) | {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"a": "1", "b": "2"},
        [
            'x: Invalid value: "": "x" must validate one and only one schema (oneOf). '
            "Found 2 valid alternatives"
        ],
    ),
    (
        TEXT | {"not": {"enum": ["a"]}},
        "a",
        ['x: Invalid value: "": "x" must not validate the schema (not)'],
    ),
]


@pytest.mark.parametrize(("schema", "value", "expected"), VALUES)
def test_values_are_judged_in_upstreams_words(
    schema: Object, value: Any, expected: list[str]
) -> None:
    assert problems(schema, value) == expected


def test_what_did_not_change_is_not_judged_again() -> None:
    keyed = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    schema = obj(l={"type": "array", "items": obj(k=TEXT, n=INT | {"maximum": 3})} | keyed)
    old = {"l": [{"k": "a", "n": 9}]}
    assert not problems(schema, {"l": [{"k": "b", "n": 1}, {"k": "a", "n": 9}]}, old)
    assert problems(schema, {"l": [{"k": "a", "n": 8}]}, old)


RULE = "s.x-kubernetes-validations[0].rule"
REFUSED: list[tuple[Object, str]] = [
    (obj(a={}), "s.properties[a].type"),
    (obj(a={"type": "array"}), "s.properties[a].items"),
    (obj(a=TEXT | {"pattern": "("}), "s.properties[a].pattern"),
    (obj(a=INT | {"default": "x"}), "s.properties[a].default"),
    (obj(a=obj(b=TEXT) | {"default": {"c": 1}}), "s.properties[a].default"),
    (obj(a=TEXT) | {"anyOf": [{"type": "object"}]}, "s.anyOf[0].type"),
    (obj(a=TEXT) | {"allOf": [{"properties": {"b": {}}}]}, "s.properties[b]"),
    (obj(metadata=obj(labels={"type": "object"})), "s.properties[metadata]"),
    (obj(a=TEXT) | {"x-kubernetes-validations": [{"rule": "1 +"}]}, RULE),
    (obj(a=TEXT) | {"x-kubernetes-validations": [{"rule": "'a'"}]}, RULE),
    (
        obj(
            a={
                "type": "array",
                "items": INT | {"x-kubernetes-validations": [{"rule": "self == oldSelf"}]},
            }
        ),
        "s.properties[a].items.x-kubernetes-validations[0].rule",
    ),
]


@pytest.mark.parametrize(("schema", "field"), REFUSED)
def test_schemas_that_are_not_structural_are_refused(schema: Object, field: str) -> None:
    found = [error.field for error in check_schema(schema, "s")]
    assert field in found


EXPRESSIONS = [
    "self.n > 2 && self.s.startsWith('a')",
    "self.s.matches('^a+$') && self.s.upperAscii() == 'AA'",
    "quantity('1Gi').isGreaterThan(quantity('1M')) && quantity('1k') == quantity('1000')",
    "isURL('https://a.example:8/x') && url('https://a.example:8/x').getHost() == 'a.example:8'",
    "isIP('::1') && cidr('10.0.0.0/8').containsIP('10.1.1.1')",
    "[1, 2, 3].isSorted() && [1, 2].sum() == 3 && sets.contains([1, 2], [2])",
    "self.l.all(x, x > 0) && self.l.exists_one(x, x == 2) && self.?gone.orValue(1) == 1",
    "duration('1h') > duration('30m') && timestamp('2026-01-01T00:00:00Z').getFullYear() == 2026",
]


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_rules_have_kubernetes_functions(text: str) -> None:
    assert cel.compile_rule(text).evaluate({"n": 3, "s": "aa", "l": [1, 2]}) is True


def rule(text: str, **more: Any) -> Object:
    return {"x-kubernetes-validations": [{"rule": text} | more]}


def test_rules_name_fields_escaped_and_explain_themselves() -> None:
    schema = obj(**{"a-b": INT, "namespace": TEXT, "cpu": {"type": "number"}})
    schema |= rule(
        "self.a__dash__b < 3 && self.__namespace__ == 'x' && self.cpu * 2.0 < 9.0",
        messageExpression="'too big: ' + string(self.a__dash__b)",
    )
    rules = Rules(Structural(schema))
    assert not rules.check({"a-b": 2, "namespace": "x", "cpu": 1}, ABSENT)
    (error,) = rules.check({"a-b": 5, "namespace": "x", "cpu": 1}, ABSENT, "spec")
    assert (error.field, error.message) == ("spec", "Invalid value: too big: 5")


def test_old_values_are_optional_if_a_rule_says_so() -> None:
    schema = INT | rule("!oldSelf.hasValue() || self > oldSelf.value()", optionalOldSelf=True)
    rules = Rules(Structural(schema))
    assert not rules.check(1, ABSENT)
    assert not rules.check(2, 1)
    assert rules.check(1, 2)


def test_no_rule_holds_up_the_server() -> None:
    schema = {"type": "array", "items": INT}
    schema |= rule("self.all(x, self.all(y, self.all(z, x + y + z >= 0)))")
    (error,) = Rules(Structural(schema)).check(list(range(1000)), ABSENT)
    assert "running out of cost budget" in error.message
    # Nor does what a rule says when it fails.
    twice = "self"
    for _ in range(22):
        twice = f"cel.bind(y, {twice}, y + y)"
    speaks: Object = {"type": "string"} | rule("false", message="no", messageExpression=twice)
    (error,) = Rules(Structural(speaks)).check("x" * 100, ABSENT)
    assert error.message.endswith("no")
    slow = cel.matcher("^(a+)+$")
    assert not slow("a" * 50_000 + "b")


def test_versions_are_ordered_by_stage_and_number() -> None:
    names = ["v1", "v2beta1", "v10", "foo", "v2", "v1alpha1", "v11beta2"]
    ordered = sorted(names, key=version_order)
    assert ordered == ["v10", "v2", "v1", "v11beta2", "v2beta1", "v1alpha1", "foo"]


FORMATS = [
    ("date-time", "2026-01-01T00:00:00Z", "2026-13-01T00:00:00Z"),
    ("date", "2026-01-31", "2026-02-31"),
    ("duration", "1h30m", "1 fortnight"),
    ("byte", "YQ==", "%"),
    ("uuid4", "f47ac10b-58cc-4372-a567-0e02b2c3d479", "f47ac10b-58cc-1372-a567-0e02b2c3d479"),
    ("cidr", "10.0.0.0/8", "10.0.0.0"),
    ("hostname", "a.example", "-.-"),
    ("int32", 1, 2**31),
]


@pytest.mark.parametrize(("name", "good", "bad"), FORMATS)
def test_formats(name: str, good: Any, bad: Any) -> None:
    assert fits(name, good)
    assert not fits(name, bad)


POD = {
    "metadata": {"labels": {"a.b/c": "x"}},
    "status": {"conditions": [{"type": "A", "s": 1}, {"type": "Ready", "s": 2}], "n": [1, 2, 3]},
}
PATHS = [
    (".metadata.labels.a\\.b/c", ["x"]),
    (".metadata.labels['a.b/c']", ["x"]),
    ('.status.conditions[?(@.type=="Ready")].s', [2]),
    (".status.conditions[?(@.s>1)].type", ["Ready"]),
    (".status.conditions[*].type", ["A", "Ready"]),
    (".status.n[-1]", [3]),
    (".status.n[0:2]", [1, 2]),
    ("..type", ["A", "Ready"]),
    ("{.status.gone}", []),
    ("$.status.n[9]", []),
]


@pytest.mark.parametrize(("path", "found"), PATHS)
def test_json_paths(path: str, found: list[Any]) -> None:
    assert parse(path).find(POD) == found


@pytest.mark.parametrize("path", ["a", ".a[", ".a[?(b)]", ".a[?(@.b==c)]", "x" * 5000])
def test_json_paths_that_are_none(path: str) -> None:
    with pytest.raises(JsonPathError):
        parse(path)


TIMES = obj(
    when={"type": "string", "format": "date-time"},
    day={"type": "string", "format": "date"},
    wait={"type": "string", "format": "duration"},
    raw={"type": "string", "format": "byte"},
    all={"type": "array", "maxItems": 5, "items": {"type": "string", "format": "date-time"}},
)
TYPED = [
    "self.when < timestamp('2021-01-01T00:00:00Z')",
    "self.day.getFullYear() == 2021",
    "self.wait > duration('1h')",
    "self.raw == b'abc'",
    "self.all.all(t, t >= self.when - duration('1s'))",
    "self.all[1].getFullYear() == 2022",
    "timestamp(self.when) == self.when",
    "has(self.when) && self.when.getFullYear() == 2020",
    "self.all.exists(t, t == self.when)",
]


@pytest.mark.parametrize("rule", TYPED)
def test_rules_see_texts_of_some_formats_as_what_they_are(rule: str) -> None:
    value = {
        "when": "2020-01-01T00:00:00Z",
        "day": "2021-01-01",
        "wait": "1h30m",
        "raw": "YWJj",
        "all": ["2020-01-01T00:00:00Z", "2022-01-01T00:00:00Z"],
    }
    schema = TIMES | {"x-kubernetes-validations": [{"rule": rule}]}
    assert check_schema(schema, "s") == []
    assert Rules(Structural(schema)).check(value, ABSENT) == []


def test_rules_that_could_cost_too_much_are_refused() -> None:
    """Nested loops over lists without a bound; the same with bounds are fine."""
    rule = {"rule": "self.l.all(a, self.l.all(b, a != b || true))"}
    texts: Object = {"type": "array", "items": TEXT}
    found = check_schema(obj(l=texts) | {"x-kubernetes-validations": [rule]}, "s")
    assert [(error.type, error.field) for error in found[:1]] == [
        ("FieldValueForbidden", "s.x-kubernetes-validations[0].rule")
    ]
    assert found[0].message.startswith(
        "Forbidden: estimated rule cost exceeds budget by factor of more than 100x (try simplifying"
    )
    bounded = texts | {"maxItems": 50, "items": TEXT | {"maxLength": 100}}
    assert check_schema(obj(l=bounded) | {"x-kubernetes-validations": [rule]}, "s") == []
    below = {"type": "array", "items": obj(l=bounded) | {"x-kubernetes-validations": [rule]}}
    found = check_schema(obj(outer=below), "s")
    assert [error.field for error in found] == [
        "s.properties[outer].items.x-kubernetes-validations[0].rule", "s",
    ]  # fmt: skip


def test_a_rule_may_not_speak_of_fields_that_are_not_there() -> None:
    rule = {"rule": "self.spec.foo == 1"}
    found = check_schema(obj(spec=obj(bar=INT)) | {"x-kubernetes-validations": [rule]}, "s")
    assert [error.message for error in found] == [
        'Invalid value: {"rule":"self.spec.foo == 1"}: compilation failed: ERROR: <input>:1:10: '
        "undefined field 'foo'\n | self.spec.foo == 1\n | .........^"
    ]


@pytest.mark.parametrize(
    ("path", "leads"),
    [(".spec.a", True), ("['spec'].a", True), (".map['any.key']", True), (".spec.b", False),
     ("spec.a", False), (".spec[0]", False)],
)  # fmt: skip
def test_a_rules_field_path_must_lead_to_a_field(path: str, leads: bool) -> None:
    rule = {"rule": "has(self.spec)", "fieldPath": path}
    schema = obj(spec=obj(a=INT), map={"type": "object", "additionalProperties": INT})
    found = check_schema(schema | {"x-kubernetes-validations": [rule]}, "s")
    assert [error.field for error in found] == (
        [] if leads else ["s.x-kubernetes-validations[0].fieldPath"]
    )


def test_what_a_rule_says_is_of_the_field_that_it_names() -> None:
    rule = {"rule": "self.spec.a > 1", "fieldPath": ".spec.a", "reason": "FieldValueForbidden"}
    schema = obj(spec=obj(a=INT)) | {"x-kubernetes-validations": [rule]}
    (error,) = Rules(Structural(schema)).check({"spec": {"a": 1}}, ABSENT)
    assert (error.type, error.field) == ("FieldValueForbidden", "spec.a")
