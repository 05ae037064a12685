import pytest

from shepherd.runtime.base import SheepError
from shepherd.runtime.oci.references import parse

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("nginx", "docker.io/library/nginx:latest"),
        ("nginx:1.27", "docker.io/library/nginx:1.27"),
        ("team/app", "docker.io/team/app:latest"),
        ("docker.io/nginx", "docker.io/library/nginx:latest"),
        ("registry.k8s.io/pause:3.9", "registry.k8s.io/pause:3.9"),
        ("localhost/app", "localhost/app:latest"),
        ("localhost:5000/app:2", "localhost:5000/app:2"),
        ("[::1]:5000/app", "[::1]:5000/app:latest"),
        (f"nginx@{DIGEST}", f"docker.io/library/nginx@{DIGEST}"),
        (f"ghcr.io/a/b__c.d-e:1@{DIGEST}", f"ghcr.io/a/b__c.d-e@{DIGEST}"),
    ],
)
def test_a_reference_has_one_normal_form(text: str, normal: str) -> None:
    assert str(parse(text)) == normal


@pytest.mark.parametrize(
    "text",
    ["", "Nginx", "nginx:", "nginx:-x", "a//b", "a b", "nginx@sha256:12", "nginx@", "-a", "a/../b"],
)
def test_what_is_no_reference_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(SheepError, match="invalid reference format") as refused:
        parse(text)
    assert refused.value.reason == "InvalidImageName"
    assert f'"{text}"' in refused.value.message
