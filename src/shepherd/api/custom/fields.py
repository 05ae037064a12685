"""How a custom resource's schema takes its objects apart, for server-side apply.

Source: "Server-Side Apply", merge strategy; kube-openapi pkg/schemaconv.
"""

from functools import cached_property

from shepherd.api.custom.structural import ABSENT, Structural
from shepherd.api.typed import FREE, LEAF, Keys, Node

_METADATA = Node("struct", "meta.v1.ObjectMeta")


class Fields:
    """The nodes of what a schema describes, made when first asked for."""

    def __init__(self, schema: Structural) -> None:
        self._schema = schema
        self._known: dict[str, Node] = {}

    def part(self, name: str) -> Node:
        """The node of a property, or of a list's items; what has no schema is free."""
        if self._schema.items:
            return self._item
        node = self._known.get(name)
        if node is None:
            if self._schema.resource and name in ("apiVersion", "kind"):
                node = LEAF
            elif self._schema.resource and name == "metadata":
                node = _METADATA
            elif part := self._schema.properties.get(name) or self._schema.additional:
                node = node_of(part)
            else:
                return FREE
            self._known[name] = node
        return node

    @cached_property
    def _item(self) -> Node:
        assert self._schema.items
        return node_of(self._schema.items)


def node_of(schema: Structural) -> Node:
    """The node of a schema's value."""
    if schema.type == "array":
        match schema.list_type:
            case "map":
                return Node("items", keys=_keys(schema), schema=Fields(schema))
            case "set":
                return Node("set", schema=Fields(schema))
        return LEAF
    if schema.type == "object":
        if schema.map_type == "atomic":
            return LEAF
        form = "map" if schema.additional and not schema.properties else "struct"
        return Node(form, schema=Fields(schema))
    return FREE if schema.open else LEAF


def _keys(schema: Structural) -> Keys:
    fields = schema.items.properties if schema.items else {}
    found = []
    for key in sorted(schema.list_keys):
        default = fields[key].default if key in fields else ABSENT
        found.append((key, None if default is ABSENT else default))
    return tuple(found)
