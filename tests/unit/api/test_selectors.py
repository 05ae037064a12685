"""Selectors as users write them."""

import pytest

from shepherd.api.errors import ApiError
from shepherd.api.objects import LabelSelector, decode
from shepherd.api.objects.node import NodeSelector
from shepherd.api.selectors import (
    FieldTerm,
    labels_selector,
    node_selector,
    parse_field_selector,
    parse_selector,
    selector_of,
)


@pytest.mark.parametrize(
    ("text", "labels", "matches"),
    [
        ("", {}, True),
        ("app=web", {"app": "web"}, True),
        ("app == web", {"app": "web"}, True),
        ("app=web", {}, False),
        ("app!=web", {}, True),
        ("app!=web", {"app": "web"}, False),
        ("app in (web, db)", {"app": "db"}, True),
        ("app in (web,db)", {"app": "x"}, False),
        ("app notin (web)", {}, True),
        ("app notin (web)", {"app": "web"}, False),
        ("app", {"app": ""}, True),
        ("!app", {"app": ""}, False),
        ("! app", {}, True),
        ("app=", {"app": ""}, True),
        ("app in ()", {"app": ""}, True),
        ("app in (,a)", {"app": ""}, True),
        ("in in (in)", {"in": "in"}, True),
        ("cpus>4", {"cpus": "8"}, True),
        ("cpus<4", {"cpus": "8"}, False),
        ("cpus>4", {"cpus": "many"}, False),
        ("a=1,b!=2 , c", {"a": "1", "c": ""}, True),
        ("a=1,b!=2,c", {"a": "1", "b": "2", "c": ""}, False),
    ],
)
def test_label_selectors(text: str, labels: dict[str, str], matches: bool) -> None:
    selector = parse_selector(text)
    assert selector.matches(labels) is matches
    assert parse_selector(str(selector)).matches(labels) is matches


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,", "found '', expected: identifier after ','"),
        ("a b", "found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        ("a in b", "found 'b' expected: '('"),
        ("a in (b", "found '', expected: ',' or ')'"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("a/b/c=d", "a valid label key"),
        ("a=b/c", "a valid label must be"),
        ("a>b", "the value must be an integer"),
        ("a==b==c", "found '=='"),
        ("a in (b),,c", "identifier after ','"),
    ],
)
def test_malformed_label_selectors(text: str, message: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse_selector(text)
    assert caught.value.code == 400
    assert message in caught.value.message


def test_selector_objects() -> None:
    body = {
        "matchLabels": {"app": "web"},
        "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["db"]}],
    }
    for selector in (selector_of(body), selector_of(decode(body, LabelSelector))):
        assert str(selector) == "app=web,tier notin (db)"
        assert selector.matches({"app": "web"})
        assert not selector.matches({"app": "web", "tier": "db"})
    assert selector_of({}).matches({})
    assert not selector_of(None).matches({})
    assert not selector_of(None).empty
    assert labels_selector({"a": "b"}).matches({"a": "b"})
    with pytest.raises(ApiError, match="not a valid label selector operator"):
        selector_of({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]})


def test_field_selectors() -> None:
    selector = parse_field_selector("spec.nodeName=n1,status.phase!=Failed,status.phase!=Succeeded")
    assert selector.fields == ["spec.nodeName", "status.phase", "status.phase"]
    assert selector.exact("spec.nodeName") == "n1"
    assert selector.matches({"spec.nodeName": "n1", "status.phase": "Running"})
    assert not selector.matches({"spec.nodeName": "n1", "status.phase": "Failed"})
    assert parse_field_selector("spec.nodeName=").matches({})
    assert parse_field_selector("").empty
    escaped = parse_field_selector(r"a==x\,y\=z\\")
    assert escaped.terms == (FieldTerm("a", r"x,y=z" + "\\"),)
    assert parse_field_selector(str(escaped)).terms == escaped.terms


@pytest.mark.parametrize("text", ["a", "a=b=c", "a=\\x", "a=b\\", "metadata.name~x"])
def test_malformed_field_selectors(text: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse_field_selector(text)
    assert caught.value.code == 400


def test_node_selectors() -> None:
    body = {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": "cpus", "operator": "Gt", "values": ["4"]}]},
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
            {},
            {"matchExpressions": [{"key": "cpus", "operator": "Near", "values": ["4"]}]},
        ]
    }
    matches = node_selector(decode(body, NodeSelector))
    assert matches({"cpus": "8"}, "n2")
    assert matches({}, "n1")
    assert not matches({"cpus": "2"}, "n2")
    assert node_selector(None)({}, "n2")
