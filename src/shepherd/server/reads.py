"""The read path that all kinds share: one object, or a list in pages.

Source: "Kubernetes API Concepts", "Resource versions in API queries" and "Retrieving large results
sets in chunks"; apiserver storage/continue.go.
"""

import asyncio
import base64
import binascii
from dataclasses import dataclass

import msgspec

from shepherd.api import errors
from shepherd.api.resource import Object
from shepherd.server.selection import Facts, Selection
from shepherd.server.versions import Versions
from shepherd.store.base import ExpiredError, Item, Store

_FRESH_SECONDS = 3.0
"""How long a read waits for a revision that is not there yet (as apiserver)."""
_SCAN = 500
"""Objects that a selector looks at before others get a turn on the event loop."""
_TOKEN_VERSION = "meta.k8s.io/v1"
_OLD_TOKEN = (
    "The provided continue parameter is too old to display a consistent list result. "
    "You can start a new list without the continue parameter, or use the continue token in this "
    "response to retrieve the remainder of the results. Continuing with the provided token results "
    "in an inconsistent list - objects that were created, modified, or deleted between the time "
    "the first chunk was returned and now may show up in the list."
)


class TokenExpiredError(errors.ApiError):
    """410 for a page of a list that is compacted; its token goes on with the present state."""

    def __init__(self, token: str) -> None:
        super().__init__(410, "Expired", _OLD_TOKEN)
        self.token = token

    def status(self) -> errors.Status:
        return super().status() | {"metadata": {"continue": self.token}}


@dataclass(slots=True)
class Listing:
    """A list, or one page of it."""

    items: list[Item]
    revision: int
    continue_token: str = ""
    remaining: int = 0
    """How many more there are; 0 when that is not known."""

    @property
    def metadata(self) -> Object:
        """The list's own metadata."""
        metadata: Object = {"resourceVersion": str(self.revision)}
        if self.continue_token:
            metadata["continue"] = self.continue_token
            if self.remaining:
                metadata["remainingItemCount"] = self.remaining
        return metadata


async def list_objects(
    store: Store, selection: Selection, query: dict[str, str], versions: Versions
) -> Listing:
    """The selected objects, of one snapshot. Raises ApiError."""
    limit = _integer("limit", query.get("limit", ""))
    after, at = "", None
    if token := query.get("continue", ""):
        after, at = read_token(token, query)
    else:
        at = await snapshot(store, query, limit)
    try:
        return await _collect(store, selection, versions, limit, after, at)
    except ExpiredError as error:
        if token:
            raise TokenExpiredError(make_token(-1, after)) from error
        message = f"The resourceVersion for the provided list is too old: {at}"
        raise errors.expired(message) from error


async def _collect(
    store: Store, selection: Selection, versions: Versions, limit: int, after: str, at: int | None
) -> Listing:
    if selection.everything:
        page = await store.list(selection.span, limit=limit, after=after, at=at)
        items = await versions.items(selection.resource, page.items)
        listing = Listing(items, page.revision, remaining=page.remaining)
        if page.remaining:
            listing.continue_token = make_token(page.revision, page.items[-1].key)
        return listing
    found: list[Item] = []
    while True:
        page = await store.list(selection.span, limit=_SCAN, after=after, at=at)
        at = page.revision
        items = await versions.items(selection.resource, page.items)
        for index, item in enumerate(items):
            if selection.matches(Facts(selection.resource, item.key, item.value)):
                found.append(item)
                if len(found) == limit and (page.remaining or index + 1 < len(items)):
                    return Listing(found, at, make_token(at, item.key))
        if not page.remaining:
            return Listing(found, at)
        after = page.items[-1].key
        await asyncio.sleep(0)


async def snapshot(store: Store, query: dict[str, str], limit: int = 0) -> int | None:
    """The revision that a list must be of; None = the present. Waits for one that is to come."""
    text, match = query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
    if match not in ("", "Exact", "NotOlderThan"):
        allowed = ["Exact", "NotOlderThan"]
        raise _options(errors.not_supported("resourceVersionMatch", match, allowed))
    if match and not text:
        detail = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        raise _options(errors.forbidden_field("resourceVersionMatch", detail))
    asked = revision_of(text)
    if match == "Exact" and not asked:
        detail = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        raise _options(errors.forbidden_field("resourceVersionMatch", detail))
    if not asked:
        return None
    await wait_for(store, asked)
    return asked if match == "Exact" or (limit and not match) else None


def revision_of(text: str) -> int:
    """A resourceVersion parameter as a number; absent is 0. Raises ApiError 400."""
    if not text:
        return 0
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        detail = f'strconv.ParseUint: parsing "{text}": invalid syntax'
        raise errors.bad_request(f'resourceVersion: Invalid value: "{text}": {detail}')
    return int(text)


async def wait_for(store: Store, revision: int) -> None:
    """Return once `revision` can be read. Raises ApiError 504 if it does not come soon."""
    if revision <= store.revision:
        return
    try:
        async with asyncio.timeout(_FRESH_SECONDS):
            await store.wait(revision)
    except TimeoutError as error:
        raise errors.ApiError(
            504,
            "Timeout",
            f"Too large resource version: {revision}, current: {store.revision}",
            details={
                "causes": [
                    {
                        "reason": "ResourceVersionTooLarge",
                        "message": "Too large resource version",
                    }
                ],
                "retryAfterSeconds": 1,
            },
            headers={"retry-after": "1"},
        ) from error


def make_token(revision: int, key: str) -> str:
    """A continue token: the snapshot (-1 = whatever is there then) and the last key told."""
    body = msgspec.json.encode({"v": _TOKEN_VERSION, "rv": revision, "start": key})
    return base64.urlsafe_b64encode(body).decode().rstrip("=")


class _Token(msgspec.Struct):
    v: str
    rv: int
    start: str


def read_token(text: str, query: dict[str, str]) -> tuple[str, int | None]:
    """(last key, revision) of a continue token. Raises ApiError 400."""
    if query.get("resourceVersion", "") not in ("", "0"):
        raise errors.bad_request("specifying resource version is not allowed when using continue")
    try:
        padded = text + "=" * (-len(text) % 4)
        token = msgspec.json.decode(base64.urlsafe_b64decode(padded), type=_Token)
    except (ValueError, binascii.Error) as error:
        raise errors.bad_request(f"continue key is not valid: {error}") from error
    if token.v != _TOKEN_VERSION or token.rv == 0 or not token.start:
        raise errors.bad_request("continue key is not valid: it is of another version")
    return token.start, None if token.rv < 0 else token.rv


def _integer(name: str, text: str) -> int:
    if not text:
        return 0
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise errors.bad_request(f'{name}: Invalid value: "{text}": must be a positive integer')
    return int(text)


def _options(error: errors.FieldError) -> errors.ApiError:
    return errors.invalid("meta.k8s.io", "ListOptions", "", [error])
