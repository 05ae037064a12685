"""Image references: `docker.io` and `:latest` understood, as distribution/reference parses them."""

import re
from dataclasses import dataclass

from shepherd.runtime.base import SheepError

_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_PART}(?:/{_PART})*")
_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_REGISTRY = re.compile(r"(?:\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+)(?::\d+)?")


@dataclass(frozen=True, slots=True)
class Reference:
    registry: str
    repository: str
    tag: str = ""
    digest: str = ""
    """With a digest the tag only tells the reader something."""

    def __str__(self) -> str:
        suffix = f"@{self.digest}" if self.digest else f":{self.tag}"
        return f"{self.name}{suffix}"

    @property
    def name(self) -> str:
        return f"{self.registry}/{self.repository}"


def parse(text: str) -> Reference:
    """A reference in its normal form. Raises SheepError (InvalidImageName)."""
    rest, _, digest = text.partition("@")
    head, slash, tail = rest.partition("/")
    if slash and ("." in head or ":" in head or head == "localhost"):
        registry, rest = head, tail
    else:
        registry = "docker.io"
    rest, colon, tag = rest.partition(":")
    if registry == "docker.io" and "/" not in rest:
        rest = f"library/{rest}"
    valid = (
        _REGISTRY.fullmatch(registry)
        and _REPOSITORY.fullmatch(rest)
        and (not colon or _TAG.fullmatch(tag))
        and ("@" not in text or _DIGEST.fullmatch(digest))
    )
    if not valid:
        message = f'invalid reference format: "{text}" (expected [registry/]name[:tag][@sha256:..])'
        raise SheepError("InvalidImageName", message)
    return Reference(registry, rest, tag or ("" if digest else "latest"), digest)
