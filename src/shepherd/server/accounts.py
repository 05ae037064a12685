"""The ServiceAccount admission plugin: a pod runs as some account, and can prove it to the API.

Source: kubernetes plugin/pkg/admission/serviceaccount.
"""

from random import Random

from shepherd.api import errors
from shepherd.api.kinds import POD, SERVICE_ACCOUNT
from shepherd.api.meta import object_key
from shepherd.api.resource import Object
from shepherd.lib.clock import Clock
from shepherd.lib.ids import name_suffix
from shepherd.server.codec import decode
from shepherd.server.metadata import asked_name
from shepherd.store.base import Store

DEFAULT = "default"
MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
_VOLUME = "kube-api-access-"
_TOKEN_SECONDS = 3607
"""By the seven, upstream tells these tokens from those that users asked for."""
_ATTEMPTS, _PAUSE_SECONDS = 10, 0.1
"""How the default account of a new namespace, which a controller makes, is waited for."""


class PodAccounts:
    """With `tokens`, pods get the volume with their account's token, unless they do not want it."""

    def __init__(self, store: Store, clock: Clock, random: Random, *, tokens: bool) -> None:
        self._store = store
        self._clock = clock
        self._random = random
        self._tokens = tokens

    async def admit(self, pod: Object, namespace: str) -> None:
        """Rewrites the pod. Raises ApiError 403 when there is no such account."""
        if not self._tokens:
            return
        spec = pod["spec"]
        name = spec["serviceAccountName"]
        account = await self._account(namespace, name)
        if account is None:
            detail = (
                f"error looking up service account {namespace}/{name}: "
                f'serviceaccount "{name}" not found'
            )
            raise errors.forbidden("", POD.plural, asked_name(pod["metadata"]), detail)
        if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
            spec["imagePullSecrets"] = account["imagePullSecrets"]
        if automounts(spec, account):
            mount_token(spec, _VOLUME + name_suffix(self._random))

    async def _account(self, namespace: str, name: str) -> Object | None:
        key = object_key(SERVICE_ACCOUNT, namespace, name)
        for attempt in range(_ATTEMPTS if name == DEFAULT else 1):
            if attempt:
                await self._clock.sleep(_PAUSE_SECONDS)
            if item := await self._store.get(key):
                return decode(item.value)
        return None


def automounts(spec: Object, account: Object) -> bool:
    """What the pod says, else what its account says, else yes."""
    for said in (spec, account):
        wanted = said.get("automountServiceAccountToken")
        if wanted is not None:
            return bool(wanted)
    return True


def mount_token(spec: Object, name: str) -> None:
    """Give the pod a volume `name` with token, CA and namespace, and each container a mount of it
    that has nothing of its own there; a volume of that kind that it brings is taken instead."""
    volumes = spec.get("volumes") or []
    names = [one.get("name") or "" for one in volumes]
    brought = next((one for one in names if one.startswith(_VOLUME)), "")
    mount = {"name": brought or name, "readOnly": True, "mountPath": MOUNT_PATH}
    mounted = False
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        mounts = container.get("volumeMounts") or []
        if all(one.get("mountPath") != MOUNT_PATH for one in mounts):
            container["volumeMounts"] = [*mounts, mount]
            mounted = True
    if mounted and not brought:
        spec["volumes"] = [*volumes, {"name": name, "projected": _token_volume()}]


def _token_volume() -> Object:
    field = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    return {
        "defaultMode": 0o644,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": _TOKEN_SECONDS, "path": "token"}},
            {
                "configMap": {
                    "name": "kube-root-ca.crt",
                    "items": [{"key": "ca.crt", "path": "ca.crt"}],
                }
            },
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": field}]}},
        ],
    }
