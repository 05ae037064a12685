"""`Settings`: how clients of other people's making reach a cluster."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shepherd.client.kubeconfig import Kubeconfig, write_kubeconfig


@dataclass(frozen=True, slots=True)
class Settings:
    """One kubeconfig, and what it says as arguments for client libraries."""

    kubeconfig: Path
    context: Kubeconfig

    @classmethod
    def write(cls, path: Path, context: Kubeconfig) -> "Settings":
        """With a kubeconfig file of its own at `path`."""
        write_kubeconfig(path, context)
        return cls(path, context)

    @property
    def url(self) -> str:
        """Where the API is."""
        return self.context.server

    @property
    def namespace(self) -> str:
        """That of whoever names none."""
        return self.context.namespace

    @property
    def environment(self) -> dict[str, str]:
        """For kubectl, Helm, kopf and all that read KUBECONFIG."""
        return {"KUBECONFIG": str(self.kubeconfig)}

    @property
    def httpx(self) -> dict[str, Any]:
        """`httpx.Client(**settings.httpx)`."""
        return {"base_url": self.url, "verify": self.context.ssl_context() or True}

    @property
    def kr8s(self) -> dict[str, Any]:
        """`kr8s.api(**settings.kr8s)`."""
        return {"kubeconfig": str(self.kubeconfig), "namespace": self.namespace}

    @property
    def kubernetes(self) -> dict[str, Any]:
        """`kubernetes.config.new_client_from_config(**settings.kubernetes)`."""
        return {"config_file": str(self.kubeconfig)}
