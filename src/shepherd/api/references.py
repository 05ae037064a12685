"""What a pod's spec refers to: the objects that must be at hand to run it."""

from dataclasses import dataclass
from typing import Protocol

from shepherd.api.kinds import CONFIG_MAP, SECRET
from shepherd.api.objects.meta import ObjectMeta
from shepherd.api.objects.pod import PodSpec


@dataclass(frozen=True, slots=True, order=True)
class Reference:
    """An object that a pod needs: `kind` is ConfigMap or Secret."""

    kind: str
    namespace: str
    name: str


class _Pod(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...

    @property
    def spec(self) -> PodSpec: ...


def references(pod: _Pod) -> set[Reference]:
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
