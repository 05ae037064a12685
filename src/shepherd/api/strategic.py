"""Strategic merge patch: merge by the schema's merge keys, steered by directives in the patch.

Inputs are never changed; directives are never stored. Errors are ApiError: 400 for a directive of
the wrong form, 422 for a patch that cannot be merged. Source: apimachinery `util/strategicpatch`,
"Strategic Merge Patch" in kubernetes/community.
"""

from collections.abc import Callable, Hashable
from typing import Any

from shepherd.api.errors import ApiError, bad_request
from shepherd.api.resource import Object
from shepherd.api.schema import Field, Shape, Type, get_type

DIRECTIVE = "$patch"
RETAIN_KEYS = "$retainKeys"
SET_ORDER = "$setElementOrder/"
DELETE_FROM = "$deleteFromPrimitiveList/"

_GONE = object()


def strategic_merge(target: Object, patch: Any, type: Type) -> Object:
    """`target`, an object of that type, as the patch makes it."""
    if not isinstance(patch, dict):
        raise bad_request("a strategic merge patch must be an object")
    return _merge(target, patch, Shape("", type.name))


def _unfit(message: str) -> ApiError:
    return ApiError(422, "Invalid", f"the strategic merge patch cannot be applied: {message}")


def _is_directive(key: str) -> bool:
    return key in {DIRECTIVE, RETAIN_KEYS} or key.startswith((SET_ORDER, DELETE_FROM))


def _merge(original: Object, patch: Object, shape: Shape | None) -> Object:
    match patch.get(DIRECTIVE):
        case None | "merge":
            pass
        case "replace":
            return _content(patch)
        case "delete":
            return {}
        case other:
            raise _unfit(f"unknown patch type {other!r}")
    result = _retained(original, patch)
    for key, value in patch.items():
        if key.startswith(DELETE_FROM):
            _delete_from(result, key.removeprefix(DELETE_FROM), value)
    for key, value in patch.items():
        if not _is_directive(key):
            _merge_field(result, key, value, patch, shape)
    for key, order in patch.items():
        name = key.removeprefix(SET_ORDER)
        if key.startswith(SET_ORDER) and name not in patch and isinstance(result.get(name), list):
            field, _ = _child(shape, name)
            result[name] = _ordered(result[name], _order(order), result[name], _identity(field))
    return result


def _retained(original: Object, patch: Object) -> Object:
    """A copy of the original, without the fields that a `$retainKeys` list leaves out."""
    if RETAIN_KEYS not in patch:
        return dict(original)
    names = patch[RETAIN_KEYS]
    if not isinstance(names, list):
        raise bad_request(f"invalid patch format of {RETAIN_KEYS}: it must be a list")
    kept = {name for name in names if isinstance(name, str)}
    for key, value in patch.items():
        if value is not None and key not in kept and not _is_directive(key):
            raise bad_request(f"invalid patch format of {RETAIN_KEYS}: {key!r} is not in the list")
    return {key: value for key, value in original.items() if key in kept}


def _delete_from(result: Object, name: str, values: Any) -> None:
    if not isinstance(values, list):
        raise bad_request(f"invalid patch format of {DELETE_FROM}{name}: it must be a list")
    current = result.get(name)
    if isinstance(current, list):
        gone = {_scalar(value) for value in values}
        result[name] = [item for item in current if _scalar(item) not in gone]


def _merge_field(result: Object, key: str, value: Any, patch: Object, shape: Shape | None) -> None:
    current = result.get(key)
    field, below = _child(shape, key)
    strategies = field.strategies if field else []
    if value is None:
        result.pop(key, None)
    elif isinstance(value, dict) and isinstance(current, dict) and "replace" not in strategies:
        result[key] = _merge(current, value, below)
    elif isinstance(value, list) and isinstance(current, list) and field and "merge" in strategies:
        order = patch.get(SET_ORDER + key)
        result[key] = _merge_list(current, value, order, field)
    else:
        content = _stripped(value)
        if content is _GONE:
            result.pop(key, None)
        else:
            result[key] = content


def _child(shape: Shape | None, key: str) -> tuple[Field | None, Shape | None]:
    """The field of that name and its shape; (None, None) where the schema says nothing."""
    if shape is None or shape.container == "map of lists":
        return None, None
    if shape.container == "map":
        return None, None if shape.scalar else Shape("", shape.of)
    field = None if shape.scalar else get_type(shape.of).fields.get(key)
    return field, field.shape if field else None


def _merge_list(current: list[Any], patch: list[Any], order: Any, field: Field) -> list[Any]:
    identity = _identity(field)
    if not field.merge_key:
        merged = list({identity(item): item for item in [*current, *patch]}.values())
        return _ordered(merged, patch if order is None else _order(order), current, identity)
    plain, gone, replace = _split(patch, field.merge_key)
    if replace:
        return [_content(item) for item in plain]
    merged = [item for item in current if not gone or identity(item) not in gone]
    places = {identity(item): at for at, item in reversed(list(enumerate(merged)))}
    for item in plain:
        place = places.setdefault(identity(item), len(merged))
        if place == len(merged):
            merged.append(_content(item))
        else:
            merged[place] = _merge(merged[place], item, Shape("", field.shape.of))
    if order is None:
        return _ordered(merged, plain, current, identity)
    order = _order(order)
    _check_order(plain, order, field, identity)
    return _ordered(merged, order, current, identity)


def _split(patch: list[Any], key: str) -> tuple[list[Object], set[Hashable], bool]:
    """What a list patch merges, the keys of what it deletes, and whether it replaces the list."""
    plain: list[Object] = []
    gone: set[Hashable] = set()
    replace = False
    for item in patch:
        if not isinstance(item, dict):
            raise _unfit("list element types are not identical")
        match item.get(DIRECTIVE):
            case None | "merge":
                plain.append(item)
            case "delete":
                gone.add(_key_of(item, key))
            case "replace":
                replace = True
            case other:
                raise _unfit(f"unknown patch type {other!r}")
    return plain, gone, replace


def _identity(field: Field | None) -> Callable[[Any], Hashable]:
    """What tells items of a list apart: their merge key, or for texts and numbers themselves."""
    key = field.merge_key if field else ""
    return (lambda item: _key_of(item, key)) if key else _scalar


def _key_of(item: Any, key: str) -> Hashable:
    if not isinstance(item, dict) or key not in item:
        raise _unfit(f"a list item does not contain the declared merge key: {key}")
    return _scalar(item[key])


def _scalar(value: Any) -> Hashable:
    """JSON equality as a hashable: true is not 1."""
    if isinstance(value, dict | list):
        raise _unfit("objects and lists cannot be told apart by value")
    return (isinstance(value, bool), value)


def _order(order: Any) -> list[Any]:
    if not isinstance(order, list):
        raise bad_request("invalid patch format of setElementOrder list: it must be a list")
    return order


def _check_order(
    plain: list[Object], order: list[Any], field: Field, identity: Callable[[Any], Hashable]
) -> None:
    """What the patch holds must stand in the order list, in the same order."""
    rest = iter([identity(item) for item in order])
    if not all(identity(item) in rest for item in plain):
        raise _unfit(f"the order in patch list doesn't match {SET_ORDER}{field.name} list")


def _ordered(
    merged: list[Any], order: list[Any], live: list[Any], identity: Callable[[Any], Hashable]
) -> list[Any]:
    """The items that `order` names as it says; the others where they stood, as far as that goes."""
    wanted = {identity(item): at for at, item in enumerate(order)}
    stood = {identity(item): at for at, item in enumerate(live)}
    named = sorted(
        (item for item in merged if identity(item) in wanted), key=lambda i: wanted[identity(i)]
    )
    others = [item for item in merged if identity(item) not in wanted]
    result: list[Any] = []
    at = 0
    for item in others:
        while at < len(named):
            place = stood.get(identity(named[at]))
            if place is not None and stood[identity(item)] < place:
                break
            result.append(named[at])
            at += 1
        result.append(item)
    return result + named[at:]


def _content(patch: Object) -> Object:
    """What a patch sets where nothing was: without its nulls and directives."""
    content: Object = {}
    for key, value in patch.items():
        if value is not None and not _is_directive(key):
            found = _stripped(value)
            if found is not _GONE:
                content[key] = found
    return content


def _stripped(value: Any) -> Any:
    if isinstance(value, dict):
        return _GONE if value.get(DIRECTIVE) == "delete" else _content(value)
    if isinstance(value, list):
        return [
            _stripped(item) for item in value if not (isinstance(item, dict) and DIRECTIVE in item)
        ]
    return value
