import pytest

from shepherd.runtime.oci.registries import Registries


@pytest.mark.parametrize(
    ("registry", "expected"),
    [
        ("docker.io", ["https://mirror.example", "https://registry-1.docker.io"]),
        ("quay.io", ["https://quay.io"]),
        ("old.example:5000", ["http://old.example:5000"]),
        ("localhost:5000", ["http://localhost:5000"]),
        ("127.0.0.1", ["http://127.0.0.1"]),
        ("[::1]:5000", ["http://[::1]:5000"]),
    ],
)
def test_mirrors_come_first_and_loopback_needs_no_tls(registry: str, expected: list[str]) -> None:
    registries = Registries(
        mirrors={"docker.io": ("mirror.example",)}, insecure=frozenset({"old.example:5000"})
    )
    assert registries.endpoints(registry) == expected
