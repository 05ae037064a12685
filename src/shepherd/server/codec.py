"""Objects between their stored bytes and JSON."""

import msgspec

from shepherd.api import errors
from shepherd.api.resource import Object


def decode(value: bytes) -> Object:
    """A stored object as JSON."""
    obj: Object = msgspec.json.decode(value)
    return obj


def encode(obj: Object) -> bytes:
    """A JSON object as stored bytes. Raises ApiError 400 for what JSON cannot hold."""
    try:
        return msgspec.json.encode(obj)
    except (OverflowError, RecursionError, UnicodeEncodeError) as error:
        raise errors.bad_request(f"the object cannot be stored: {error}") from error


def with_revision(obj: Object, revision: int) -> Object:
    """A copy of `obj` (one level deep) that carries its resourceVersion."""
    return obj | {"metadata": obj["metadata"] | {"resourceVersion": str(revision)}}
