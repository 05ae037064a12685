"""Pod templates: how they are named, and the pods that are made of them.

Source: kubernetes pkg/controller/controller_utils.go (GetPodFromTemplate, ComputeHash).
"""

import hashlib

import msgspec

from shepherd.api.objects import ObjectMeta
from shepherd.api.resource import Object, Resource
from shepherd.controllers.ownership import controller_reference

_HASH_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_HASH_LENGTH = 10


def name_hash(*parts: object) -> str:
    """Ten letters and digits that name what is made of `parts`. Whether two templates are the same
    is never judged by it, so it may change between versions of Shepherd without a rollout."""
    text = msgspec.json.encode(parts, order="deterministic")
    number = int.from_bytes(hashlib.sha256(text).digest(), "big")
    letters = []
    for _ in range(_HASH_LENGTH):
        number, digit = divmod(number, len(_HASH_ALPHABET))
        letters.append(_HASH_ALPHABET[digit])
    return "".join(letters)


def labels_of(template: Object) -> dict[str, str]:
    """The labels of its pods."""
    labels: dict[str, str] = (template.get("metadata") or {}).get("labels") or {}
    return labels


def pod_of(template: Object, resource: Resource, owner: ObjectMeta, *, name: str = "") -> Object:
    """A pod of the template that `owner`, of the kind `resource`, controls. Without a name it gets
    one made of its owner's. Who calls may set fields of metadata and spec, not change parts of
    them."""
    inherited = template.get("metadata") or {}
    copied = {
        key: inherited[key] for key in ("labels", "annotations", "finalizers") if inherited.get(key)
    }
    own = {
        **({"name": name} if name else {"generateName": f"{owner.name}-"}),
        "namespace": owner.namespace,
        "ownerReferences": [controller_reference(resource, owner)],
    }
    return {"metadata": copied | own, "spec": dict(template.get("spec") or {})}
