"""Calls of webhooks: a review is posted, its answer read. Conversion of custom resources.

Source: "Webhook conversion" in the documentation of CustomResourceDefinitions; apiserver
pkg/util/webhook; apiextensions-apiserver pkg/apiserver/conversion/webhook_converter.go.
"""

import base64
import binascii
import ssl
from collections import OrderedDict
from urllib.parse import urlsplit
from uuid import uuid4

import msgspec

from shepherd.api import errors
from shepherd.api.kinds import SERVICE
from shepherd.api.meta import object_key
from shepherd.api.resource import Object
from shepherd.client.base import Client
from shepherd.client.http import HttpTransport
from shepherd.server.codec import decode
from shepherd.store.base import Store

_SECONDS = 30.0
"""How long a webhook may take to answer (as apiserver's conversions)."""
_KEPT = 16
"""Webhooks whose connections stay open."""
_REVIEWS = ("v1", "v1beta1")


class Webhooks:
    """Reaches webhooks by the clientConfig of what names them: a URL, or a Service."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._clients: OrderedDict[tuple[str, str, str], Client] = OrderedDict()

    async def convert(self, webhook: Object, objects: list[Object], version: str) -> list[Object]:
        """The objects in another version, by a CRD's `spec.conversion.webhook`. Raises ApiError."""
        known = webhook.get("conversionReviewVersions") or ()
        review = next(version for version in known if version in _REVIEWS)
        uid = str(uuid4())
        asked = {
            "kind": "ConversionReview",
            "apiVersion": f"apiextensions.k8s.io/{review}",
            "request": {"uid": uid, "desiredAPIVersion": version, "objects": objects},
        }
        kind = f"{objects[0]['apiVersion']}, Kind={objects[0]['kind']}"
        try:
            answer = await self._post(webhook["clientConfig"], asked)
        except (ConnectionError, errors.ApiError, msgspec.DecodeError, OSError) as error:
            message = f"conversion webhook for {kind} failed: {error}"
            raise errors.internal(message) from error
        response = answer.get("response") or {}
        result = response.get("result") or {}
        if response.get("uid") != uid:
            raise errors.internal(f"conversion webhook for {kind} answered another request")
        if result.get("status") != "Success":
            message = result.get("message") or "it says no reason"
            raise errors.internal(f"conversion webhook for {kind} failed: {message}")
        converted: list[Object] = response.get("convertedObjects") or []
        if len(converted) != len(objects):
            raise errors.internal(
                f"conversion webhook for {kind} returned {len(converted)} objects, "
                f"expected {len(objects)}"
            )
        return converted

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()

    async def _post(self, config: Object, review: Object) -> Object:
        url, path, name = await self._target(config)
        client = await self._client(url, name, config.get("caBundle") or "")
        body = msgspec.json.encode(review)
        text = await client.raw("POST", path, body=body, content_type="application/json")
        answer = msgspec.json.decode(text)
        if not isinstance(answer, dict):
            raise ConnectionError("the answer is not an object")
        return answer

    async def _target(self, config: Object) -> tuple[str, str, str]:
        """(origin, path, name that its certificate must have)."""
        if url := config.get("url"):
            parts = urlsplit(url)
            return f"{parts.scheme}://{parts.netloc}", parts.path or "/", parts.hostname or ""
        service = config["service"]
        namespace, name, port = service["namespace"], service["name"], service.get("port") or 443
        item = await self._store.get(object_key(SERVICE, namespace, name))
        if item is None:
            raise ConnectionError(f'service "{name}" not found in namespace "{namespace}"')
        address = (decode(item.value).get("spec") or {}).get("clusterIP") or ""
        if address in ("", "None"):
            raise ConnectionError(f'service "{namespace}/{name}" has no cluster address')
        host = f"[{address}]" if ":" in address else address
        path = "/" + (service.get("path") or "").removeprefix("/")
        return f"https://{host}:{port}", path, f"{name}.{namespace}.svc"

    async def _client(self, url: str, name: str, bundle: str) -> Client:
        key = (url, name, bundle)
        client = self._clients.get(key)
        if client is None:
            context = ssl.create_default_context(cadata=_pem(bundle))
            transport = HttpTransport(
                url, ssl=context, server_name=name, first_byte_seconds=_SECONDS, connections=8
            )
            client = self._clients[key] = Client(transport, user_agent="kube-apiserver-admission")
            if len(self._clients) > _KEPT:
                _, oldest = self._clients.popitem(last=False)
                await oldest.close()
        self._clients.move_to_end(key)
        return client


def _pem(bundle: str) -> str | None:
    """A caBundle as PEM; None for the roots that the machine trusts."""
    if not bundle:
        return None
    try:
        return base64.b64decode(bundle).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise ConnectionError(f"caBundle is not PEM: {error}") from None
