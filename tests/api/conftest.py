"""The API server behind a real socket, without and with TLS, and kubectl pointed at it.

Of tests that have a `cluster` of nodes, `kubectl` is its administrator's.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from shepherd.client.base import Client
from shepherd.client.http import HttpTransport
from shepherd.client.kubeconfig import Kubeconfig, write_kubeconfig
from shepherd.lib.clock import SystemClock
from shepherd.lib.httpd import serve
from shepherd.server.app import ApiServer
from shepherd.server.auth import Authenticator, CredentialAuthenticator, InsecureAuthenticator
from shepherd.server.authorization.chain import authorizer
from shepherd.server.config import ServerConfig
from shepherd.server.pki import Pki
from shepherd.server.signing import CertificateSigner
from shepherd.server.tokens import ServiceAccountTokens
from shepherd.store.memory import MemoryStore
from shepherd.testing import Cluster

KUBECTL = Path(sys.executable).parent / "kubectl"


@dataclass
class Served:
    """A server on a socket, and how its administrator reaches it."""

    config: Kubeconfig
    home: Path

    def client(self) -> Client:
        transport = HttpTransport(self.config.server, ssl=self.config.ssl_context())
        return Client(transport)

    async def start_kubectl(self, *arguments: str) -> asyncio.subprocess.Process:
        environment = os.environ | {
            "KUBECONFIG": str(self.home / "kubeconfig"),
            "HOME": str(self.home),
        }
        return await asyncio.create_subprocess_exec(
            KUBECTL,
            *arguments,
            env=environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    async def kubectl(self, *arguments: str, stdin: str = "", code: int = 0) -> str:
        """What kubectl prints; on standard error, if it is to fail."""
        process = await self.start_kubectl(*arguments)
        out, err = await process.communicate(stdin.encode())
        assert process.returncode == code, err.decode()
        return (err if code else out).decode()


@pytest.fixture(params=["plain", "tls"])
async def served(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Served]:
    clock, random, store = SystemClock(), Random(1), MemoryStore()
    authenticator: Authenticator = InsecureAuthenticator()
    pki = accounts = None
    if request.param == "tls":
        pki = Pki.open(tmp_path / "pki", clock=clock)
        accounts = ServiceAccountTokens(pki.service_account_key, clock, random)
        authenticator = CredentialAuthenticator(store, accounts=accounts)
    api = ApiServer(
        store,
        config=ServerConfig(),
        clock=clock,
        random=random,
        authenticator=authenticator,
        authorizer=authorizer(store),
        tokens=accounts,
        signer=CertificateSigner(pki) if pki else None,
    )
    await api.start()
    httpd = await serve(api.handle, "127.0.0.1", 0, ssl=pki.serving_context() if pki else None)
    config = Kubeconfig(f"http://127.0.0.1:{httpd.port}")
    if pki:
        url, admin = f"https://127.0.0.1:{httpd.port}", pki.admin
        config = Kubeconfig(url, ca=pki.ca, certificate=admin.certificate, key=admin.key)
    write_kubeconfig(tmp_path / "kubeconfig", config)
    yield Served(config, tmp_path)
    await httpd.close(1)
    await store.close()


class Shell:
    """kubectl, for the administrator of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        home = {"HOME": str(cluster.kubeconfig.parent)}
        self._environment = os.environ | cluster.settings.environment | home

    def __call__(self, *arguments: str, stdin: str = "", code: int = 0) -> str:
        """What it prints on both of its outputs."""
        done = subprocess.run(
            [KUBECTL, *arguments],
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self._environment,
            timeout=60,
            check=False,
        )
        assert done.returncode == code, done.stdout
        return done.stdout

    def apply(self, manifest: dict[str, Any]) -> str:
        return self("apply", "-f", "-", stdin=json.dumps(manifest))

    def names(self, kind: str) -> list[str]:
        return self("get", kind, "-o", "name").split()

    def of_pods(self, field: str) -> set[str]:
        """The values of a field of all pods."""
        return set(self("get", "pods", "-o", f"jsonpath={{.items[*].{field}}}").split())


@pytest.fixture
def kubectl(cluster: Cluster) -> Shell:
    return Shell(cluster)
