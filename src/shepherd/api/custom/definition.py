"""From a CustomResourceDefinition to the resources that it makes the API serve.

Each served version is a `Resource` whose hooks follow the version's schema; all versions share the
stored objects. Source: apiextensions-apiserver pkg/apiserver/customresource_handler.go and
pkg/registry/customresource.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from shepherd.api import jsonpath
from shepherd.api.check import WrongType
from shepherd.api.custom.fields import node_of
from shepherd.api.custom.rules import Rules, blocked
from shepherd.api.custom.structural import ABSENT, Structural
from shepherd.api.errors import FieldError
from shepherd.api.kinds.cells import AGE, since
from shepherd.api.resource import VERBS, Column, Object, Resource, ScalePaths
from shepherd.api.typed import Node

_VERSION = re.compile(r"v([1-9]\d*)(?:(alpha|beta)([1-9]\d*))?")
_STAGES = {"alpha": 0, "beta": 1, None: 2}
_NAME = Column(
    "Name", lambda obj, now: obj["metadata"]["name"], format="name",
    description="The object's name.",
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Custom:
    """What sets a version of a custom resource apart from a built-in kind."""

    definition: str
    """The CRD's name."""
    schema: Object
    """Its openAPIV3Schema."""
    storage: str
    """The apiVersion in which objects are stored now."""
    conversion: Object
    """spec.conversion of the CRD."""
    since: int
    """The store's revision at which all this came to hold: what was stored before may be of another
    version, or lack defaults."""
    normal: Callable[[Object], Object]
    """An object of this version, pruned and with its defaults."""
    fields: Callable[[], Node]
    """How server-side apply takes its objects apart."""


@dataclass(frozen=True, slots=True, eq=False)
class Definition:
    """All that one CRD serves."""

    name: str
    resources: tuple[Resource, ...]
    """The served versions, preferred first."""
    stored: Resource
    """The storage version, served or not: what the stored objects are of."""
    made_from: object = None
    """What tells whether another CRD would serve the same."""


def version_order(version: str) -> tuple[int, int, int, str]:
    """Sorts versions, preferred first: v2, v1, v2beta1, v1alpha1, and any others by name."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (1, 0, 0, version)
    return (-_STAGES[match[2]], -int(match[1]), -int(match[3] or 0), "")


def define(crd: Object, revision: int, made_from: object = None) -> Definition:
    """What an established CRD serves from the store's `revision` on."""
    spec = crd["spec"]
    versions = sorted(spec["versions"], key=lambda version: version_order(version["name"]))
    made = {version["name"]: _Version(crd, version, revision).resource for version in versions}
    return Definition(
        crd["metadata"]["name"],
        tuple(made[version["name"]] for version in versions if version.get("served")),
        next(made[version["name"]] for version in versions if version.get("storage")),
        made_from,
    )


class _Version:
    """One version; its schema is read when the first object comes."""

    def __init__(self, crd: Object, version: Object, revision: int) -> None:
        self._spec = crd["spec"]
        self._version = version
        self._schema: Object = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        names = (crd.get("status") or {}).get("acceptedNames") or self._spec["names"]
        subresources = version.get("subresources") or {}
        scale = subresources.get("scale")
        stored = next(v["name"] for v in self._spec["versions"] if v.get("storage"))
        ending = "deletionTimestamp" in crd["metadata"]
        verbs = tuple(verb for verb in VERBS if verb != "create" or not ending)
        self.resource = Resource(
            group=self._spec["group"],
            version=version["name"],
            kind=names["kind"],
            plural=names["plural"],
            singular=names.get("singular", ""),
            list_kind=names.get("listKind", ""),
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            namespaced=self._spec["scope"] == "Namespaced",
            verbs=verbs,
            status="status" in subresources,
            scale=bool(scale),
            scale_paths=_scale_paths(scale or {}),
            generation=True,
            columns=_columns(version.get("additionalPrinterColumns") or []),
            fields=_fields(self._spec),
            check=self._check,
            default=self._fill,
            judge=self._judge,
            warnings=self._warnings,
            custom=Custom(
                crd["metadata"]["name"],
                self._schema,
                f"{self._spec['group']}/{stored}",
                self._spec.get("conversion") or {"strategy": "None"},
                revision,
                self._normal,
                lambda: self._fields,
            ),
        )

    @cached_property
    def _structure(self) -> Structural:
        return Structural(self._schema, resource=True)

    @cached_property
    def _fields(self) -> Node:
        return node_of(self._structure)

    @cached_property
    def _rules(self) -> Rules:
        return Rules(self._structure)

    def _check(self, obj: Object) -> tuple[Object, list[str]]:
        unknown: list[str] = []
        return self._structure.prune(obj, "", unknown), unknown

    def _fill(self, obj: Object) -> None:
        self._structure.fill(obj)

    def _normal(self, obj: Object) -> Object:
        with suppress(WrongType):  # it was stored so; who writes it next is told
            obj = self._structure.prune(obj)
        self._structure.fill(obj)
        return obj

    def _judge(self, obj: Object, old: Object | None) -> list[FieldError]:
        found: list[FieldError] = []
        before = ABSENT if old is None else old
        self._structure.validate(obj, "", found, before)
        if not self._structure.ruled:
            return found
        if blocked(found):
            detail = (
                "Invalid value: null: some validation rules were not checked because the object "
                "was invalid; correct the existing errors to complete validation"
            )
            return [*found, FieldError("FieldValueInvalid", "<nil>", detail)]
        return found + self._rules.check(obj, before)

    def _warnings(self, obj: Object) -> list[str]:
        if not self._version.get("deprecated"):
            return []
        text = self._version.get("deprecationWarning")
        return [text or f"{self.resource.api_version} {self.resource.kind} is deprecated"]


def _scale_paths(scale: Object) -> ScalePaths:
    """Paths are plain names: `.spec.replicas`."""
    found = {
        name: tuple(jsonpath.fields(scale.get(f"{name}Path", "")) or ())
        for name in ("specReplicas", "statusReplicas", "labelSelector")
    }
    return ScalePaths(found["specReplicas"], found["statusReplicas"], found["labelSelector"])


def _fields(spec: Object) -> Callable[[Object], dict[str, str]]:
    """selectableFields of all versions: for the one stream of changes that all versions share."""
    paths = {
        field["jsonPath"].removeprefix("."): jsonpath.parse(field["jsonPath"])
        for version in spec["versions"]
        for field in version.get("selectableFields") or ()
    }

    def fields(obj: Object) -> dict[str, str]:
        return {label: _text(path.first(obj)) for label, path in paths.items()}

    return fields


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


# -- columns -----------------------------------------------------------------------------------


def _columns(columns: list[Object]) -> tuple[Column, ...]:
    if not columns:
        return (_NAME, AGE)
    return (
        _NAME,
        *(
            Column(
                column["name"],
                _cell(column["jsonPath"], column["type"]),
                type=column["type"],
                wide=bool(column.get("priority")),
                format=column.get("format", ""),
                description=column.get("description", ""),
            )
            for column in columns
        ),
    )


def _cell(path: str, type: str) -> Callable[[Object, float], Any]:
    """Source: apiserver registry/rest tableconvertor of custom resources."""

    def cell(obj: Object, now: float) -> Any:
        try:
            value = jsonpath.parse(path).first(obj)
        except jsonpath.JsonPathError:
            return None
        match type, value:
            case _, None:
                return None
            case "string", _:
                return value if isinstance(value, str) else _printed(value)
            case "integer", bool() | str() | list() | dict():
                return None
            case "integer", _:
                return int(value)
            case "number", int() | float() if not isinstance(value, bool):
                return value
            case "boolean", bool():
                return value
            case "date", str():
                shown = since(value, now)
                return "<invalid>" if shown == "<unknown>" else shown
        return None

    return cell


def _printed(value: Any) -> str:
    if isinstance(value, bool):
        return _text(value)
    if isinstance(value, list | dict):
        return msgspec.json.encode(value).decode()
    return str(value)
