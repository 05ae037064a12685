"""`sheepctl get`: the tables of kubectl, and forms for programs."""

import json
from typing import Any

import pytest
import yaml

POD = {"containers": [{"name": "a", "image": "a:1"}]}


@pytest.fixture
def two(sheepctl: Any) -> Any:
    sheepctl.given("Pod", "web-1", metadata={"labels": {"app": "web"}}, spec=POD)
    sheepctl.given("Pod", "db-1", metadata={"labels": {"app": "db"}}, spec=POD)
    return sheepctl


def test_a_table(two: Any) -> None:
    result = two("get", "pods")
    assert result.rows[0] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert [row[:4] for row in result.rows[1:]] == [
        ["db-1", "0/1", "Pending", "0"], ["web-1", "0/1", "Pending", "0"],
    ]  # fmt: skip
    assert result.err == ""


def test_wide_and_labels(two: Any) -> None:
    head, first, _ = two("get", "po", "-o", "wide", "--show-labels").rows
    assert head[5:] == ["IP", "NODE", "NOMINATED NODE", "READINESS GATES", "LABELS"]
    assert first[5:] == ["<none>", "<none>", "<none>", "<none>", "app=db"]


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["pods", "-l", "app=web"], ["pod/web-1"]),
        (["pods", "--field-selector", "metadata.name=db-1"], ["pod/db-1"]),
        (["pod", "web-1", "db-1"], ["pod/web-1", "pod/db-1"]),
        (["pod/web-1"], ["pod/web-1"]),
        (["pods,configmaps"], ["pod/db-1", "pod/web-1"]),
        (["pods", "-A"], ["pod/db-1", "pod/web-1"]),
        (["pods", "-n", "kube-system"], []),
    ],
)
def test_what_is_chosen(two: Any, arguments: list[str], names: list[str]) -> None:
    result = two("get", *arguments, "-o", "name")
    assert result.code == 0
    found = [name for name in result.out.split() if name.startswith("pod/")]
    assert found == names


def test_all_kinds_stand_in_tables_of_their_own(two: Any) -> None:
    out = two("get", "all", "-A").out
    assert "pod/web-1" in out
    assert "service/kubernetes" in out
    assert out.count("NAMESPACE") == 2


def test_json_and_yaml(two: Any) -> None:
    one = json.loads(two("get", "pod", "web-1", "-o", "json").out)
    assert (one["kind"], one["metadata"]["name"]) == ("Pod", "web-1")
    many = yaml.safe_load(two("get", "pods", "-o", "yaml").out)
    assert many["kind"] == "List"
    assert [item["kind"] for item in many["items"]] == ["Pod", "Pod"]


def test_nothing_found_is_said_on_the_side(sheepctl: Any) -> None:
    result = sheepctl("get", "pods")
    assert (result.code, result.out) == (0, "")
    assert result.err == "No resources found in default namespace.\n"
    assert sheepctl("get", "nodes").err == "No resources found\n"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["get", "pod", "gone"], 1, 'sheepctl: pods "gone" not found in namespace default\n'),
        (["get", "sheep"], 2, 'sheepctl: unknown resource "sheep": there are apiservices, '),
        (["get"], 2, "sheepctl: name a resource, such as pods or deployment/web\n"),
        (["get", "pods,nodes", "a"], 2, "sheepctl: names fit one resource only"),
        (["get", "pods", "-l", "a b"], 1, "sheepctl: "),
        (["get", "pods", "-o", "xml"], 2, "sheepctl: Invalid value for '-o' / '--output'"),
        (["got"], 2, "sheepctl: No such command 'got'"),
    ],
)
def test_mistakes_end_in_one_line(
    sheepctl: Any, arguments: list[str], code: int, message: str
) -> None:
    result = sheepctl(*arguments)
    assert result.code == code
    assert result.err.startswith(message)
    assert result.err.count("\n") == 1
    assert result.out == ""
