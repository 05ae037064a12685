"""Object metadata: keys, time stamps, resource versions, owner references."""

from datetime import UTC, datetime

from shepherd.api.resource import Object, Resource

_METADATA = b'"metadata":{'


def format_time(epoch_seconds: float) -> str:
    """RFC 3339 in UTC to the second, as metav1.Time is written."""
    return datetime.fromtimestamp(epoch_seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_micro_time(epoch_seconds: float) -> str:
    """RFC 3339 in UTC to the microsecond, as metav1.MicroTime (leases, events) is written."""
    return datetime.fromtimestamp(epoch_seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_time(text: str) -> float:
    """Epoch seconds of an RFC 3339 time stamp. Raises ValueError."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def object_key(resource: Resource, namespace: str, name: str) -> str:
    """The key under which the store holds an object: `pods/default/web-1`, `nodes//n1`."""
    return f"{resource.storage}/{namespace}/{name}"


def key_prefix(resource: Resource, namespace: str | None = None) -> str:
    """The prefix of the keys of a kind, in one namespace or (None) in all."""
    return f"{resource.storage}/" if namespace is None else f"{resource.storage}/{namespace}/"


def split_key(key: str) -> tuple[str, str, str]:
    """(storage, namespace, name) of a key."""
    storage, namespace, name = key.split("/", 2)
    return storage, namespace, name


def stamp(value: bytes, revision: int) -> bytes:
    """A stored object with its resourceVersion.

    The revision is known only once the store has committed, so stored bytes never carry it; it is
    spliced in on the way out, at a thousandth of the cost of decoding and encoding again. Stored
    objects are encoded by us, with kind, apiVersion and metadata first and metadata never empty.
    """
    at = value.index(_METADATA) + len(_METADATA)
    return b'%b"resourceVersion":"%d",%b' % (value[:at], revision, value[at:])


def owner_reference(owner: Object, *, controller: bool = True) -> dict[str, object]:
    """The reference by which a child names `owner`."""
    reference: dict[str, object] = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    }
    if controller:
        reference |= {"controller": True, "blockOwnerDeletion": True}
    return reference
