"""Where images come from: mirrors, and registries that speak plain HTTP."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Registries:
    """The node's registry configuration."""

    mirrors: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Registry name to the hosts to ask first, in order."""
    insecure: frozenset[str] = frozenset()
    """Hosts that are asked by plain HTTP. Loopback hosts always are."""

    def endpoints(self, registry: str) -> list[str]:
        """The base URLs to try for a registry, in order."""
        own = "registry-1.docker.io" if registry == "docker.io" else registry
        return [self._url(host) for host in (*self.mirrors.get(registry, ()), own)]

    def _url(self, host: str) -> str:
        name = host.rpartition(":")[0] if ":" in host and not host.endswith("]") else host
        local = name in ("localhost", "[::1]") or name.startswith("127.")
        return f"{'http' if local or host in self.insecure else 'https'}://{host}"
