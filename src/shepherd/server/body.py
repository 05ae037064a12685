"""Request bodies as objects. Raises ApiError 400 and 415 for what is none."""

from dataclasses import dataclass, field
from typing import Any

import msgspec

from shepherd.api import errors
from shepherd.api.resource import Object
from shepherd.lib.http import Request


@dataclass(slots=True)
class Decoded:
    """An object, and what was wrong with it but tolerated."""

    obj: Object
    warnings: list[str] = field(default_factory=list)


def content_type(request: Request) -> str:
    """Without parameters; kubectl sends none with some JSON bodies."""
    return request.headers.get("content-type", "").partition(";")[0].strip() or "application/json"


def read_json(body: bytes) -> Any:
    """JSON text as values. Raises ApiError 400."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise errors.bad_request(f"the request body is not valid JSON: {error}") from error


def read_object(request: Request) -> Decoded:
    """The object of a create or update."""
    if content_type(request) != "application/json":
        raise errors.unsupported_media_type(
            f"the body of the request was in an unknown format ({content_type(request)})"
        )
    obj = read_json(request.body)
    if not isinstance(obj, dict):
        raise errors.bad_request("the request body is not an object")
    return Decoded(obj)
