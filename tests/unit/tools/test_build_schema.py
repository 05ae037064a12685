"""The tool that makes the schema data, on a small example of its sources."""

import gzip
import importlib.util
import json
from pathlib import Path

TOOL = Path(__file__).parents[3] / "tools" / "build_schema.py"

GO = """
type Thing struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	// How big it is.
	// +default=3
	Size *int32 `json:"size,omitempty" protobuf:"varint,2,opt,name=size"`
	// +default=ref(Red)
	Colour Colour `json:"colour,omitempty" protobuf:"bytes,5,opt,name=colour"`
	Count int64 `json:"count" protobuf:"varint,6,opt,name=count"`
	Source `json:",inline" protobuf:"bytes,3,opt,name=source"`
	Extra map[string]Values `json:"extra,omitempty" protobuf:"bytes,4,rep,name=extra"`
}

type Source struct {
	Path string `json:"path" protobuf:"bytes,1,opt,name=path"`
}

type Colour string

const (
	Red Colour = "red"
)

type Values []string
"""

_ARRAY = {"type": ["array", "null"], "items": {"type": "string"}}
DEFINITIONS = {
    "io.k8s.api.toys.v1.Thing": {
        "type": "object",
        "required": ["path"],
        "x-kubernetes-group-version-kind": [{"group": "toys", "kind": "Thing", "version": "v1"}],
        "properties": {
            "kind": {"type": ["string", "null"]},
            "metadata": {"$ref": "#/$defs/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"},
            "size": {"type": ["integer", "null"], "format": "int32"},
            "colour": {"type": ["string", "null"]},
            "count": {"type": "integer", "format": "int64"},
            "path": {"type": "string"},
            "extra": {"type": ["object", "null"], "additionalProperties": _ARRAY},
        },
    },
    "io.k8s.api.toys.v1alpha1.Unused": {"type": "object"},
    "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": {
        "type": "object",
        "properties": {
            "finalizers": _ARRAY
            | {"x-kubernetes-list-type": "set", "x-kubernetes-patch-strategy": "merge"},
            "ownerReferences": _ARRAY
            | {
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["uid"],
                "x-kubernetes-patch-strategy": "merge",
                "x-kubernetes-patch-merge-key": "uid",
            },
        },
    },
}


def test_json_schemas_and_go_tags_become_one_table(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("build_schema", TOOL)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    package = tmp_path / "go" / "api" / "toys" / "v1"
    package.mkdir(parents=True)
    (package / "types.go").write_text(GO)
    definitions = tmp_path / "definitions.json"
    definitions.write_text(json.dumps({"$defs": DEFINITIONS}))
    tool.main(str(definitions), str(tmp_path / "go"), str(tmp_path / "out.gz"))
    assert json.loads(gzip.decompress((tmp_path / "out.gz").read_bytes())) == {
        "packages": {
            "toys.v1": "io.k8s.api.toys.v1",
            "meta.v1": "io.k8s.apimachinery.pkg.apis.meta.v1",
        },
        "kinds": {"toys/v1": {"Thing": "toys.v1.Thing"}},
        "types": {
            "meta.v1.ObjectMeta": [
                [
                    ["finalizers", "[]string", 0, "", "set", "merge"],
                    ["ownerReferences", "[]string", 0, "", "map:uid", "merge:uid"],
                ]
            ],
            "toys.v1.Source": [[["path", "string", 1, "z"]]],
            "toys.v1.Thing": [
                [
                    ["kind", "string"],
                    ["metadata", "meta.v1.ObjectMeta", 1],
                    ["size", "int32", 2, "p", "", "", "3"],
                    ["colour", "string", 5, "", "", "", '"red"'],
                    ["count", "int64", 6, "z"],
                    ["path", "string", 0, "rz"],
                    ["extra", "{}<>string", 4],
                ],
                [[3, "toys.v1.Source"]],
            ],
        },
    }
