"""Calls that the server makes to what users run: webhooks, by their clientConfig.

A clientConfig names a URL, or a Service, which is reached at one of its ready endpoints; its
certificate must be of `<service>.<namespace>.svc` and of the given authority. Source: apiserver
pkg/util/webhook.
"""

import asyncio
import base64
import binascii
import ssl
from collections import OrderedDict
from random import Random
from urllib.parse import urlsplit

import msgspec

from shepherd.api.errors import ApiError
from shepherd.api.resource import Object
from shepherd.client.base import Client
from shepherd.client.http import HttpTransport
from shepherd.server import backends
from shepherd.store.base import Store

_KEPT = 32
"""Callees whose connections stay open."""
_CONNECTIONS = 32
"""To each of them."""


class CalloutError(Exception):
    """Nobody answered as they should; the message says why."""


class Callouts:
    """Posts reviews."""

    def __init__(self, store: Store, random: Random) -> None:
        self._store = store
        self._random = random
        self._clients: OrderedDict[tuple[str, str, str], Client] = OrderedDict()

    async def post(self, config: Object, review: Object, seconds: float) -> Object:
        """The review that answers `review`. Raises CalloutError."""
        where = config.get("url") or _service_url(config["service"])
        query = {"timeout": f"{seconds:g}s"}
        try:
            async with asyncio.timeout(seconds):
                client, path = await self._client(config)
                body = msgspec.json.encode(review)
                text = await client.raw(
                    "POST", path, query=query, body=body, content_type="application/json"
                )
            answer = msgspec.json.decode(text)
        except TimeoutError:
            cause = "context deadline exceeded"
            raise CalloutError(f'Post "{where}?timeout={seconds:g}s": {cause}') from None
        except (ApiError, OSError, msgspec.DecodeError) as error:
            raise CalloutError(f'Post "{where}?timeout={seconds:g}s": {error}') from error
        if not isinstance(answer, dict):
            raise CalloutError("the answer is not an object")
        return answer

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()

    async def _client(self, config: Object) -> tuple[Client, str]:
        """Who reaches the callee, and its path there. Raises ApiError, ConnectionError."""
        if url := config.get("url"):
            parts = urlsplit(url)
            origin, path, name = f"{parts.scheme}://{parts.netloc}", parts.path, parts.hostname
        else:
            service = config["service"]
            namespace, name = service["namespace"], service["name"]
            port = str(service.get("port") or 443)
            host, number = await backends.choose(self._store, self._random, namespace, name, port)
            origin, path = f"https://{backends.bracketed(host)}:{number}", service.get("path") or ""
            name = f"{name}.{namespace}.svc"
        client = await self._known(origin, name or "", config.get("caBundle") or "")
        return client, "/" + path.removeprefix("/")

    async def _known(self, origin: str, name: str, bundle: str) -> Client:
        key = (origin, name, bundle)
        client = self._clients.get(key)
        if client is None:
            context = ssl.create_default_context(cadata=_pem(bundle))
            transport = HttpTransport(
                origin, ssl=context, server_name=name, connections=_CONNECTIONS
            )
            client = self._clients[key] = Client(transport, user_agent="kube-apiserver-admission")
            if len(self._clients) > _KEPT:
                _, oldest = self._clients.popitem(last=False)
                await oldest.close()
        self._clients.move_to_end(key)
        return client


def _service_url(service: Object) -> str:
    host, port = f"{service['name']}.{service['namespace']}.svc", service.get("port") or 443
    return f"https://{host}:{port}/{(service.get('path') or '').removeprefix('/')}"


def _pem(bundle: str) -> str | None:
    """A caBundle as PEM; None for the roots that the machine trusts. Raises ConnectionError."""
    if not bundle:
        return None
    try:
        return base64.b64decode(bundle).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise ConnectionError(f"caBundle is not PEM: {error}") from None
