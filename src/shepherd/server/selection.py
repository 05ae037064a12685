"""Which objects a list or watch wants: the label and field selectors of its query."""

from dataclasses import dataclass

import msgspec

from shepherd.api import errors
from shepherd.api.meta import key_prefix, object_key, split_key
from shepherd.api.resource import Object, Resource
from shepherd.api.selectors import (
    FieldSelector,
    Selector,
    parse_field_selector,
    parse_selector,
)
from shepherd.server.routes import Route
from shepherd.store.base import Span

_NAME, _NAMESPACE = "metadata.name", "metadata.namespace"


class _Metadata(msgspec.Struct):
    labels: dict[str, str] = {}


class _Labelled(msgspec.Struct):
    """Of a stored object only its labels: a quarter of the cost of decoding it whole."""

    metadata: _Metadata


@dataclass(slots=True)
class Facts:
    """What selectors ask about one stored object, worked out when first asked."""

    resource: Resource
    key: str
    value: bytes
    _labels: dict[str, str] | None = None
    _fields: dict[str, str] | None = None

    @property
    def labels(self) -> dict[str, str]:
        if self._labels is None:
            self._labels = msgspec.json.decode(self.value, type=_Labelled).metadata.labels
        return self._labels

    @property
    def fields(self) -> dict[str, str]:
        if self._fields is None:
            obj: Object = msgspec.json.decode(self.value)
            _, namespace, name = split_key(self.key)
            self._fields = self.resource.fields(obj) | {_NAME: name, _NAMESPACE: namespace}
        return self._fields


@dataclass(frozen=True, slots=True)
class Selection:
    """What a query selects of a resource."""

    resource: Resource
    span: Span
    labels: Selector
    fields: FieldSelector

    @property
    def everything(self) -> bool:
        """Every key of the span is selected: nothing needs to be decoded."""
        return self.labels.empty and self.fields.empty

    def matches(self, facts: Facts) -> bool:
        return (self.labels.empty or self.labels.matches(facts.labels)) and (
            self.fields.empty or self.fields.matches(facts.fields)
        )


def select(route: Route, query: dict[str, str]) -> Selection:
    """The selection that a list or watch asks for. Raises ApiError 400."""
    resource = route.resource
    labels = parse_selector(query.get("labelSelector", ""))
    fields = parse_field_selector(query.get("fieldSelector", ""))
    known = resource.fields({})
    for field in fields.fields:
        if field not in known and field not in (_NAME, _NAMESPACE):
            raise errors.bad_request(
                f'Unable to find "{route.group}/{route.version}, Resource={resource.plural}" that '
                f'match label selector "{labels}", field selector "{fields}": '
                + (
                    f"field label not supported: {field}"
                    if known
                    else f'"{field}" is not a known field selector: only "{_NAME}", "{_NAMESPACE}"'
                )
            )
    name = route.name or fields.exact(_NAME) or ""
    namespace = route.namespace or (fields.exact(_NAMESPACE) if resource.namespaced else "") or ""
    if name and (namespace or not resource.namespaced):
        key = object_key(resource, namespace, name)
        span = Span(key, key + "\0")
    else:
        span = Span.prefix(key_prefix(resource, namespace or None))
    return Selection(resource, span, labels, fields)
