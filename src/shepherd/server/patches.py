"""PATCH bodies as functions from the present object to the wanted one."""

from collections.abc import Callable

from shepherd.api import errors
from shepherd.api.decode import (
    Check,
    Decoded,
    FieldValidation,
    bounded,
    check_object,
    decode_value,
    media_type,
)
from shepherd.api.patch import json_patch, merge_patch
from shepherd.api.resource import Object
from shepherd.api.schema import type_of
from shepherd.api.strategic import strategic_merge
from shepherd.lib.http import Request
from shepherd.server.codec import encode

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"

Patcher = Callable[[Object], Decoded]
Kind = tuple[str, str, str]
"""Group, version and kind."""


def patcher(
    request: Request, kind: Kind, validation: FieldValidation, check: Check | None = None
) -> Patcher:
    """The function that a request's patch denotes: it makes an object that fits `kind`.

    `check` is that of a kind without schema data, which takes no strategic merge.
    Raises ApiError 400, 415; the function 400, 422.
    """
    media = media_type(request.headers.get("content-type", ""))
    accepted = (JSON_PATCH, MERGE, STRATEGIC) if check is None else (JSON_PATCH, MERGE)
    if media not in accepted:
        raise errors.unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: "
            + ", ".join((*accepted, APPLY))
        )
    patch, problems = decode_value(request.body, media)
    if media != JSON_PATCH and not isinstance(patch, dict):
        raise errors.bad_request("the patch must be an object")

    def apply(old: Object) -> Decoded:
        patched = _patched(media, old, patch, kind)
        if not isinstance(patched, dict):
            raise errors.bad_request("the patch does not leave an object")
        bounded(patched)  # operations that move can nest deeper than any body
        for field in ("kind", "apiVersion"):
            if patched.get(field) != old[field]:
                raise errors.bad_request(f"{field}: the patch may not change it")
        try:
            return check_object(
                patched, *kind, validation=validation, problems=problems, check=check
            )
        except errors.ApiError as error:
            text = encode(patch if media == STRATEGIC else patched).decode()
            found = [errors.invalid_value("patch", text, error.message)]
            raise errors.invalid("", "", "", found) from None

    return apply


def _patched(media: str, old: Object, patch: object, kind: Kind) -> object:
    if media == JSON_PATCH:
        return json_patch(old, patch)
    known = type_of(*kind) if media == STRATEGIC else None
    return strategic_merge(old, patch, known) if known else merge_patch(old, patch)
