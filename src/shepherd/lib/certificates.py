"""Keys and certificates, made in a process of their own.

The library that makes them takes 18 MB and 80 ms to load, and most programs make some once, at
their first start. So a child does the work and takes the memory along when it ends.
"""

import pickle
import subprocess
import sys
from dataclasses import dataclass
from typing import Any, Self


class RequestError(ValueError):
    """A certificate signing request that is not one, or has a bad signature."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Whom a certificate names, and what for."""

    name: str
    groups: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    """Names and addresses of a server. With them it is a serving certificate, else a client's."""


@dataclass(frozen=True, slots=True)
class Requested:
    """What a signing request asks for."""

    name: str
    groups: tuple[str, ...]
    hosts: tuple[str, ...]
    """DNS names and addresses."""
    others: tuple[str, ...]
    """E-mail addresses and URIs."""


class Workshop:
    """Makes keys and certificates (ECDSA P-256; PEM; times in epoch seconds) while it is open.

    Costs nothing until it is first asked for something. Its methods block.
    """

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._child is not None:
            self._child.communicate()

    def new_authority(self, name: str, now: float, expires: float) -> str:
        """A new certificate authority: certificate and key."""
        return str(self._ask("new_authority", name, now, expires))

    def issue(self, authority: str, subject: Subject, now: float, expires: float) -> str:
        """A certificate for `subject`, with a new key."""
        return str(self._ask("issue", authority, subject, now, expires))

    def sign_request(
        self, authority: str, request: str, subject: Subject, now: float, expires: float
    ) -> str:
        """A certificate for `subject` with the key of a signing request.

        Of the request only the key counts, whatever else it asks for. Raises RequestError.
        """
        return str(self._ask("sign_request", authority, request, subject, now, expires))

    def read_request(self, request: str) -> Requested:
        """What a signing request asks for. Raises RequestError."""
        found = self._ask("read_request", request)
        assert isinstance(found, Requested)
        return found

    def new_request(self, name: str) -> tuple[str, str]:
        """A new key and a signing request for it."""
        key, request = self._ask("new_request", name)
        return str(key), str(request)

    def _ask(self, function: str, *arguments: object) -> Any:
        if self._child is None:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "shepherd.lib.x509"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        assert self._child.stdin
        assert self._child.stdout
        pickle.dump((function, arguments), self._child.stdin)
        self._child.stdin.flush()
        answer = pickle.load(self._child.stdout)
        if isinstance(answer, Exception):
            raise answer
        return answer
