"""Kubeconfig files: where the server is, whom to trust and who we are.

Source: Kubernetes documentation, "Organizing Cluster Access Using kubeconfig Files".
"""

import base64
import binascii
import ssl
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from shepherd.lib.files import write_private


class KubeconfigError(Exception):
    """The file cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """One context of a kubeconfig, with every file that it refers to read in."""

    server: str
    namespace: str = "default"
    ca: str = ""
    """The CA to trust, in PEM; empty = the system's."""
    certificate: str = ""
    key: str = ""
    """The client certificate and its key, in PEM."""
    token: str = ""
    insecure: bool = False
    """Do not verify the server's certificate."""

    def ssl_context(self) -> ssl.SSLContext | None:
        """TLS as this context wants it; None for plain HTTP. Raises KubeconfigError."""
        if not self.server.startswith("https:"):
            return None
        try:
            context = ssl.create_default_context(cadata=self.ca or None)
            if self.insecure:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            if self.certificate:
                _load_identity(context, self.certificate + self.key)
        except ssl.SSLError as error:
            raise KubeconfigError(f"bad certificate or key: {error}") from error
        return context


def write_kubeconfig(path: Path, config: Kubeconfig, *, name: str = "shepherd") -> bool:
    """Write a file of one context, readable by its owner only; False = it was so already.

    A namespace that a user has set there since stays.
    """
    text = _rendered(config, name)
    present = path.read_text() if path.exists() else ""
    if present not in ("", text):
        config = replace(config, namespace=_namespace(path, name) or config.namespace)
        text = _rendered(config, name)
    if present == text and path.stat().st_mode & 0o777 == 0o600:
        return False
    write_private(path, text)
    return True


def _namespace(path: Path, name: str) -> str:
    """That of a context; empty if the file cannot be read."""
    try:
        return read_kubeconfig([path], name).namespace
    except KubeconfigError:
        return ""


def _rendered(config: Kubeconfig, name: str) -> str:
    user = {
        "client-certificate-data": _data(config.certificate),
        "client-key-data": _data(config.key),
        "token": config.token,
    }
    lines = [
        "apiVersion: v1",
        "kind: Config",
        f"current-context: {name}",
        "contexts:",
        f"- name: {name}",
        f"  context: {{cluster: {name}, user: {name}, namespace: {config.namespace}}}",
        "clusters:",
        f"- name: {name}",
        "  cluster:",
        f"    server: {config.server}",
        *([f"    certificate-authority-data: {_data(config.ca)}"] if config.ca else []),
        "users:",
        f"- name: {name}",
        "  user:" if any(user.values()) else "  user: {}",
        *(f"    {field}: {value}" for field, value in user.items() if value),
    ]
    return "\n".join(lines) + "\n"


def read_kubeconfig(paths: Iterable[Path], context: str = "") -> Kubeconfig:
    """The named (or the current) context of some files; of equal names the first counts.

    Files that do not exist are passed over, as kubectl does. Raises KubeconfigError.
    """
    paths = tuple(paths)
    documents = [(path.parent, _parse(path)) for path in paths if path.exists()]
    shown = ", ".join(str(path) for path in paths)
    if not documents:
        raise KubeconfigError(f"no kubeconfig at {shown}: set KUBECONFIG or use --kubeconfig")
    current = (document.get("current-context") for _, document in documents)
    context = context or next((str(name) for name in current if name), "")
    if not context:
        raise KubeconfigError(f"{shown} has no current-context")
    chosen, _ = _find(documents, "context", context)
    cluster, beside_cluster = _find(documents, "cluster", str(chosen.get("cluster")))
    user, beside_user = _find(documents, "user", str(chosen.get("user")))
    if not cluster.get("server"):
        raise KubeconfigError(f"cluster {chosen.get('cluster')!r} in {shown} has no server")
    for unsupported in ("exec", "auth-provider"):
        if unsupported in user:
            raise KubeconfigError(
                f"user {chosen.get('user')!r} logs in by {unsupported}, which is not supported: "
                "use a client certificate or a token"
            )
    return Kubeconfig(
        server=str(cluster["server"]),
        namespace=str(chosen.get("namespace") or "default"),
        ca=_text(cluster, "certificate-authority", beside_cluster),
        certificate=_text(user, "client-certificate", beside_user),
        key=_text(user, "client-key", beside_user),
        token=_token(user, beside_user),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
    )


def _parse(path: Path) -> dict[str, Any]:
    import yaml

    try:
        document = yaml.safe_load(path.read_text())
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        raise KubeconfigError(f"cannot read {path}: {error}") from error
    if not isinstance(document, dict):
        raise KubeconfigError(f"{path} is not a kubeconfig")
    return document


def _find(
    documents: list[tuple[Path, dict[str, Any]]], kind: str, name: str
) -> tuple[dict[str, Any], Path]:
    """The entry of that name, and the directory that its paths are relative to."""
    for directory, document in documents:
        for entry in document.get(f"{kind}s") or ():
            if isinstance(entry, dict) and entry.get("name") == name:
                return entry.get(kind) or {}, directory
    raise KubeconfigError(f"the kubeconfig has no {kind} {name!r}")


def _text(entry: dict[str, Any], field: str, directory: Path) -> str:
    """A field that is embedded (`<field>-data`) or names a file."""
    if data := entry.get(f"{field}-data"):
        try:
            return base64.b64decode(data).decode()
        except (binascii.Error, UnicodeDecodeError, TypeError) as error:
            raise KubeconfigError(f"{field}-data is not base64: {error}") from error
    return _file(directory, entry[field]) if entry.get(field) else ""


def _token(user: dict[str, Any], directory: Path) -> str:
    if user.get("tokenFile"):
        return _file(directory, user["tokenFile"]).strip()
    return str(user.get("token") or "")


def _file(directory: Path, name: str) -> str:
    try:
        return (directory / name).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise KubeconfigError(f"cannot read {directory / name}: {error}") from error


def _data(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _load_identity(context: ssl.SSLContext, bundle: str) -> None:
    # `ssl` takes certificates and keys only from files.
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(bundle)
        file.flush()
        context.load_cert_chain(file.name)
