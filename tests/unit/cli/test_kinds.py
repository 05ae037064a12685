"""Kinds of others: what discovery tells is as good as what we declare."""

import json
from typing import Any

import pytest

from shepherd.cli.session import Usage
from shepherd.cli.template import template

TUBES = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: tubes.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: tubes, singular: tube, kind: Tube, shortNames: [tb], categories: [all, plumbing]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    additionalPrinterColumns:
    - {name: Colour, type: string, jsonPath: .spec.colour}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              colour: {type: string}
              replicas: {type: integer}
              list: {type: array, items: {type: string}}
          status: {type: object, properties: {replicas: {type: integer}}}
---
apiVersion: example.com/v1
kind: Tube
metadata: {name: t1, labels: {app: a}}
spec: {colour: red, list: [a, b]}
"""


@pytest.fixture
def tubes(sheepctl: Any) -> Any:
    applied = sheepctl("apply", "-f", "-", stdin=TUBES)
    assert applied.out.splitlines() == [
        "customresourcedefinition.apiextensions.k8s.io/tubes.example.com created",
        "tube.example.com/t1 created",
    ]
    return sheepctl


@pytest.mark.parametrize("word", ["tubes", "tube", "tb", "Tube", "tubes.example.com", "plumbing"])
def test_a_kind_is_found_by_each_of_its_names(tubes: Any, word: str) -> None:
    assert tubes("get", word).rows == [["NAME", "COLOUR"], ["t1", "red"]]


def test_a_category_takes_its_kinds_whoever_defines_them(tubes: Any) -> None:
    out = tubes("get", "all", "-A").out
    assert "tube.example.com/t1" in out
    assert "service/kubernetes" in out


def test_it_is_applied_described_scaled_and_deleted_like_others(tubes: Any) -> None:
    _, manifest = TUBES.split("---")
    assert tubes("apply", "-f", "-", stdin=manifest).out == "tube.example.com/t1 unchanged\n"
    changed = manifest.replace("red, list: [a, b]", "blue")
    assert tubes("apply", "-f", "-", stdin=changed).out == "tube.example.com/t1 configured\n"
    found = json.loads(tubes("get", "tube/t1", "-o", "json").out)
    assert found["spec"] == {"colour": "blue"}
    described = tubes("describe", "tube", "t1").out
    assert "Kind:             Tube" in described
    assert "colour: blue" in described
    assert tubes("scale", "tube/t1", "--replicas=2").out == "tube.example.com/t1 scaled\n"
    assert tubes("events", "--for", "tube/t1").err == "No events found.\n"
    deleted = tubes("delete", "-f", "-", stdin=manifest)
    assert deleted.out == 'tube.example.com "t1" deleted from default namespace\n'
    assert tubes("get", "tubes").err == "No resources found in default namespace.\n"


def test_a_list_of_others_is_a_list_that_apply_takes(tubes: Any) -> None:
    many = tubes("get", "tubes,cm", "-o", "json").out
    assert json.loads(many)["items"][0]["kind"] == "Tube"
    again = tubes("apply", "-f", "-", stdin=many)
    assert "tube.example.com/t1 " in again.out


def test_a_kind_in_another_version_is_written_in_that_version(sheepctl: Any) -> None:
    scaler = {
        "apiVersion": "autoscaling/v1",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {
            "maxReplicas": 3,
            "targetCPUUtilizationPercentage": 70,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        },
    }
    applied = sheepctl("apply", "-f", "-", stdin=json.dumps(scaler))
    assert applied.out == "horizontalpodautoscaler.autoscaling/web created\n"
    path = "{.spec.metrics[0].resource.target.averageUtilization}"
    assert sheepctl("get", "hpa", "web", "-o", f"jsonpath={path}").out == "70"


def test_what_nobody_defines_is_told(sheepctl: Any) -> None:
    _, manifest = TUBES.split("---")
    result = sheepctl("apply", "-f", "-", stdin=manifest)
    assert result.code == 1
    assert "Tube of example.com/v1 is not a kind that this cluster has" in result.err
    assert sheepctl("get", "tubes").code == 2
    assert sheepctl("delete", "tube/t1").code == 2


def test_labels_are_set_and_removed_of_any_kind(tubes: Any) -> None:
    assert tubes("label", "tube/t1", "cm/kube-root-ca.crt", "b=2").code == 1  # there is no such cm
    assert tubes("label", "tube", "t1", "app-", "c=3").out == "tube.example.com/t1 labeled\n"
    assert tubes("get", "tube", "-l", "b=2,c=3,!app", "-o", "name").out == "tube.example.com/t1\n"
    taken = tubes("label", "tube/t1", "c=4")
    message = "tube.example.com/t1 has c=3 already: --overwrite changes that"
    assert (taken.code, taken.err) == (1, f"sheepctl: {message}\n")
    assert tubes("label", "tube/t1", "c=4", "--overwrite").code == 0
    assert tubes("label", "tube/t1").code == 2
    assert tubes("label", "tubes", "a=b").code == 2


# -- jsonpath ----------------------------------------------------------------------------------

PODS = {
    "items": [
        {"metadata": {"name": "a", "labels": {"x": "1"}}, "spec": {"n": 1, "on": True}},
        {"metadata": {"name": "b"}, "spec": {"n": 2.5, "none": None}},
    ]
}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("{.items[*].metadata.name}", "a b"),
        ("{.items[0].metadata.labels}", '{"x":"1"}'),
        ('{range .items[*]}{.metadata.name}{"\\t"}{.spec.n}{"\\n"}{end}', "a\t1\nb\t2.5\n"),
        ("{range .items[*]}[{@.metadata.name}]{end}", "[a][b]"),
        ("{range .items[*]}{$.items[0].metadata.name}{end}", "aa"),
        ('{.items[?(@.metadata.name=="b")].spec.n}', "2.5"),
        ("first: {.items[0].spec.on}, none: {.items[1].spec.none}.", "first: true, none: ."),
        ("{.nothing}", ""),
        ("{'it''s'}", "it''s"),
        ("plain", "plain"),
    ],
)
def test_a_template_is_filled(text: str, shown: str) -> None:
    assert template(text)(PODS) == shown


@pytest.mark.parametrize("text", ["{.a", "{range .a}", "{end}", "{a}", '{"\\q"}', "{.a[?(x)]}"])
def test_a_template_that_cannot_be_read_is_told(text: str) -> None:
    with pytest.raises(Usage, match="jsonpath: "):
        template(text)
