"""Kubeconfig files, ours and others'."""

import ssl
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from shepherd.client.kubeconfig import (
    Kubeconfig,
    KubeconfigError,
    read_kubeconfig,
    write_kubeconfig,
)

OURS = Kubeconfig("https://127.0.0.1:9876", ca="the ca\n", certificate="cert\n", key="key\n")


def test_what_is_written_is_read_back_and_private(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    assert write_kubeconfig(path, OURS)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_kubeconfig([path]) == OURS


def test_it_is_rewritten_only_when_something_changed(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    write_kubeconfig(path, OURS)
    assert not write_kubeconfig(path, OURS)
    moved = Kubeconfig("https://192.0.2.1:9876", ca=OURS.ca, token="t")
    assert write_kubeconfig(path, moved)
    assert read_kubeconfig([path]) == moved
    path.chmod(0o644)
    assert write_kubeconfig(path, moved)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_namespace_that_a_user_has_set_stays(tmp_path: Path) -> None:
    """As by `kubectl config set-context --current --namespace=shop`."""
    path = tmp_path / "kubeconfig"
    write_kubeconfig(path, OURS)
    path.write_text(path.read_text().replace("namespace: default", "namespace: shop"))
    moved = replace(OURS, server="https://192.0.2.1:9876")
    assert write_kubeconfig(path, moved)
    assert read_kubeconfig([path]) == replace(moved, namespace="shop")
    assert not write_kubeconfig(path, moved)


@pytest.mark.parametrize("broken", ["{", "kind: Config", "[]"])
def test_a_file_that_cannot_be_read_is_written_anew(tmp_path: Path, broken: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(broken)
    assert write_kubeconfig(path, OURS)
    assert read_kubeconfig([path]) == OURS


def test_a_server_without_tls_or_user(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    write_kubeconfig(path, Kubeconfig("http://127.0.0.1:1"))
    config = read_kubeconfig([path])
    assert config == Kubeconfig("http://127.0.0.1:1")
    assert config.ssl_context() is None


OTHERS = """
apiVersion: v1
kind: Config
current-context: one
contexts:
- {name: one, context: {cluster: c, user: u, namespace: shop}}
- {name: two, context: {cluster: c, user: v}}
- {name: three, context: {cluster: c, user: w}}
clusters:
- {name: c, cluster: {server: "https://example.com", certificate-authority: ca.pem}}
users:
- {name: u, user: {client-certificate: u.pem, client-key: u.key}}
- {name: v, user: {tokenFile: token}}
- {name: w, user: {exec: {command: aws}}}
"""


@pytest.fixture
def others(tmp_path: Path) -> Path:
    for name in ("ca.pem", "u.pem", "u.key", "token"):
        (tmp_path / name).write_text(f"text of {name}\n")
    path = tmp_path / "config"
    path.write_text(OTHERS)
    return path


def test_files_beside_the_kubeconfig_are_read_in(others: Path) -> None:
    config = read_kubeconfig([others])
    assert (config.server, config.namespace) == ("https://example.com", "shop")
    assert (config.ca, config.certificate, config.key) == (
        "text of ca.pem\n",
        "text of u.pem\n",
        "text of u.key\n",
    )
    assert read_kubeconfig([others], "two").token == "text of token"


def test_of_several_files_the_first_counts(others: Path, tmp_path: Path) -> None:
    first = tmp_path / "first"
    first.write_text("current-context: two\nusers:\n- {name: v, user: {token: mine}}\n")
    config = read_kubeconfig([tmp_path / "missing", first, others])
    assert (config.server, config.token) == ("https://example.com", "mine")


@pytest.mark.parametrize(
    ("text", "context", "said"),
    [
        (OTHERS, "none", "no context 'none'"),
        (OTHERS, "three", "by exec"),
        ("{}", "", "no current-context"),
        ("[1]", "", "not a kubeconfig"),
        ("a: [", "", "cannot read"),
        (OTHERS.replace("ca.pem", "lost.pem"), "", "lost.pem"),
        (OTHERS.replace("certificate-authority:", "certificate-authority-data:"), "", "base64"),
        (OTHERS.replace("server:", "host:"), "", "no server"),
    ],
)
def test_what_is_wrong_is_said(others: Path, text: str, context: str, said: str) -> None:
    others.write_text(text)
    with pytest.raises(KubeconfigError, match=said):
        read_kubeconfig([others], context)


def test_no_file_at_all_says_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="nothing-here"):
        read_kubeconfig([tmp_path / "nothing-here"])


def test_tls_is_verified_unless_the_file_says_otherwise() -> None:
    context = Kubeconfig("https://x").ssl_context()
    assert context
    assert context.verify_mode == ssl.CERT_REQUIRED
    context = Kubeconfig("https://x", insecure=True).ssl_context()
    assert context
    assert context.verify_mode == ssl.CERT_NONE
    with pytest.raises(KubeconfigError, match="bad certificate"):
        Kubeconfig("https://x", certificate="nonsense").ssl_context()
