"""Calls of webhooks, conversion's and admission's, by their clientConfig: a URL, or a Service.

Source: apiserver pkg/util/webhook.
"""

import asyncio
import ssl
from urllib.parse import urlsplit

import msgspec

from shepherd.api.errors import ApiError
from shepherd.api.resource import Object
from shepherd.client.base import Client
from shepherd.client.http import HttpTransport
from shepherd.server.reach import Reach, Trust


class CalloutError(Exception):
    """Nobody answered as they should; the message says why."""


class Callouts:
    """Posts reviews."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def post(self, config: Object, review: Object, seconds: float) -> Object:
        """The review that answers `review`. Raises CalloutError."""
        where = config.get("url") or _service_url(config["service"])
        query = {"timeout": f"{seconds:g}s"}
        try:
            async with asyncio.timeout(seconds):
                transport, path = await self._transport(config)
                client = Client(transport, user_agent="kube-apiserver-admission")
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

    async def _transport(self, config: Object) -> tuple[HttpTransport, str]:
        """What reaches the webhook, and its path there. Raises ApiError, ConnectionError."""
        trust = Trust(config.get("caBundle") or "")
        try:
            if url := config.get("url"):
                parts = urlsplit(url)
                origin = f"{parts.scheme}://{parts.netloc}"
                transport = await self._reach.origin(origin, parts.hostname or "", trust)
                return transport, parts.path or "/"
            service = config["service"]
            path = "/" + (service.get("path") or "").removeprefix("/")
            namespace, name, port = service["namespace"], service["name"], service.get("port")
            return await self._reach.service(namespace, name, port or 443, trust), path
        except ssl.SSLError as error:
            raise ConnectionError(f"caBundle is not PEM: {error}") from None


def _service_url(service: Object) -> str:
    host, port = f"{service['name']}.{service['namespace']}.svc", service.get("port") or 443
    return f"https://{host}:{port}/{(service.get('path') or '').removeprefix('/')}"
