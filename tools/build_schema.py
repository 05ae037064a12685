"""Make src/shepherd/api/schema.json.gz from what Kubernetes publishes.

    build_schema.py _definitions.json GO_SOURCES [OUTPUT]

`_definitions.json` is that of the kubernetes-validate wheel (PyPI) for the Kubernetes version to
speak: field types, list types, merge keys, kinds. GO_SOURCES is a folder that holds checkouts of
kubernetes/{api,apimachinery,apiextensions-apiserver,kube-aggregator}: from the tags of their
`types*.go` come protobuf numbers, defaults and which fields are pointers. Only names, numbers and
such defaults are taken.
The form is described in docs/adr/0004-schema-data.md.
"""

import gzip
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

Schema = dict[str, Any]

# The short name of each package of types, its OpenAPI name and its Go folder.
_META = ("meta.v1", "io.k8s.apimachinery.pkg.apis.meta.v1", "apimachinery/pkg/apis/meta/v1")
_OTHERS = [
    _META,
    (
        "apiextensions.v1",
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
        "apiextensions-apiserver/pkg/apis/apiextensions/v1",
    ),
    (
        "apiregistration.v1",
        "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1",
        "kube-aggregator/pkg/apis/apiregistration/v1",
    ),
]

# Types that have a reader of their own.
_SCALARS = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "intstr",
    "io.k8s.apimachinery.pkg.runtime.RawExtension": "raw",
    f"{_META[1]}.Time": "time",
    f"{_META[1]}.MicroTime": "microtime",
    f"{_META[1]}.FieldsV1": "fields",
    f"{_OTHERS[1][1]}.JSON": "json",
    f"{_OTHERS[1][1]}.JSONSchemaPropsOrArray": "schema-or-array",
    f"{_OTHERS[1][1]}.JSONSchemaPropsOrBool": "schema-or-bool",
    f"{_OTHERS[1][1]}.JSONSchemaPropsOrStringArray": "schema-or-strings",
}
_ZEROED = ("string", "bool", "int32", "int64", "double")
_FORMATS = {"int32": "int32", "int64": "int64", "double": "double", "byte": "bytes"}

_stable = re.compile(r"\.v\d+\.\w+$")


@dataclass(frozen=True)
class GoField:
    json: str
    """Empty: inline."""
    type: str
    number: int
    """Of the protobuf field; 0 if it has none."""
    pointer: bool
    named_slice: bool
    """Of lists, and of maps of lists: in protobuf a list is a message that holds `items`."""
    always: bool
    """Go writes it even when it is zero: absence means zero."""
    default: str
    """What absence means otherwise, as JSON; may be empty."""


@dataclass
class Package:
    name: str
    openapi: str
    structs: dict[str, list[GoField]] = field(default_factory=dict)


_struct = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_line = re.compile(r"\t(?:\w+\s+)?([\w.*\[\]]+)\s+`([^`]*)`")
_default = re.compile(r"\s*// \+default=(?:ref\((\w+)\)|(.+))$")
_constant = re.compile(r'^\s+(\w+)\s+\w+\s*= ("[^"]*")$', re.MULTILINE)
_proto = re.compile(r'protobuf:"\w+,(\d+),(\w+)')
_json = re.compile(r'json:"([^",]*)')


def read_go(folder: Path) -> dict[str, list[GoField]]:
    """The structs of a Go package."""
    text = "\n".join(path.read_text() for path in sorted(folder.glob("*types*.go")))
    constants = dict(_constant.findall(text))
    return {name: list(_go_fields(body, constants)) for name, body in _struct.findall(text)}


def _go_fields(body: str, constants: dict[str, str]) -> Iterator[GoField]:
    default = ""
    for line in body.splitlines():
        if stated := _default.match(line):
            default = constants[stated[1]] if stated[1] else stated[2]
        if not (match := _line.match(line)):
            continue
        go_type, tags = match.groups()
        stated_default, default = default, ""
        json_tag = _json.search(tags)
        if json_tag is None or json_tag[1] == "-":
            continue
        proto = _proto.search(tags)
        number, label = (int(proto[1]), proto[2]) if proto else (0, "")
        bare = go_type.lstrip("*")
        named = bare.startswith("map[") or not (bare.startswith("[]") or label == "rep")
        pointer = go_type.startswith("*")
        always = not (pointer or "omit" in tags)
        yield GoField(json_tag[1], bare, number, pointer, named, always, stated_default)


class Builder:
    def __init__(self, definitions: Schema, packages: list[Package]) -> None:
        self.definitions = definitions
        self.packages = {package.openapi: package for package in packages}
        self.types: dict[str, Any] = {}
        self.wanted: set[str] = set()

    def build(self) -> Schema:
        """All types of the stable versions, and what they reach in others."""
        kinds: dict[str, dict[str, str]] = {}
        self.wanted = {name for name in self.definitions if _stable.search(name)}
        while self.wanted:
            long_name = self.wanted.pop()
            if long_name in _SCALARS or (name := self.short(long_name)) in self.types:
                continue
            definition = self.definitions[long_name]
            self.types[name] = self.type_entry(self.package_of(long_name), name, definition)
            gvks = definition.get("x-kubernetes-group-version-kind", [])
            for gvk in gvks if len(gvks) == 1 and _stable.search(long_name) else []:
                version = f"{gvk['group']}/{gvk['version']}".lstrip("/")
                kinds.setdefault(version, {})[gvk["kind"]] = name
        used = {name.rpartition(".")[0] for name in self.types}
        packages = [package for package in self.packages.values() if package.name in used]
        return {
            "packages": {package.name: package.openapi for package in packages},
            "kinds": {version: dict(sorted(kinds[version].items())) for version in sorted(kinds)},
            "types": dict(sorted(self.types.items())),
        }

    def short(self, long_name: str) -> str:
        return f"{self.package_of(long_name).name}.{long_name.rpartition('.')[2]}"

    def package_of(self, long_name: str) -> Package:
        return self.packages[long_name.rpartition(".")[0]]

    def type_entry(self, package: Package, name: str, definition: Schema) -> list[Any]:
        """[fields, inlined messages, map type], empty ends left out."""
        go = package.structs.get(name.rpartition(".")[2], [])
        plain, inlined = {}, []
        for item in go:
            if item.json:
                plain[item.json] = item
            elif item.number:
                inner, go_type = self.inlined_package(package, item.type)
                inlined.append([item.number, self.inline(inner, go_type, definition)])
                plain |= {
                    one.json: replace(one, number=0) for one in inner.structs.get(go_type, [])
                }
        fields = [
            self.field_entry(key, value, plain.get(key), key in definition.get("required", []))
            for key, value in definition.get("properties", {}).items()
        ]
        return _trim([fields, inlined, definition.get("x-kubernetes-map-type", "")])

    def inlined_package(self, package: Package, go_type: str) -> tuple[Package, str]:
        """Where a type that Go names so is, and its bare name."""
        alias, _, bare = go_type.rpartition(".")
        if not alias:
            return package, bare
        names = {"v1": "core.v1", "corev1": "core.v1", "metav1": "meta.v1"}
        return next(p for p in self.packages.values() if p.name == names[alias]), bare

    def inline(self, package: Package, go_type: str, outer: Schema) -> str:
        """The message whose fields JSON shows in `outer`; made here if JSON has no such type."""
        name = f"{package.name}.{go_type}"
        if f"{package.openapi}.{go_type}" not in self.definitions:
            properties = {
                item.json: outer["properties"][item.json]
                for item in package.structs[go_type]
                if item.json in outer["properties"]
            }
            self.types[name] = self.type_entry(package, name, {"properties": properties})
        return name

    def field_entry(
        self, name: str, schema: Schema, go: GoField | None, required: bool
    ) -> list[Any]:
        """[name, type, protobuf number, flags, list or map type, patch strategy:key, default]."""
        text = self.type_text(schema)
        if "[]" in text and go and go.named_slice:
            text = text.replace("[]", "<>")
        flags = ("r" if required else "") + ("p" if go and go.pointer else "")
        if go and go.always and not go.default and text in _ZEROED:
            flags += "z"
        collection = schema.get("x-kubernetes-list-type") or schema.get("x-kubernetes-map-type")
        if collection == "map":
            collection = "map:" + ",".join(schema["x-kubernetes-list-map-keys"])
        strategy = schema.get("x-kubernetes-patch-strategy", "")
        key = schema.get("x-kubernetes-patch-merge-key", "")
        patch = f"{strategy}:{key}" if key else strategy
        number, default = (go.number, go.default) if go else (0, "")
        return _trim([name, text, number, flags, collection or "", patch, default])

    def type_text(self, schema: Schema) -> str:
        if ref := schema.get("$ref"):
            long_name = ref.rpartition("/")[2]
            if scalar := _SCALARS.get(long_name):
                return scalar
            self.wanted.add(long_name)
            return self.short(long_name)
        form = schema["type"]
        if isinstance(form, list):
            form = next(item for item in form if item != "null")
        if form == "array":
            return "[]" + self.type_text(schema["items"])
        if form == "object":
            return "{}" + self.type_text(schema["additionalProperties"])
        return _FORMATS.get(schema.get("format", ""), "bool" if form == "boolean" else str(form))


def _trim(row: list[Any]) -> list[Any]:
    while row and not row[-1]:
        row.pop()
    return row


def read_packages(definitions: Schema, sources: Path) -> list[Package]:
    names = sorted({name.rpartition(".")[0] for name in definitions})
    rows = [(n.removeprefix("io.k8s.api."), n) for n in names if n.startswith("io.k8s.api.")]
    packages = [(short, n, f"api/{short.replace('.', '/')}") for short, n in rows]
    return [
        Package(short, openapi, read_go(sources / folder))
        for short, openapi, folder in [*packages, *_OTHERS]
    ]


def main(definitions_path: str, sources: str, output: str = "") -> None:
    definitions = json.loads(Path(definitions_path).read_text())["$defs"]
    schema = Builder(definitions, read_packages(definitions, Path(sources))).build()
    text = json.dumps(schema, separators=(",", ":")).encode()
    root = Path(__file__).parents[1]
    target = Path(output) if output else root / "src/shepherd/api/schema.json.gz"
    target.write_bytes(gzip.compress(text, 9, mtime=0))
    sizes = f"{len(text)} bytes, {target.stat().st_size} packed"
    print(f"{target}: {len(schema['types'])} types, {sizes}")


if __name__ == "__main__":
    main(*sys.argv[1:])
