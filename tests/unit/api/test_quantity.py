"""Quantities: exact amounts, canonical text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd.api.quantity import (
    Quantity,
    QuantityError,
    canonical,
    millis,
    parse_quantity,
    whole,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("0", "0"), ("100m", "100m"), ("1000m", "1"), ("0.5", "500m"), ("1.5Gi", "1536Mi"),
        ("1024Mi", "1Gi"), ("1025Mi", "1025Mi"), ("512", "512"), ("0.5Ki", "512"), ("1Ki", "1Ki"),
        ("0.1Gi", "107374182400m"), ("1e3", "1e3"), ("1E4", "10e3"), ("12e6", "12e6"),
        ("10000", "10k"), ("1.1", "1100m"), ("-1500m", "-1500m"), ("+5", "5"),
        ("0.0000000001", "1n"), ("2E", "2E"), ("100000E", "100000E"),
        ("100Ei", "9223372036854775807"), ("1.", "1"),
        (".5", "500m"), ("1e-3", "1e-3"), ("128974848", "128974848"), ("5u", "5u"), ("05", "5"),
    ],
)  # fmt: skip
def test_canonical_form(text: str, shown: str) -> None:
    assert canonical(text) == shown
    assert parse_quantity(shown) == parse_quantity(text)
    assert canonical(shown) == shown


@pytest.mark.parametrize(
    "text",
    ["", "a", "1x", "1 ", "1.2.3", "1Mi5", "--1", "1e", "e3", "1e999999999", "9" * 5000, "٣"],
)
def test_what_is_no_quantity(text: str) -> None:
    with pytest.raises(QuantityError):
        parse_quantity(text)


def test_numbers_and_units() -> None:
    assert canonical(2) == "2"
    assert canonical(0.25) == "250m"
    assert millis("1.0001") == 1001
    assert millis("250m") == 250
    assert whole("1.5Gi") == 1536 * 1024 * 1024
    assert whole("100m") == 1


def test_order_and_sums() -> None:
    assert parse_quantity("1Gi") > parse_quantity("1G")
    assert parse_quantity("1000m") == parse_quantity("1")
    assert str(parse_quantity("1Gi") + parse_quantity("1Gi")) == "2Gi"
    assert str(parse_quantity("1") - parse_quantity("100m")) == "900m"
    assert str(Quantity(0) + parse_quantity("1Mi")) == "1Mi"


@given(st.text("0123456789.+-eEinumkKMGTP", max_size=12))
def test_any_text_is_refused_or_round_trips(text: str) -> None:
    try:
        found = parse_quantity(text)
    except QuantityError:
        return
    assert parse_quantity(str(found)) == found
