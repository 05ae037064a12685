"""JSON merge patch and JSON patch: the RFCs' own examples, and what must be refused."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd.api.errors import ApiError
from shepherd.api.patch import json_patch, merge_patch

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=1), inner),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch(target: Any, patch: Any, result: Any) -> None:
    before = deepcopy((target, patch))
    assert merge_patch(target, patch) == result
    assert (target, patch) == before


@pytest.mark.parametrize(
    ("target", "operations", "result"),
    [
        ({"a": 1}, [{"op": "add", "path": "/b", "value": 2}], {"a": 1, "b": 2}),
        ({"a": [1, 3]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2, 3]}),
        ({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}], {"a": [1, 2]}),
        ({"a": 1, "b": 2}, [{"op": "remove", "path": "/a"}], {"b": 2}),
        ({"a": [1, 2]}, [{"op": "remove", "path": "/a/0"}], {"a": [2]}),
        ({"a": 1}, [{"op": "replace", "path": "/a", "value": None}], {"a": None}),
        ({"a": {"b": 1}}, [{"op": "move", "from": "/a/b", "path": "/c"}], {"a": {}, "c": 1}),
        ({"a": {"b": 1}}, [{"op": "copy", "from": "/a", "path": "/c"}],
         {"a": {"b": 1}, "c": {"b": 1}}),
        ({"a/b": {"~": 1}}, [{"op": "replace", "path": "/a~1b/~0", "value": 2}], {"a/b": {"~": 2}}),
        ({"a": 1}, [{"op": "test", "path": "/a", "value": 1.0}], {"a": 1}),
        ({"a": 1}, [{"op": "replace", "path": "", "value": {"b": 1}}], {"b": 1}),
    ],
)  # fmt: skip
def test_json_patch(target: Any, operations: Any, result: Any) -> None:
    before = deepcopy((target, operations))
    assert json_patch(target, operations) == result
    assert (target, operations) == before


@pytest.mark.parametrize(
    ("operations", "code"),
    [
        ({}, 400),
        ([1], 400),
        ([{"op": "add", "value": 1}], 400),
        ([{"op": "add", "path": "b", "value": 1}], 400),
        ([{"op": "add", "path": "/b"}], 400),
        ([{"op": "jump", "path": "/b"}], 400),
        ([{"op": "move", "path": "/b"}], 400),
        ([{"op": "test", "path": "/a", "value": True}], 422),
        ([{"op": "test", "path": "/b", "value": None}], 422),
        ([{"op": "remove", "path": "/b"}], 422),
        ([{"op": "replace", "path": "/b", "value": 1}], 422),
        ([{"op": "add", "path": "/x/y", "value": 1}], 422),
        ([{"op": "add", "path": "/list/3", "value": 1}], 422),
        ([{"op": "add", "path": "/list/01", "value": 1}], 422),
        ([{"op": "remove", "path": "/list/-"}], 422),
        ([{"op": "remove", "path": ""}], 422),
        ([{"op": "move", "from": "/o", "path": "/o/p"}], 422),
        ([{"op": "test", "path": "/a", "value": 1}] * 10_001, 413),
        ([{"op": "copy", "from": "/list", "path": "/list/-"}] * 40, 413),
    ],
)
def test_json_patches_that_do_not_fit(operations: Any, code: int) -> None:
    target = {"a": 1, "list": ["x" * 1000], "o": {}}
    with pytest.raises(ApiError) as caught:
        json_patch(target, operations)
    assert caught.value.code == code
    assert target == {"a": 1, "list": ["x" * 1000], "o": {}}


@given(JSON, JSON)
def test_a_merge_patch_is_idempotent(target: Any, patch: Any) -> None:
    once = merge_patch(target, patch)
    assert merge_patch(once, patch) == once
