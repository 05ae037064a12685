"""Validation that the schema data gives for nothing: what is required must be there.

Source: the `required` lists of the published schemas, whose counterpart in kubernetes are the
`+required` markers of the types; what kinds ask beyond that stands in their own files.
"""

from collections.abc import Callable
from functools import cache

from shepherd.api.errors import FieldError, required
from shepherd.api.kinds.checks import Errors
from shepherd.api.resource import Object
from shepherd.api.schema import Field, get_type

Rule = Callable[[Object], Errors]


def validates(type_name: str, *rules: Rule) -> Callable[[Object], list[FieldError]]:
    """A `Resource.validate`: the required fields of the type (`storage.v1.StorageClass`) outside
    of metadata, status and pod templates, then `rules`."""

    def validate(obj: Object) -> list[FieldError]:
        found = list(_missing(obj, type_name, ""))
        for rule in rules:
            found += rule(obj)
        return found

    return validate


_ELSEWHERE = frozenset(("metadata", "status", "template"))
"""Fields that have rules of their own, or are not their author's."""


@cache
def _fields(type_name: str) -> tuple[Field, ...]:
    """The fields to look at: required texts and objects, and whatever may hold such."""
    return tuple(
        field
        for field in get_type(type_name).fields.values()
        if field.name not in _ELSEWHERE and (field.required or not field.shape.scalar)
    )


def _missing(obj: Object, type_name: str, path: str) -> Errors:
    for field in _fields(type_name):
        value, at, shape = obj.get(field.name), f"{path}{field.name}", field.shape
        if (field.required and value is None) or (field.required and value == ""):
            # Go cannot tell a number that is absent from a zero.
            if shape.of not in ("int32", "int64", "bool"):
                yield required(at)
        elif value is None or shape.scalar:
            continue
        elif shape.container == "list":
            for index, item in enumerate(value):
                yield from _missing(item, shape.of, f"{at}[{index}].")
        elif shape.container == "map":
            for key, item in value.items():
                yield from _missing(item, shape.of, f"{at}[{key}].")
        else:
            yield from _missing(value, shape.of, f"{at}.")
