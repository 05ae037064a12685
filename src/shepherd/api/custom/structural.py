"""A structural schema in a form that works fast: prune, fill in, validate.

One `Structural` stands for each node of an openAPIV3Schema. Everything is looked up when the schema
is read, so that a pass over an object costs a few dictionary look-ups a field. Source: "Extend the
Kubernetes API with CustomResourceDefinitions"; apiextensions-apiserver pkg/apiserver/schema.
"""

from copy import deepcopy
from typing import Any

from shepherd.api.cel.shapes import FORMATS
from shepherd.api.check import MAX_UNKNOWN, check
from shepherd.api.custom.values import json_type, values_of
from shepherd.api.errors import FieldError, duplicate, required, type_invalid
from shepherd.api.patch import same
from shepherd.api.resource import Object
from shepherd.api.schema import get_type

ABSENT: Any = object()
"""There is no old value to compare with."""
_RESOURCE_FIELDS = ("apiVersion", "kind", "metadata")


_NO_PARTS: Any = {}
_NOTHING: Any = []
"""Shared by all nodes that have none; never changed."""


class Structural:
    """One node of a schema. `resource`: it describes a whole object, with its metadata."""

    __slots__ = (
        "_defaults", "_nested", "additional", "converts", "default", "embedded", "fills",
        "int_or_string", "items", "list_keys", "list_type", "map_type", "nullable", "open",
        "properties", "required", "resource", "ruled", "rules", "schema", "type", "values",
    )  # fmt: skip

    def __init__(self, schema: Object, *, resource: bool = False) -> None:
        self.schema = schema
        self.type: str = schema.get("type", "")
        self.nullable: bool = schema.get("nullable", False)
        self.embedded: bool = schema.get("x-kubernetes-embedded-resource", False)
        self.resource = resource or self.embedded
        self.int_or_string: bool = schema.get("x-kubernetes-int-or-string", False)
        self.default: Any = schema.get("default", ABSENT)
        self.properties = {
            name: Structural(part) for name, part in (schema.get("properties") or {}).items()
        } or _NO_PARTS
        more = schema.get("additionalProperties")
        self.additional = Structural(more) if isinstance(more, dict) else None
        self.open: bool = more is True or schema.get("x-kubernetes-preserve-unknown-fields", False)
        """Unknown fields are kept."""
        items = schema.get("items")
        self.items = Structural(items) if isinstance(items, dict) else None
        self.list_type: str = schema.get("x-kubernetes-list-type") or "atomic"
        self.list_keys: list[str] = schema.get("x-kubernetes-list-map-keys") or _NOTHING
        self.map_type: str = schema.get("x-kubernetes-map-type") or "granular"
        self.rules: list[Object] = schema.get("x-kubernetes-validations") or _NOTHING
        self.required: list[str] = schema.get("required") or _NOTHING
        self.values = values_of(schema)
        if self.resource:
            self.properties = {
                name: part for name, part in self.properties.items() if name not in _RESOURCE_FIELDS
            }
        self._defaults = {
            name: part for name, part in self.properties.items() if part.default is not ABSENT
        } or _NO_PARTS
        nested = {name: part for name, part in self.properties.items() if part.holds_more}
        self._nested = nested or _NO_PARTS
        self.fills: bool = bool(self._defaults) or any(
            part.fills for part in (*self.properties.values(), self.additional, self.items) if part
        )
        """Somewhere in it is a default."""
        below = [part for part in (*self.properties.values(), self.additional, self.items) if part]
        self.converts: bool = schema.get("format") in FORMATS or any(p.converts for p in below)
        """Somewhere in it is a text that rules see as a time, a duration or bytes."""
        self.ruled: bool = bool(self.rules) or any(part.ruled for part in below)
        """Somewhere in it are x-kubernetes-validations."""

    @property
    def holds_more(self) -> bool:
        """Its values may be lists or objects, which pruning must enter."""
        return self.type not in ("string", "integer", "number", "boolean") or self.int_or_string

    # -- pruning -------------------------------------------------------------------------------

    def prune(self, value: Any, path: str = "", unknown: list[str] | None = None) -> Any:
        """`value` without the fields that the schema does not know, whose paths go to `unknown`.

        The value is not changed; what needs no change is shared. Raises WrongType for metadata.
        """
        unknown = [] if unknown is None else unknown
        if type(value) is dict:
            return self._prune_object(value, path, unknown)
        if type(value) is list and self.items and self.items.holds_more:
            items = [
                self.items.prune(item, f"{path}[{at}]", unknown) for at, item in enumerate(value)
            ]
            return items if any(map(_differ, items, value)) else value
        return value

    def _prune_object(self, value: Object, path: str, unknown: list[str]) -> Object:
        result = value
        start = f"{path}." if path else ""
        for name, item in value.items():
            part = self.properties.get(name) or self.additional
            if part is None:
                if self.resource and name in _RESOURCE_FIELDS:
                    kept = _metadata(item, start, unknown) if name == "metadata" else item
                elif self.open:
                    continue
                else:
                    if len(unknown) < MAX_UNKNOWN:
                        unknown.append(start + name)
                    kept = ABSENT
            elif item is None or not part.holds_more:
                continue
            else:
                kept = part.prune(item, start + name, unknown)
            if kept is not item:
                if result is value:
                    result = dict(value)
                if kept is ABSENT:
                    del result[name]
                else:
                    result[name] = kept
        return result

    # -- defaults ------------------------------------------------------------------------------

    def fill(self, value: Any) -> None:
        """Put in what is missing, in place. A null counts as missing where it is not allowed."""
        if not self.fills:
            return
        if type(value) is dict:
            for name, part in self._defaults.items():
                if name not in value or (value[name] is None and not part.nullable):
                    value[name] = deepcopy(part.default)
            for name, part in self._nested.items():
                if part.fills and name in value:
                    part.fill(value[name])
            if self.additional and self.additional.fills:
                for name, item in value.items():
                    if name not in self.properties:
                        self.additional.fill(item)
        elif type(value) is list and self.items:
            for item in value:
                self.items.fill(item)

    # -- validation ----------------------------------------------------------------------------

    def validate(self, value: Any, path: str, found: list[FieldError], old: Any = ABSENT) -> None:
        """Add what is wrong with `value` to `found`.

        What is just as it was in `old` is not looked at again: a schema that became stricter does
        not stand in the way of unrelated changes (KEP-4008, validation ratcheting).
        """
        if old is not ABSENT and value == old and same(value, old):
            return
        if value is None and self.nullable:
            return
        if problem := self._wrong_type(value, path):
            found.append(problem)
            return
        self.values.check(value, path, found)
        if type(value) is dict:
            self._validate_object(value, path, found, old)
        elif type(value) is list and self.items:
            self._validate_list(value, path, found, old)

    def _wrong_type(self, value: Any, path: str) -> FieldError | None:
        actual = json_type(value)
        wanted = ("integer", "string") if self.int_or_string else (self.type,)
        if actual in wanted or wanted == ("",):
            return None
        if (self.type, actual) == ("number", "integer"):
            return None
        if (self.type, actual) == ("integer", "number") and float(value).is_integer():
            return None
        names = ",".join(wanted)
        return type_invalid(path, actual, f'{path} in body must be of type {names}: "{actual}"')

    def _validate_object(self, value: Object, path: str, found: list[FieldError], old: Any) -> None:
        start = f"{path}." if path else ""
        found += [required(start + name) for name in self.required if name not in value]
        if self.embedded:
            found += [
                required(start + name, "must not be empty")
                for name in ("apiVersion", "kind")
                if not isinstance(value.get(name), str) or not value[name]
            ]
        before = old if type(old) is dict else {}
        for name, item in value.items():
            if part := self.properties.get(name):
                part.validate(item, start + name, found, before.get(name, ABSENT))
            elif self.additional:
                self.additional.validate(item, start + name, found, before.get(name, ABSENT))

    def _validate_list(
        self, value: list[Any], path: str, found: list[FieldError], old: Any
    ) -> None:
        assert self.items
        before = self.by_key(old) if old is not ABSENT else {}
        seen: set[str] = set()
        for at, item in enumerate(value):
            place = f"{path}[{at}]"
            key = self.key_of(item) if self.list_type in ("set", "map") else ""
            if key in seen:
                shown = item if self.list_type == "set" else self._keys(item)
                found.append(duplicate(place, shown))
            elif key:
                seen.add(key)
            self.items.validate(item, place, found, before.get(key, ABSENT))

    def by_key(self, value: Any) -> dict[str, Any]:
        """The items of a `map` list by their keys; empty for other values."""
        if self.list_type != "map" or type(value) is not list:
            return {}
        return {self.key_of(item): item for item in value}

    def key_of(self, item: Any) -> str:
        """What tells an item of a set or map list apart."""
        return repr(item if self.list_type == "set" else self._keys(item))

    def _keys(self, item: Any) -> Object:
        if type(item) is not dict:
            return {}
        return {key: item[key] for key in self.list_keys if key in item}


def _differ(one: Any, other: Any) -> bool:
    return one is not other


def _metadata(value: Any, start: str, unknown: list[str]) -> Any:
    """ObjectMeta in normal form. Raises WrongType."""
    checked, more = check({} if value is None else value, get_type("meta.v1.ObjectMeta"))
    room = MAX_UNKNOWN - len(unknown)
    unknown += [f"{start}metadata.{path}" for path in more][:room]
    return checked
