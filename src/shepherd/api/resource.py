"""`Resource`: the one declaration of a kind, from which everything about it is derived.

Routes, discovery, OpenAPI, `kubectl get` columns, defaulting and validation all read these
declarations. They stand in `api/kinds/*.py` and are listed in `api/kinds/__init__.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from shepherd.api.errors import FieldError

if TYPE_CHECKING:
    from shepherd.api.custom.definition import Custom

Object = dict[str, Any]
"""An API object as JSON. Treat it as immutable unless you made it."""


VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
"""What most kinds let clients do."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of `kubectl get` (meta.k8s.io/v1 TableColumnDefinition)."""

    name: str
    cell: Callable[[Object, float], Any]
    """From the object and the present time (epoch seconds) to a string, number or bool."""
    type: str = "string"
    wide: bool = False
    """Shown only with `-o wide` (priority 1)."""
    format: str = ""
    description: str = ""


def _nothing(obj: Object) -> None:
    pass


def _no_errors(obj: Object) -> list[FieldError]:
    return []


def _no_update_errors(obj: Object, old: Object) -> list[FieldError]:
    return []


def _no_judgement(obj: Object, old: Object | None) -> list[FieldError]:
    return []


def _no_warnings(obj: Object) -> list[str]:
    return []


def _no_fields(obj: Object) -> dict[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where an object keeps what its Scale shows. Paths are the names of nested fields."""

    replicas: tuple[str, ...] = ("spec", "replicas")
    status_replicas: tuple[str, ...] = ("status", "replicas")
    selector: tuple[str, ...] = ("spec", "selector")
    """A LabelSelector, or its text; empty: there is none."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind as the API serves it. Hooks are pure functions over the JSON object."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    singular: str = ""
    list_kind: str = ""
    """Empty: the kind with `List` behind it."""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = VERBS
    status: bool = False
    """Has a `/status` subresource: main writes keep the old status, its writes
    change nothing else."""
    status_on_create: bool = False
    """A create keeps the status that it brings (nodes, that register with it)."""
    unconditional_update: bool = True
    """A PUT without a resourceVersion overwrites whatever is there; False = it must name one."""
    scale: bool = False
    """Has a `/scale` subresource."""
    scale_paths: ScalePaths = ScalePaths()
    generation: bool = False
    """metadata.generation starts at 1 and counts the changes of everything but metadata, status."""
    graceful: bool = False
    """Deletion waits for a grace period that the kind's owner ends (pods)."""
    shown_deleted: bool = False
    """DELETE answers with the object even when it is gone; else with a Status."""
    orphans: bool = False
    """A DELETE that does not say how leaves the dependents (kinds older than the garbage collector,
    for clients of that time)."""
    columns: tuple[Column, ...] = ()
    """The server adds NAME first unless one here has the format `name`, and AGE last when none is
    declared here."""
    default: Callable[[Object], None] = _nothing
    """Fill in defaults, in place. Must be idempotent."""
    prepare: Callable[[Object, Object | None], None] = lambda obj, old: None
    """Rules that rewrite a new object (old is None) or an update, in place, before validation:
    fields that clients may not set, values kept from `old`."""
    validate: Callable[[Object], list[FieldError]] = _no_errors
    validate_update: Callable[[Object, Object], list[FieldError]] = _no_update_errors
    """Given new and old: what may not change. `validate` runs besides."""
    judge: Callable[[Object, Object | None], list[FieldError]] = _no_judgement
    """Validation that knows the old object (None: it is created) and runs on every write, those
    through subresources too."""
    check: Callable[[Object], tuple[Object, list[str]]] | None = None
    """An object in normal form and its unknown fields, where the schema data does not say it.
    Raises api.check.WrongType."""
    warnings: Callable[[Object], list[str]] = _no_warnings
    """What to tell the user in `Warning` headers about an accepted object."""
    idle: bool = False
    """Kept and served, and nothing acts on it yet: who writes one is told so."""
    fields: Callable[[Object], dict[str, str]] = _no_fields
    """Field selectors beyond metadata.name and metadata.namespace."""
    name_rule: str = "dns1123subdomain"
    """dns1123subdomain, dns1123label, dns1035label or path (see api.names)."""
    aliases: tuple[tuple[str, str], ...] = field(default=())
    """Further (group, version) under which the same stored objects are served, in the form that
    `server.conversion` gives them."""

    custom: "Custom | None" = None
    """Set for what a CustomResourceDefinition defines."""

    @property
    def converted_by_webhook(self) -> bool:
        """What is stored may differ from what is served in more than its version."""
        return self.custom is not None and self.custom.conversion.get("strategy") == "Webhook"

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def storage(self) -> str:
        """The first segment of a stored object's key: `pods`, `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str | None = None, name: str | None = None, sub: str = "") -> str:
        """The URL path of the collection or of one object (and its subresource)."""
        path = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if namespace and self.namespaced:
            path += f"/namespaces/{namespace}"
        path += f"/{self.plural}"
        if name:
            path += f"/{name}"
        return f"{path}/{sub}" if sub else path
