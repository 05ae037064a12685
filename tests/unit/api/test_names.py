"""Names as upstream accepts them, and its messages."""

import pytest

from shepherd.api.names import (
    check_name,
    config_key,
    dns1035_label,
    dns1123_label,
    dns1123_subdomain,
    env_name,
    label_value,
    path_segment,
    port_name,
    qualified_name,
)


@pytest.mark.parametrize("name", ["a", "web-1", "1a", "a" * 63])
def test_labels(name: str) -> None:
    assert dns1123_label(name) == []


def test_label_messages() -> None:
    assert dns1123_label("a.b") == ["must not contain dots"]
    assert dns1123_label("Web") == [
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
        "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex "
        "used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
    ]
    assert dns1123_label("a" * 64) == ["must be no more than 63 bytes"]
    assert dns1123_label("a\n")


def test_subdomains() -> None:
    assert dns1123_subdomain("web.example.com") == []
    for bad in ["", "-a", "a-", "a..b", "a_b", ".a", "a" * 254, "é"]:
        assert dns1123_subdomain(bad), bad


def test_services_start_with_a_letter() -> None:
    assert dns1035_label("web") == []
    assert dns1035_label("1web")


def test_path_segments() -> None:
    assert path_segment("system:node") == []
    assert path_segment("..") == ["may not be '..'"]
    assert path_segment("a/b%c") == ["may not contain '/'", "may not contain '%'"]


def test_label_keys_and_values() -> None:
    assert qualified_name("app.kubernetes.io/name") == []
    assert qualified_name("Name_1") == []
    for bad in ["", "a/", "/a", "a/b/c", "_a", "A.B/c", "a" * 64]:
        assert qualified_name(bad), bad
    assert qualified_name("/a") == ["prefix part must be non-empty"]
    assert label_value("") == []
    assert label_value("v1.2_x") == []
    assert label_value("a b")


def test_other_names() -> None:
    assert config_key("app.properties") == []
    assert config_key("..") == ["must not be '..'"]
    assert config_key("a/b")
    assert env_name("MY.var-1") == []
    assert env_name("a=b")
    assert port_name("http-2") == []
    assert port_name("8080") == ["must contain at least one letter (a-z)"]
    assert port_name("a--b-") == [
        "must not contain consecutive hyphens",
        "must not begin or end with a hyphen",
    ]


def test_a_generate_name_may_end_with_a_dash() -> None:
    assert check_name("dns1123label", "web-", prefix=True) == []
    assert check_name("dns1123label", "web-")
