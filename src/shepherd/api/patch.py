"""JSON merge patch (RFC 7386) and JSON patch (RFC 6902). Inputs are never changed.

Strategic merge patch, which needs the schema, is in `strategic`. Every function raises ApiError:
400 for a patch that is malformed, 422 for one that does not fit the object, as upstream.
Source: apiserver `endpoints/handlers/patch`, evanphx/json-patch.
"""

from copy import deepcopy
from typing import Any

from shepherd.api.errors import ApiError, bad_request

MAX_DEPTH = 100
"""Of the levels below what a JSON patch copies, and of its paths."""

MAX_OPERATIONS = 10_000
"""Of one JSON patch (apiserver's own limit)."""
MAX_GROWTH = 3 * 1024 * 1024
"""Values that the copies of one JSON patch may add: doubling must not eat the memory."""


def merge_patch(target: Any, patch: Any) -> Any:
    """`target` as the merge patch makes it: null removes, objects merge, the rest replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


def json_patch(target: Any, operations: Any) -> Any:
    """`target` after the operations, all or none."""
    if not isinstance(operations, list):
        raise bad_request("json patch must be a list of operations")
    if len(operations) > MAX_OPERATIONS:
        message = f"the allowed maximum operations in a json patch is {MAX_OPERATIONS}"
        raise ApiError(413, "RequestEntityTooLarge", f"{message}, got {len(operations)}")
    document = _Document(deepcopy(target))
    for index, operation in enumerate(operations):
        if not isinstance(operation, dict):
            raise bad_request(f"json patch: operation {index} is not an object")
        document.apply(index, operation)
    return document.root


def _unfit(message: str) -> ApiError:
    return ApiError(422, "Invalid", f"the server rejected our request: {message}")


class _Document:
    """A JSON document under change. Paths are RFC 6901 pointers."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self.copied = 0

    def apply(self, index: int, operation: dict[str, Any]) -> None:
        kind = operation.get("op")
        path = _pointer(index, operation, "path")
        if kind in {"add", "replace", "test"} and "value" not in operation:
            raise bad_request(f"json patch: operation {index} ({kind}) has no value")
        match kind:
            case "add":
                self.add(path, deepcopy(operation["value"]))
            case "remove":
                self.remove(path)
            case "replace":
                self.get(path)
                self.replace(path, deepcopy(operation["value"]))
            case "test":
                if not same(self.get(path), operation["value"]):
                    raise _unfit(f"testing value {operation['path']} failed")
            case "move":
                source = _pointer(index, operation, "from")
                if path[: len(source)] == source and path != source:
                    raise _unfit(f"cannot move {operation['from']} into itself")
                self.add(path, self.remove(source))
            case "copy":
                self.add(path, self.copy(self.get(_pointer(index, operation, "from"))))
            case _:
                raise bad_request(f"json patch: operation {index} has an unknown op {kind!r}")

    def copy(self, value: Any) -> Any:
        self.copied += _size(value)
        if self.copied > MAX_GROWTH:
            raise ApiError(413, "RequestEntityTooLarge", "the copies of the json patch are too big")
        return deepcopy(value)

    def get(self, path: list[str]) -> Any:
        value = self.root
        for depth, token in enumerate(path):
            value = _child(value, token, path[: depth + 1])
        return value

    def add(self, path: list[str], value: Any) -> None:
        if not path:
            self.root = value
            return
        parent, token = self.get(path[:-1]), path[-1]
        if isinstance(parent, dict):
            parent[token] = value
        elif isinstance(parent, list):
            at = len(parent) if token == "-" else _index(token, len(parent), path)
            parent.insert(at, value)
        else:
            raise _missing(path)

    def replace(self, path: list[str], value: Any) -> None:
        if not path:
            self.root = value
            return
        parent, token = self.get(path[:-1]), path[-1]
        if isinstance(parent, list):
            parent[int(token)] = value
        else:
            parent[token] = value

    def remove(self, path: list[str]) -> Any:
        if not path:
            raise _unfit("the whole object cannot be removed")
        value = self.get(path)
        parent, token = self.get(path[:-1]), path[-1]
        if isinstance(parent, list):
            del parent[int(token)]
        else:
            del parent[token]
        return value


def _pointer(index: int, operation: dict[str, Any], name: str) -> list[str]:
    text = operation.get(name)
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise bad_request(f"json patch: operation {index} has no valid {name!r} (a JSON pointer)")
    if text.count("/") > MAX_DEPTH:
        raise bad_request(f"json patch: {name!r} of operation {index} is deeper than {MAX_DEPTH}")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _missing(path: list[str]) -> ApiError:
    return _unfit(f"path /{'/'.join(path)} does not exist")


def _index(token: str, limit: int, path: list[str]) -> int:
    """An array index of at most `limit`."""
    if not (token.isascii() and token.isdigit()) or (token[0] == "0" and token != "0"):
        raise _unfit(f"/{'/'.join(path)}: {token!r} is not an array index")
    if len(token) > 9 or int(token) > limit:
        raise _missing(path)
    return int(token)


def _child(value: Any, token: str, path: list[str]) -> Any:
    if isinstance(value, dict) and token in value:
        return value[token]
    if isinstance(value, list) and value:
        return value[_index(token, len(value) - 1, path)]
    raise _missing(path)


def same(a: Any, b: Any) -> bool:
    """JSON equality: unlike Python's, true is not 1."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(value, b[key]) for key, value in a.items())
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def _size(value: Any) -> int:
    """About the bytes that a value takes as JSON. Raises ApiError 400 if it is nested too deep."""
    size = 0
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                size += 2 + sum(len(key) + 4 for key in item)
                below += item.values()
            elif isinstance(item, list):
                size += 2 + len(item)
                below += item
            else:
                size += len(item) + 2 if isinstance(item, str) else 8
        if not below:
            return size
        level = below
    raise bad_request(f"json patch: it copies what is nested more than {MAX_DEPTH} levels deep")
