"""What a pod's spec refers to: the ConfigMaps and Secrets that must be at hand to run it. Pure."""

from dataclasses import dataclass
from typing import Protocol

from shepherd.agent.pod_state import BoundPod
from shepherd.api.kinds import CONFIG_MAP, SECRET


class UnresolvedError(Exception):
    """A pod refers to something that is not there; the message is for the pod's user."""


@dataclass(frozen=True, slots=True, order=True)
class Reference:
    """An object that a pod needs: `kind` is ConfigMap or Secret."""

    kind: str
    namespace: str
    name: str


Values = dict[str, bytes]
Lookup = dict[Reference, Values | None]
"""What references resolve to now; None: there is no such object."""


def references(pod: BoundPod) -> set[Reference]:
    """Every ConfigMap and Secret that the pod's spec names in env, volumes and pull secrets."""
    spec = pod.spec
    names: set[tuple[str, str]] = {(SECRET.kind, s.name) for s in spec.image_pull_secrets}
    for container in spec.everyone:
        for source in container.env_from:
            names |= _named(source.config_map_ref, source.secret_ref)
        for variable in container.env:
            if origin := variable.value_from:
                names |= _named(origin.config_map_key_ref, origin.secret_key_ref)
    for volume in spec.volumes:
        names |= _named(volume.config_map, None)
        if volume.secret:
            names.add((SECRET.kind, volume.secret.secret_name))
        for projection in volume.projected.sources if volume.projected else ():
            names |= _named(projection.config_map, projection.secret)
    return {Reference(kind, pod.metadata.namespace, name) for kind, name in names if name}


class _Named(Protocol):
    @property
    def name(self) -> str: ...


def _named(config_map: _Named | None, secret: _Named | None) -> set[tuple[str, str]]:
    pairs = ((CONFIG_MAP.kind, config_map), (SECRET.kind, secret))
    return {(kind, source.name) for kind, source in pairs if source is not None}
