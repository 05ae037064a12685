"""The signers of certificates.k8s.io that every cluster has, and the approval that sets them off.

A request is signed in the very write that approves it: so an approved request never waits for
anyone, and none is signed twice. Source: kubernetes pkg/registry/certificates/certificates,
pkg/controller/certificates/signer, pkg/apis/certificates/helpers.go; "Certificates and Certificate
Signing Requests" in the Kubernetes documentation.
"""

import asyncio
from base64 import b64decode, b64encode

from shepherd.api import errors
from shepherd.api.errors import FieldError
from shepherd.api.kinds.certificates import validate_conditions, validate_status_update
from shepherd.api.meta import format_time
from shepherd.api.resource import Object, Resource
from shepherd.lib.certificates import Requested, RequestError, Subject
from shepherd.lib.http import Response
from shepherd.server import registry
from shepherd.server.access import Access
from shepherd.server.auth import ADMIN_GROUP, NODE_USER_PREFIX, NODES_GROUP
from shepherd.server.authorization.actions import Action
from shepherd.server.codec import decode, with_revision
from shepherd.server.handlers import Call, Handlers
from shepherd.server.pki import Pki

CLIENT = "kubernetes.io/kube-apiserver-client"
NODE_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
NODE_SERVING = "kubernetes.io/kubelet-serving"
_AUTHORITIES = {CLIENT: "ca", NODE_CLIENT: "ca", NODE_SERVING: "nodes-ca"}
_BASIC_USAGES = frozenset(("digital signature", "key encipherment"))


class CertificateSigner:
    """`access.Signer` with the cluster's own authorities."""

    def __init__(self, pki: Pki) -> None:
        self._pki = pki

    def signs(self, signer_name: str) -> bool:
        return signer_name in _AUTHORITIES

    async def sign(self, signer_name: str, request: Object) -> str:
        text = b64decode(request.get("request") or "").decode(errors="replace")
        usages = set(request.get("usages") or ())

        def judge(asked: Requested) -> Subject:
            if problem := refusal(signer_name, asked, usages):
                raise RequestError(problem)
            hosts = asked.hosts if signer_name == NODE_SERVING else ()
            return Subject(asked.name, asked.groups, hosts)

        authority, seconds = _AUTHORITIES[signer_name], request.get("expirationSeconds")
        return await asyncio.to_thread(self._pki.sign, authority, text, judge, seconds)


def refusal(signer_name: str, asked: Requested, usages: set[str]) -> str:
    """Why a signer does not sign this; empty if it does."""
    purpose = "server auth" if signer_name == NODE_SERVING else "client auth"
    if purpose not in usages or usages - _BASIC_USAGES - {purpose}:
        return f"usages must be {purpose}, with digital signature and key encipherment at most"
    if signer_name == CLIENT:
        if ADMIN_GROUP in asked.groups:
            return f"the group {ADMIN_GROUP} is not given away by request"
        return ""
    if asked.groups != (NODES_GROUP,) or not asked.name.startswith(NODE_USER_PREFIX):
        return f"subject must be CN={NODE_USER_PREFIX}<name>, O={NODES_GROUP}"
    if asked.others:
        return "e-mail and URI names are not allowed"
    if signer_name == NODE_SERVING and not asked.hosts:
        return "DNS names or addresses are needed"
    if signer_name == NODE_CLIENT and asked.hosts:
        return "DNS names and addresses are not allowed"
    return ""


async def put_approval(handlers: Handlers, call: Call) -> Response:
    """PUT certificatesigningrequests/{name}/approval."""
    return await handlers.update(call, await _approval(handlers, call))


async def patch_approval(handlers: Handlers, call: Call) -> Response:
    """PATCH certificatesigningrequests/{name}/approval."""
    return await handlers.patch(call, await _approval(handlers, call))


async def _approval(handlers: Handlers, call: Call) -> registry.Merge:
    """What an approval changes: the conditions, and with Approved the certificate is there.

    The spec cannot change, so what to add can be known before the write begins.
    """
    item = await handlers.registry.item(call.route)
    present = with_revision(decode(item.value), item.revision)
    now = format_time(handlers.now())
    spec, signer = present.get("spec") or {}, handlers.access.signer
    name = spec.get("signerName") or ""
    await _may("approve", call, name, handlers.access)
    certificate, failure = "", ""
    if signer and signer.signs(name) and not call.dry_run:  # no certificate without a trace
        try:
            certificate = b64encode((await signer.sign(name, spec)).encode()).decode()
        except RequestError as error:
            failure = str(error)

    def merge(resource: Resource, wanted: Object, old: Object) -> Object:
        conditions = [
            {"lastUpdateTime": now, "lastTransitionTime": now} | condition
            for condition in (wanted.get("status") or {}).get("conditions") or ()
        ]
        before = old.get("status") or {}
        types = {condition.get("type") for condition in conditions}
        status = before | {"conditions": conditions}
        if "Approved" in types and not before.get("certificate") and "Failed" not in types:
            if failure:
                conditions.append(_failed(failure, now))
            elif certificate:
                status["certificate"] = certificate
        new = old | {"status": status}
        found = [*validate_conditions(conditions), *validate_status_update(new, old)]
        _accept(call, found)
        return new

    return merge


async def put_signed(handlers: Handlers, call: Call) -> Response:
    """PUT certificatesigningrequests/{name}/status."""
    return await handlers.update(call, await _signed(handlers, call))


async def patch_signed(handlers: Handlers, call: Call) -> Response:
    """PATCH certificatesigningrequests/{name}/status."""
    return await handlers.patch(call, await _signed(handlers, call))


async def _signed(handlers: Handlers, call: Call) -> registry.Merge:
    """What a signer changes: anything but who approved. Raises ApiError 403."""
    spec = decode((await handlers.registry.item(call.route)).value).get("spec") or {}
    await _may("sign", call, spec.get("signerName") or "", handlers.access)

    def merge(resource: Resource, wanted: Object, old: Object) -> Object:
        before, now = (_approvals(obj) for obj in (old, wanted))
        _accept(call, [_added(kind) for kind in sorted(now - before)])
        return registry.status(resource, wanted, old)

    return merge


def _approvals(request: Object) -> set[str]:
    conditions = (request.get("status") or {}).get("conditions") or ()
    return {condition.get("type") for condition in conditions} & {"Approved", "Denied"}


def _added(kind: str) -> FieldError:
    detail = f"updates may not add a condition of type {kind!r}"
    return errors.forbidden_field("status.conditions", detail)


async def _may(verb: str, call: Call, signer_name: str, access: Access) -> None:
    """CertificateApproval and CertificateSigning: who approves or signs must be allowed to do so
    for that signer, or for all of its domain. Raises ApiError 403. Source: kubernetes
    plugin/pkg/admission/certificates/{approval,signing}."""
    for name in (signer_name, f"{signer_name.partition('/')[0]}/*"):
        action = Action(call.user, verb, call.route.group, "signers", name=name)
        if (await access.decide(action)).allowed:
            return
    detail = f'user not permitted to {verb} requests with signerName "{signer_name}"'
    raise errors.forbidden(call.route.group, call.route.resource.plural, call.route.name, detail)


def _failed(message: str, now: str) -> Object:
    return {
        "type": "Failed",
        "status": "True",
        "reason": "SignerValidationFailure",
        "message": message,
        "lastUpdateTime": now,
        "lastTransitionTime": now,
    }


def _accept(call: Call, found: list[FieldError]) -> None:
    if found:
        raise errors.invalid(call.route.group, call.route.resource.kind, call.route.name, found)
