"""CustomResourceDefinition (apiextensions.k8s.io/v1).

What the server does with one that is stored is in server.customresources; what it makes of its
objects in api.custom. Source: apiextensions-apiserver pkg/apis/apiextensions/{v1,validation}.
"""

import re
from collections.abc import Iterator
from typing import Any

from shepherd.api import errors, jsonpath
from shepherd.api.conditions import condition_is_true
from shepherd.api.errors import FieldError
from shepherd.api.kinds.shape import child, fill
from shepherd.api.names import dns1035_label, dns1123_subdomain
from shepherd.api.resource import Column, Object, Resource

CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
"""Holds a CRD until its objects are gone."""
_APPROVAL = "api-approved.kubernetes.io"
_SELECTABLE_LIMIT = 8
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = (
    "binary", "byte", "date", "date-time", "double", "float", "int32", "int64", "password",
)  # fmt: skip
_REVIEW_VERSIONS = ("v1", "v1beta1")
_PRINTABLE = re.compile(r"[^\x00-\x1f\x7f]*")


def _default(crd: Object) -> None:
    spec = child(crd, "spec")
    names = child(spec, "names")
    kind = names.get("kind") or ""
    fill(names, {"singular": kind.lower(), "listKind": f"{kind}List" if kind else ""})
    fill(child(spec, "conversion"), {"strategy": "None"})
    webhook = spec["conversion"].get("webhook") or {}
    if service := (webhook.get("clientConfig") or {}).get("service"):
        fill(service, {"port": 443})


def _prepare(crd: Object, old: Object | None) -> None:
    """The finalizer comes with the creation; the stored versions are remembered."""
    if old is None:
        metadata = child(crd, "metadata")
        kept = metadata.get("finalizers") or []
        if CLEANUP_FINALIZER not in kept:
            metadata["finalizers"] = [*kept, CLEANUP_FINALIZER]
    status = dict(crd.get("status") or {})
    stored = list(status.get("storedVersions") or [])
    for version in crd["spec"].get("versions") or ():
        if version.get("storage") and version.get("name") not in stored:
            stored.append(version.get("name"))
    crd["status"] = {"conditions": [], "acceptedNames": {"plural": "", "kind": ""}} | status
    crd["status"]["storedVersions"] = stored


# -- validation --------------------------------------------------------------------------------


def _validate(crd: Object) -> list[FieldError]:
    spec, metadata = crd["spec"], crd.get("metadata") or {}
    found = [*_identity(spec, metadata), *_names(spec["names"])]
    versions = spec.get("versions") or []
    if not versions:
        found.append(errors.required("spec.versions"))
    for at, version in enumerate(versions):
        found += _version(version, f"spec.versions[{at}]")
    named = [version.get("name") for version in versions]
    if len(set(named)) < len(named):
        detail = "must contain unique version names"
        found.append(errors.invalid_value("spec.versions", named, detail))
    if sum(bool(version.get("storage")) for version in versions) != 1:
        detail = "must have exactly one version marked as storage version"
        found.append(errors.invalid_value("spec.versions", named, detail))
    return [*found, *_conversion(spec["conversion"]), *_stored_versions(crd, named)]


def _identity(spec: Object, metadata: Object) -> Iterator[FieldError]:
    group, plural = spec.get("group") or "", spec["names"].get("plural") or ""
    name = metadata.get("name") or ""
    if name != f"{plural}.{group}":
        detail = 'must be spec.names.plural+"."+spec.group'
        yield errors.invalid_value("metadata.name", name, detail)
    if not group:
        yield errors.required("spec.group")
    elif problems := dns1123_subdomain(group):
        yield errors.invalid_value("spec.group", group, ",".join(problems))
    elif "." not in group:
        detail = "should be a domain with at least one dot"
        yield errors.invalid_value("spec.group", group, detail)
    scope = spec.get("scope") or ""
    if not scope:
        yield errors.required("spec.scope")
    elif scope not in ("Cluster", "Namespaced"):
        yield errors.not_supported("spec.scope", scope, ["Cluster", "Namespaced"])
    if spec.get("preserveUnknownFields"):
        detail = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
            "spec.versions[*].schema instead"
        )
        yield errors.invalid_value("spec.preserveUnknownFields", True, detail)
    approval = (metadata.get("annotations") or {}).get(_APPROVAL) or ""
    protected = f".{group}".endswith((".k8s.io", ".kubernetes.io"))
    if protected and not approval.startswith(("https://", "http://", "unapproved")):
        detail = (
            f'protected groups must have approval annotation "{_APPROVAL}", '
            "see https://github.com/kubernetes/enhancements/pull/1111"
        )
        yield errors.required(f"metadata.annotations[{_APPROVAL}]", detail)


def _names(names: Object) -> Iterator[FieldError]:
    path = "spec.names"
    for name in ("plural", "singular", "kind", "listKind"):
        value = names.get(name) or ""
        mixed = name in ("kind", "listKind")
        problems = dns1035_label(value.lower() if mixed else value)
        if not value:
            yield errors.required(f"{path}.{name}")
        elif problems:
            head = "may have mixed case, but should otherwise match: " if mixed else ""
            yield errors.invalid_value(f"{path}.{name}", value, head + ",".join(problems))
    if names.get("kind") and names["kind"] == names.get("listKind"):
        detail = "kind and listKind may not be the same"
        yield errors.invalid_value(f"{path}.listKind", names["listKind"], detail)
    for name in ("shortNames", "categories"):
        for at, value in enumerate(names.get(name) or ()):
            if problems := dns1035_label(value):
                yield errors.invalid_value(f"{path}.{name}[{at}]", value, ",".join(problems))


def _version(version: Object, path: str) -> Iterator[FieldError]:
    from shepherd.api.custom.schemarules import check_schema

    name = version.get("name") or ""
    if problems := dns1035_label(name):
        yield errors.invalid_value(f"{path}.name", name, ",".join(problems))
    warning = version.get("deprecationWarning")
    if warning is not None and not version.get("deprecated"):
        detail = "can only be set for deprecated versions"
        yield errors.invalid_value(f"{path}.deprecationWarning", warning, detail)
    elif warning is not None and not (0 < len(warning) <= 256 and _PRINTABLE.fullmatch(warning)):
        detail = "must be 1 to 256 printable characters"
        yield errors.invalid_value(f"{path}.deprecationWarning", warning, detail)
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    place = f"{path}.schema.openAPIV3Schema"
    if schema is None:
        yield errors.required(place)
        return
    problems_of_schema = check_schema(schema, place)
    yield from problems_of_schema
    yield from _scale(version.get("subresources") or {}, f"{path}.subresources.scale")
    for at, column in enumerate(version.get("additionalPrinterColumns") or ()):
        yield from _column(column, f"{path}.additionalPrinterColumns[{at}]")
    if not problems_of_schema:
        selectable = version.get("selectableFields") or []
        yield from _selectable(selectable, schema, f"{path}.selectableFields")


def _scale(subresources: Object, path: str) -> Iterator[FieldError]:
    scale = subresources.get("scale")
    if scale is None:
        return
    for name, root, needed in (
        ("specReplicasPath", "spec", True),
        ("statusReplicasPath", "status", True),
        ("labelSelectorPath", "", False),
    ):
        value = scale.get(name) or ""
        parts = jsonpath.fields(value)
        if not value:
            if needed:
                yield errors.required(f"{path}.{name}")
        elif not parts:
            detail = "should be a json path without array notation"
            yield errors.invalid_value(f"{path}.{name}", value, detail)
        elif parts[0] not in ((root,) if root else ("spec", "status")):
            detail = f"should be a json path under .{root or 'spec or .status'}"
            yield errors.invalid_value(f"{path}.{name}", value, detail)


def _column(column: Object, path: str) -> Iterator[FieldError]:
    if not column.get("name"):
        yield errors.required(f"{path}.name")
    allowed = ",".join(_COLUMN_TYPES)
    if not column.get("type"):
        yield errors.required(f"{path}.type", f"must be one of {allowed}")
    elif column["type"] not in _COLUMN_TYPES:
        detail = f"must be one of {allowed}"
        yield errors.invalid_value(f"{path}.type", column["type"], detail)
    if column.get("format") and column["format"] not in _COLUMN_FORMATS:
        detail = f"must be one of {','.join(_COLUMN_FORMATS)}"
        yield errors.invalid_value(f"{path}.format", column["format"], detail)
    if not column.get("jsonPath"):
        yield errors.required(f"{path}.jsonPath")
        return
    try:
        jsonpath.parse(column["jsonPath"])
    except jsonpath.JsonPathError as error:
        yield errors.invalid_value(f"{path}.jsonPath", column["jsonPath"], str(error))


def _selectable(selectable: list[Object], schema: Object, path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for at, field in enumerate(selectable):
        text, place = field.get("jsonPath") or "", f"{path}[{at}].jsonPath"
        names = jsonpath.fields(text)
        if not text:
            yield errors.required(place)
            continue
        node: Any = schema
        for name in names or ():
            node = (node.get("properties") or {}).get(name) or {}
        if not names or not node:
            yield errors.invalid_value(place, text, "is an invalid path")
        elif names[0] == "metadata":
            yield errors.invalid_value(place, text, "must not point to fields in metadata")
        elif node.get("type") not in ("string", "boolean", "integer"):
            detail = (
                "must point to a field of type string, boolean or integer. "
                "Enum string fields and strings with formats are allowed."
            )
            yield errors.invalid_value(place, text, detail)
        if text in seen:
            yield errors.duplicate(place, text)
        seen.add(text)
    if len(seen) > _SELECTABLE_LIMIT:
        yield errors.too_many(path, len(seen), _SELECTABLE_LIMIT)


def _conversion(conversion: Object) -> Iterator[FieldError]:
    path, strategy = "spec.conversion", conversion.get("strategy") or ""
    webhook = conversion.get("webhook")
    if strategy not in ("None", "Webhook"):
        yield errors.not_supported(f"{path}.strategy", strategy, ["None", "Webhook"])
    elif strategy == "None":
        if webhook is not None:
            detail = "should not be set when strategy is not set to Webhook"
            yield errors.forbidden_field(f"{path}.webhook", detail)
    elif webhook is None or webhook.get("clientConfig") is None:
        detail = "required when strategy is set to Webhook"
        yield errors.required(f"{path}.webhook.clientConfig", detail)
    else:
        yield from _client_config(webhook["clientConfig"], f"{path}.webhook.clientConfig")
        reviews = webhook.get("conversionReviewVersions") or []
        if not reviews:
            yield errors.required(f"{path}.webhook.conversionReviewVersions")
        elif not set(reviews) & set(_REVIEW_VERSIONS):
            detail = f"must include at least one of {', '.join(_REVIEW_VERSIONS)}"
            yield errors.invalid_value(f"{path}.webhook.conversionReviewVersions", reviews, detail)


def _client_config(config: Object, path: str) -> Iterator[FieldError]:
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        yield errors.required(path, "exactly one of url or service is required")
    elif url is not None and not url.startswith("https://"):
        detail = "'https' is the only allowed URL scheme; desired format: https://host[/path]"
        yield errors.invalid_value(f"{path}.url", url, detail)
    elif service is not None:
        for name in ("namespace", "name"):
            if not service.get(name):
                yield errors.required(f"{path}.service.{name}")


def _stored_versions(crd: Object, named: list[Any]) -> Iterator[FieldError]:
    path = "status.storedVersions"
    for at, name in enumerate((crd.get("status") or {}).get("storedVersions") or ()):
        if name not in named:
            detail = (
                f"missing from spec.versions; {name} was previously a storage version, and must "
                "remain in spec.versions until a storage migration ensures no data remains "
                f"persisted in {name} and removes {name} from status.storedVersions"
            )
            yield errors.invalid_value(f"{path}[{at}]", name, detail)


def _validate_update(crd: Object, old: Object) -> list[FieldError]:
    spec, before = crd["spec"], old["spec"]
    fixed = [
        ("group", spec, before, "spec"),
        ("plural", spec["names"], before["names"], "spec.names"),
    ]
    if condition_is_true(old, "Established"):
        fixed += [
            ("scope", spec, before, "spec"),
            ("kind", spec["names"], before["names"], "spec.names"),
        ]
    return [
        errors.invalid_value(f"{path}.{name}", new.get(name), "field is immutable")
        for name, new, was, path in fixed
        if new.get(name) != was.get(name)
    ]


# -- columns -----------------------------------------------------------------------------------


def _created(crd: Object, now: float) -> str:
    created: str = (crd.get("metadata") or {}).get("creationTimestamp") or ""
    return created


CUSTOM_RESOURCE_DEFINITION = Resource(
    group="apiextensions.k8s.io",
    version="v1",
    kind="CustomResourceDefinition",
    plural="customresourcedefinitions",
    singular="customresourcedefinition",
    namespaced=False,
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    status=True,
    generation=True,
    columns=(Column("Created At", _created, type="date", description="When it was created."),),
    default=_default,
    prepare=_prepare,
    validate=_validate,
    validate_update=_validate_update,
)
