"""CertificateSigningRequest, ClusterTrustBundle, PodCertificateRequest.

Source: kubernetes pkg/apis/certificates/validation, pkg/registry/certificates/certificates.
"""

from shepherd.api.errors import FieldError, duplicate, forbidden_field, invalid_value, required
from shepherd.api.kinds.bounds import validates
from shepherd.api.kinds.cells import AGE, column, human_duration, value_at
from shepherd.api.kinds.checks import Errors, immutable, unique
from shepherd.api.kinds.shape import child
from shepherd.api.resource import Column, Object, Resource

_GROUP = "certificates.k8s.io"
_SHORTEST_SECONDS = 600
_USAGES = frozenset((
    "signing", "digital signature", "content commitment", "key encipherment", "key agreement",
    "data encipherment", "cert sign", "crl sign", "encipher only", "decipher only", "any",
    "server auth", "client auth", "code signing", "email protection", "s/mime", "ipsec end system",
    "ipsec tunnel", "ipsec user", "timestamping", "ocsp signing", "microsoft sgc", "netscape sgc",
))  # fmt: skip


def _default(request: Object) -> None:
    child(request, "status")


def _validate_request(request: Object) -> Errors:
    spec = request.get("spec") or {}
    yield from _validate_signer(spec.get("signerName") or "")
    if not spec.get("usages"):
        yield required("spec.usages")
    usages: set[str] = set()
    for index, usage in enumerate(spec.get("usages") or ()):
        at = f"spec.usages[{index}]"
        if usage not in _USAGES:
            yield invalid_value(at, usage, "not a known usage")
        yield from unique(at, usage, usages)
    seconds = spec.get("expirationSeconds")
    if isinstance(seconds, int) and seconds < _SHORTEST_SECONDS:
        detail = f"may not specify a duration less than {_SHORTEST_SECONDS} seconds (10 minutes)"
        yield invalid_value("spec.expirationSeconds", seconds, detail)
    yield from validate_conditions(value_at(request, "status.conditions") or [])


def _validate_signer(name: str) -> Errors:
    domain, slash, rest = name.partition("/")
    if name and not (slash and rest and "." in domain):
        detail = 'must be a fully qualified domain and path of the form "example.com/signer-name"'
        yield invalid_value("spec.signerName", name, detail)


def validate_conditions(conditions: list[Object]) -> Errors:
    """Each type once, and not both approved and denied; all three last for ever."""
    types: set[str] = set()
    for index, condition in enumerate(conditions):
        at, kind, state = f"status.conditions[{index}]", condition.get("type"), "status"
        if not kind:
            yield required(f"{at}.type")
        elif kind in types:
            yield duplicate(f"{at}.type", kind)
        elif {kind, *types} >= {"Approved", "Denied"}:
            yield invalid_value(f"{at}.type", kind, "Approved and Denied are mutually exclusive")
        types.add(kind or "")
        if not condition.get(state):
            yield required(f"{at}.status")
        elif kind in ("Approved", "Denied", "Failed") and condition[state] != "True":
            detail = "Approved, Denied, and Failed conditions must be True"
            yield invalid_value(f"{at}.status", condition[state], detail)


def validate_status_update(request: Object, old: Object) -> list[FieldError]:
    """Who approved is remembered for ever, and a certificate is issued once."""
    found: list[FieldError] = []
    before, now = (
        {c.get("type") for c in value_at(obj, "status.conditions") or ()} for obj in (old, request)
    )
    for kind in sorted({"Approved", "Denied", "Failed"} & (before - now)):
        detail = f"updates may not remove a condition of type {kind!r}"
        found.append(forbidden_field("status.conditions", detail))
    issued = value_at(old, "status.certificate")
    if issued:
        found += immutable("status.certificate", value_at(request, "status.certificate"), issued)
    return found


def _validate_update(request: Object, old: Object) -> list[FieldError]:
    return list(immutable("spec", request.get("spec"), old.get("spec")))


def _condition(request: Object, now: float) -> str:
    """`Approved,Issued`, or Pending."""
    types = {c.get("type") for c in value_at(request, "status.conditions") or ()}
    texts = ["Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"]
    if "Failed" in types:
        texts.append("Failed")
    if value_at(request, "status.certificate"):
        texts.append("Issued")
    return ",".join(texts)


def _duration(request: Object, now: float) -> str:
    seconds = value_at(request, "spec.expirationSeconds")
    return human_duration(seconds) if seconds else "<none>"


CERTIFICATE_SIGNING_REQUEST = Resource(
    group=_GROUP,
    version="v1",
    kind="CertificateSigningRequest",
    plural="certificatesigningrequests",
    namespaced=False,
    short_names=("csr",),
    status=True,
    name_rule="path",
    columns=(
        AGE,
        column("SignerName", "spec.signerName", "Who is to sign it."),
        column("Requestor", "spec.username", "Who asked for it."),
        Column("RequestedDuration", _duration, description="How long it is to be valid."),
        Column("Condition", _condition, description="What has become of it."),
    ),
    default=_default,
    validate=validates("certificates.v1.CertificateSigningRequest", _validate_request),
    validate_update=_validate_update,
    fields=lambda request: {"spec.signerName": value_at(request, "spec.signerName") or ""},
)


CLUSTER_TRUST_BUNDLE = Resource(
    group=_GROUP,
    version="v1",
    kind="ClusterTrustBundle",
    plural="clustertrustbundles",
    namespaced=False,
    name_rule="path",
    idle=True,
    columns=(column("SignerName", "spec.signerName", "Whose roots these are."), AGE),
    validate=validates("certificates.v1.ClusterTrustBundle"),
    fields=lambda bundle: {"spec.signerName": value_at(bundle, "spec.signerName") or ""},
)

POD_CERTIFICATE_REQUEST = Resource(
    group=_GROUP,
    version="v1",
    kind="PodCertificateRequest",
    plural="podcertificaterequests",
    status=True,
    idle=True,
    columns=(
        column("PodName", "spec.podName", "Whose it is to be."),
        column("ServiceAccountName", "spec.serviceAccountName", "Of which account."),
        column("NodeName", "spec.nodeName", "On which node."),
        column("SignerName", "spec.signerName", "Who is to sign it."),
        AGE,
    ),
    default=_default,
    validate=validates("certificates.v1.PodCertificateRequest"),
    validate_update=_validate_update,
    fields=lambda request: {
        f"spec.{field}": value_at(request, f"spec.{field}") or ""
        for field in ("signerName", "podName", "nodeName")
    },
)
