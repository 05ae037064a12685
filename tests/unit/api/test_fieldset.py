"""Sets of fields: the algebra on trees is that on the sets of paths which they denote."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd.api.fieldset import (
    FieldSet,
    Path,
    difference,
    intersection,
    outside,
    path_text,
    paths,
    read,
    union,
)


def tree(members: set[Path]) -> FieldSet:
    top: FieldSet = {}
    for path in members:
        place = top
        for element in path:
            place = place.setdefault(element, {})
        place["."] = {}
    return read(top)


_ELEMENTS = st.sampled_from(["f:a", "f:b", 'k:{"n":1}'])
_SETS = st.sets(st.lists(_ELEMENTS, min_size=1, max_size=3).map(tuple), max_size=6)


@given(_SETS)
def test_a_tree_denotes_its_paths(a: set[Path]) -> None:
    assert set(paths(tree(a))) == a


@given(_SETS, _SETS)
def test_the_algebra_is_that_of_sets(a: set[Path], b: set[Path]) -> None:
    assert set(paths(union(tree(a), tree(b)))) == a | b
    assert set(paths(difference(tree(a), tree(b)))) == a - b
    assert set(paths(intersection(tree(a), tree(b)))) == a & b
    present = {path[:length] for path in b for length in range(1, len(path) + 1)}
    assert set(paths(outside(tree(a), tree(b)))) == a - present


@given(_SETS, _SETS)
def test_results_are_in_the_form_that_is_stored(a: set[Path], b: set[Path]) -> None:
    for found in (union(tree(a), tree(b)), difference(tree(a), tree(b))):
        assert found == tree(set(paths(found)))
        assert read(found) == found


@pytest.mark.parametrize("encoded", [{"x": {}}, {"f:a": 1}, {"f:a": {"b": {}}}, {"k:1": {}}, []])
def test_malformed_sets(encoded: Any) -> None:
    with pytest.raises(ValueError, match="fieldsV1"):
        read(encoded)


def test_paths_as_conflicts_show_them() -> None:
    path = ("f:spec", 'k:{"containerPort":80,"protocol":"TCP"}', 'v:"x"', "i:2", "f:name")
    assert path_text(path) == '.spec[containerPort=80,protocol="TCP"][="x"][2].name'
