"""Sets of completion indexes."""

import pytest

from shepherd.api.indexes import Indexes


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([], ""),
        ([3], "3"),
        ([1, 2], "1,2"),
        ([1, 2, 3, 5, 7, 8], "1-3,5,7,8"),
        ([9, 0, 1, 2, 10, 11], "0-2,9-11"),
    ],
)
def test_text_and_back(numbers: list[int], text: str) -> None:
    found = Indexes.of(numbers)
    assert str(found) == text
    assert Indexes.parse(text) == found
    assert found.total == len(numbers)
    assert [n for n in range(15) if n in found] == sorted(numbers)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a", 'cannot convert string to integer for index: "a"'.replace('"', "'")),
        ("1,,2", "cannot convert string to integer for index: ''"),
        ("3,1", "non-increasing order, previous: 3, current: 1"),
        ("4-4", "non-increasing order, previous: 4, current: 4"),
        ("1-5,3", "non-increasing order, previous: 5, current: 3"),
        ("1-2-3", "cannot convert string to integer for index: '2-3'"),
    ],
)
def test_what_is_none(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Indexes.parse(text)


def test_sets_are_joined_cut_and_compared_however_large() -> None:
    huge = Indexes.parse("5-999999999")
    assert (Indexes.parse("0-2,4") | huge).spans == (range(3), range(4, 1_000_000_000))
    assert str(huge.below(8)) == "5-7"
    assert str(huge.below(3)) == ""
    assert huge.common(Indexes.parse("1-6,8")) == 3
    assert list(Indexes.parse("1,3-4").missing(7)) == [0, 2, 5, 6]
    assert list(Indexes().missing(2)) == [0, 1]
