"""Conversion of custom resources by the webhook that their definition names.

Source: "Webhook conversion" in the documentation of CustomResourceDefinitions;
apiextensions-apiserver pkg/apiserver/conversion/webhook_converter.go.
"""

from uuid import uuid4

from shepherd.api import errors
from shepherd.api.resource import Object
from shepherd.server.callouts import CalloutError, Callouts

_SECONDS = 30.0
"""How long a webhook may take to answer."""
_REVIEWS = ("v1", "v1beta1")


class ConversionWebhook:
    """Asks conversion webhooks."""

    def __init__(self, callouts: Callouts) -> None:
        self._callouts = callouts

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
            answer = await self._callouts.post(webhook["clientConfig"], asked, _SECONDS)
        except CalloutError as error:
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
