"""PATCH bodies as functions from the present object to the wanted one."""

from collections.abc import Callable

from shepherd.api import errors
from shepherd.api.patch import json_patch, merge_patch
from shepherd.api.resource import Object
from shepherd.lib.http import Request
from shepherd.server.body import Decoded, content_type, read_json
from shepherd.server.routes import Route

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"

Patcher = Callable[[Object], Decoded]


def patcher(request: Request, route: Route) -> Patcher:
    """The function that a request's patch denotes. Raises ApiError 400, 415, 422."""
    kind = content_type(request)
    if kind == APPLY:
        raise errors.unsupported_media_type(
            "server-side apply is not served yet: use kubectl apply without --server-side"
        )
    if kind not in (MERGE, STRATEGIC, JSON_PATCH):
        raise errors.unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: "
            f"{JSON_PATCH}, {MERGE}, {STRATEGIC}"
        )
    patch = read_json(request.body)
    if kind == JSON_PATCH:
        return lambda old: _object(json_patch(old, patch))
    if not isinstance(patch, dict):
        raise errors.bad_request("the patch is not an object")
    return lambda old: _object(merge_patch(old, patch))


def _object(patched: object) -> Decoded:
    if not isinstance(patched, dict):
        raise errors.bad_request("the patch makes no object")
    return Decoded(patched)
