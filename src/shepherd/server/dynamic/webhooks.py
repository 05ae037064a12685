"""Admission webhooks: who is asked about a write, and what their answers do to it.

Source: "Dynamic Admission Control"; apiserver pkg/admission/plugin/webhook.
"""

import base64
import binascii
import logging
from typing import Any
from uuid import uuid4

import msgspec

from shepherd.api import errors
from shepherd.api.decode import check_object
from shepherd.api.kinds.admissions import WEBHOOK_VARIABLES
from shepherd.api.patch import json_patch
from shepherd.api.resource import Object, Resource
from shepherd.server.callouts import CalloutError, Callouts
from shepherd.server.dynamic.conditions import Conditions
from shepherd.server.dynamic.evaluation import Evaluation
from shepherd.server.dynamic.matching import Matching, Siblings
from shepherd.server.dynamic.subject import Subject

log = logging.getLogger("shepherd.server")

_REVIEWS = ("v1", "v1beta1")
_NO_REASON = "without explanation"


class Webhook:
    """One webhook of a configuration."""

    def __init__(self, webhook: Object, callouts: Callouts, siblings: Siblings) -> None:
        self.name: str = webhook["name"]
        self.spec = webhook
        self._callouts = callouts
        self._siblings = siblings
        self._config: Object = webhook["clientConfig"]
        self._matching = Matching.of_webhook(webhook)
        self._conditions = Conditions(webhook.get("matchConditions") or ())
        self._ignores_failures = webhook.get("failurePolicy") == "Ignore"
        self._seconds: float = webhook.get("timeoutSeconds") or 10
        self._side_effects: str = webhook.get("sideEffects") or "Unknown"
        known = webhook.get("admissionReviewVersions") or _REVIEWS[:1]
        self._review = next((version for version in known if version in _REVIEWS), _REVIEWS[0])

    async def target(self, subject: Subject) -> Resource | None:
        """As which resource it is to see the write; None if it is not asked. Raises ApiError."""
        resource = await self._matching.find(subject, self._siblings)
        if resource is None or self._conditions.empty:
            return resource
        values = await subject.values(resource)
        verdict = await self._conditions.judge(
            Evaluation(WEBHOOK_VARIABLES, values, subject.decide)
        )
        if not verdict.problems:
            return resource if verdict.holds else None
        if self._ignores_failures:
            return None
        asked = subject.asked.route
        detail = "[" + ", ".join(verdict.problems) + "]"
        raise errors.forbidden(asked.group, asked.resource.plural, subject.name, detail)

    async def ask(self, subject: Subject, resource: Resource) -> list[Any]:
        """The operations of its patch, if it has one. Raises ApiError if it refuses the write, or
        fails and must not."""
        if subject.asked.dry_run and self._side_effects not in ("None", "NoneOnDryRun"):
            raise errors.bad_request(f'admission webhook "{self.name}" does not support dry run')
        try:
            response = await self._response(subject, resource)
        except CalloutError as error:
            message = f'failed calling webhook "{self.name}": {error}'
            if not self._ignores_failures:
                raise errors.internal(message) from error
            log.warning("%s: passed over", message)
            return []
        subject.asked.warnings += response.get("warnings") or ()
        if not response.get("allowed"):
            raise _denied(self.name, response.get("status") or {})
        operations: list[Any] = response.get("patch") or []
        return operations

    async def _response(self, subject: Subject, resource: Resource) -> Object:
        """Its answer, with the patch decoded. Raises CalloutError."""
        uid = str(uuid4())
        new, old = await subject.view(resource)
        request = subject.request(resource, uid) | {"object": new, "oldObject": old}
        review = {
            "kind": "AdmissionReview",
            "apiVersion": f"admission.k8s.io/{self._review}",
            "request": request,
        }
        try:
            answer = await self._callouts.post(self._config, review, self._seconds)
        except CalloutError as error:
            raise CalloutError(f"failed to call webhook: {error}") from error
        head = "received invalid webhook response: "
        response = answer.get("response")
        if not isinstance(response, dict):
            raise CalloutError(f"{head}webhook response was absent")
        if self._review == "v1":
            if response.get("uid") != uid:
                given = response.get("uid") or ""
                raise CalloutError(f'{head}expected response.uid="{uid}", got "{given}"')
            if (answer.get("apiVersion"), answer.get("kind")) != (
                review["apiVersion"], review["kind"]
            ):  # fmt: skip
                raise CalloutError(f"{head}expected {review['apiVersion']}, Kind=AdmissionReview")
        return response | {"patch": _operations(response)}


def _operations(response: Object) -> list[Any]:
    """A base64 JSON patch. Raises CalloutError."""
    if not (text := response.get("patch")):
        return []
    kind = response.get("patchType") or "JSONPatch"
    if kind != "JSONPatch":
        raise CalloutError(f'unsupported patch type "{kind}"')
    try:
        operations = msgspec.json.decode(base64.b64decode(text), type=list[Any])
    except (binascii.Error, TypeError, msgspec.DecodeError) as error:
        message = f"received undecodable patch in webhook response: {error}"
        raise CalloutError(message) from None
    return operations


def _denied(name: str, status: Object) -> errors.ApiError:
    cause = status.get("message") or status.get("reason") or ""
    message = f'admission webhook "{name}" denied the request'
    message += f": {cause}" if cause else f" {_NO_REASON}"
    code = max(int(status.get("code") or 0), 400)
    reason, details = status.get("reason") or "", status.get("details")
    return errors.ApiError(code, reason, message, details=details)


class MutatingWebhook(Webhook):
    """One of a MutatingWebhookConfiguration."""

    @property
    def again(self) -> bool:
        """It wants to see what others make of the object after it."""
        return self.spec.get("reinvocationPolicy") == "IfNeeded"

    async def mutate(self, subject: Subject, resource: Resource) -> bool:
        """Whether it changed the object. Raises ApiError."""
        operations = await self.ask(subject, resource)
        if not operations:
            return False
        obj, _ = await subject.view(resource)
        if obj is None:
            raise errors.internal(
                f'admission webhook "{self.name}" attempted to modify the object, which is not '
                "supported for this operation"
            )
        try:
            patched = json_patch(obj, operations)
            checked = check_object(
                patched, resource.group, resource.version, resource.kind,
                validation="Ignore", check=resource.check,
            ).object  # fmt: skip
        except errors.ApiError as error:
            message = f'patch of admission webhook "{self.name}" cannot be applied: {error}'
            raise errors.internal(message) from error
        resource.default(checked)
        if checked == obj:
            return False
        await subject.rewrite(resource, checked)
        return True


class ValidatingWebhook(Webhook):
    """One of a ValidatingWebhookConfiguration."""

    async def validate(self, subject: Subject, resource: Resource) -> None:
        """Raises ApiError for a write that it refuses."""
        if await self.ask(subject, resource):
            head = f'failed calling webhook "{self.name}": received invalid webhook response: '
            raise errors.internal(f"{head}validating webhook may not return response.patch")
