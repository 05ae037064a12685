"""Objects from files: YAML or JSON, several in a file, directories, standard input."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from shepherd.api.resource import Object, Resource
from shepherd.api.yamltext import YamlError, load_all
from shepherd.cli.kinds import Kinds
from shepherd.cli.session import Failure, Usage

_SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class Document:
    """One object that a file holds."""

    source: str
    obj: Object

    async def known(self, kinds: Kinds) -> "Manifest":
        """The object with its kind. Raises Failure if the cluster has no such kind."""
        try:
            return Manifest(self.source, await kinds.of(self.obj), self.obj)
        except Usage as error:
            raise Failure(f"{self.source}: {error}") from error


@dataclass(frozen=True, slots=True)
class Manifest:
    """An object of a file, and its kind."""

    source: str
    resource: Resource
    obj: Object

    @property
    def name(self) -> str:
        return str(self.obj["metadata"]["name"])

    def namespace(self, default: str) -> str | None:
        """Where it belongs: its own namespace, else the default; None for cluster resources."""
        if not self.resource.namespaced:
            return None
        return str(self.obj["metadata"].get("namespace") or default)


def read_manifests(names: tuple[str, ...]) -> list[Document]:
    """Every object of the files and directories, in order; `-` is standard input.

    Raises Usage or Failure, naming the file.
    """
    if not names:
        raise Usage("name the files with -f (a file, a directory, or - for standard input)")
    found = [document for name in names for document in _of(name)]
    if not found:
        raise Failure(f"there are no objects in {', '.join(names)}")
    return found


def _of(name: str) -> Iterator[Document]:
    if name == "-":
        yield from _parse("standard input", sys.stdin.read())
        return
    path = Path(name)
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES)
        if not files:
            raise Failure(f"{path} holds no {', '.join(_SUFFIXES)} files")
    else:
        files = [path]
    for file in files:
        try:
            text = file.read_text()
        except (OSError, UnicodeDecodeError) as error:
            cause = getattr(error, "strerror", None) or error
            raise Failure(f"cannot read {file}: {cause}") from error
        yield from _parse(str(file), text)


def _parse(source: str, text: str) -> Iterator[Document]:
    try:
        documents, duplicates = load_all(text)
    except YamlError as error:
        raise Failure(f"{source}: {error}") from error
    for keys in duplicates.values():
        raise Failure(f'{source}: the key "{keys[0]}" is given twice')
    for document in documents:
        if document is not None:
            yield from _objects(source, document)


def _objects(source: str, document: object) -> Iterator[Document]:
    if not isinstance(document, dict) or not document.get("kind"):
        raise Failure(f"{source}: a document is no object with apiVersion, kind and metadata")
    if document["kind"] == "List":
        for item in document.get("items") or ():
            yield from _objects(source, item)
        return
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not metadata.get("name"):
        raise Failure(f"{source}: a {document['kind']} has no metadata.name")
    yield Document(source, document)
