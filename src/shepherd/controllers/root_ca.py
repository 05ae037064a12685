"""Root CA: every namespace has the cluster's CA certificate, so that its pods can trust the API.

Source: kubernetes pkg/controller/certificates/rootcacertpublisher.
"""

from shepherd.api.kinds import CONFIG_MAP
from shepherd.client.informer import PartialObject
from shepherd.client.workqueue import WorkQueue
from shepherd.client.writer import Writer
from shepherd.controllers.informers import Informers
from shepherd.controllers.namespace import on_namespaces

CONFIG_MAP_NAME = "kube-root-ca.crt"
_DESCRIPTION = {
    "kubernetes.io/description": "Contains a CA bundle that can be used to verify the "
    "kube-apiserver when using internal endpoints such as the internal service IP or "
    "kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
}


class RootCaPublisher:
    """Writes the ConfigMap, and writes it again if somebody changes or deletes it."""

    name = "root-ca-certificate-publisher"

    def __init__(
        self, informers: Informers, config_maps: Writer[PartialObject], *, ca: str
    ) -> None:
        self._informers = informers
        self._config_maps = config_maps
        self._data = {"ca.crt": ca}
        self._checked: dict[str, str] = {}
        """Namespace -> resourceVersion of a ConfigMap that was found right."""

    def connect(self, queue: WorkQueue) -> None:
        def map_changed(old: PartialObject | None, new: PartialObject | None) -> None:
            meta = (new or old or PartialObject()).metadata
            if meta.name == CONFIG_MAP_NAME:
                queue.add(meta.namespace)

        on_namespaces(self._informers, queue)
        self._informers.config_maps.on_change(map_changed)

    async def reconcile(self, key: str) -> float | None:
        namespace = self._informers.namespaces.get(key)
        if namespace is None or namespace.metadata.deletion_timestamp:
            self._checked.pop(key, None)
            return None
        present = self._informers.config_maps.get(f"{key}/{CONFIG_MAP_NAME}")
        if present is None:
            meta = {"name": CONFIG_MAP_NAME, "namespace": key, "annotations": _DESCRIPTION}
            present = await self._config_maps.create({"metadata": meta, "data": self._data})
        elif self._checked.get(key) != present.metadata.resource_version:
            live = await self._config_maps.client.get(CONFIG_MAP, CONFIG_MAP_NAME, key)
            if live.get("data") != self._data:
                dropped = dict.fromkeys((live.get("data") or {}).keys() - self._data.keys())
                patch = {"data": self._data | dropped}
                present = await self._config_maps.patch(present.metadata, patch)
        self._checked[key] = present.metadata.resource_version
        return None
