"""How keys and certificates are made: the child process behind `lib.certificates`.

The one module that imports cryptography; nothing imports it.
"""

import ipaddress
import pickle
import sys
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from shepherd.lib.certificates import Requested, RequestError, Subject

_CLOCK_SKEW = timedelta(hours=1)
"""Certificates are valid from this long ago, for peers whose clock runs behind."""
_SHORTEST_RSA_BITS = 2048


def new_authority(name: str, now: float, expires: float) -> str:
    """A new certificate authority: certificate and key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    builder = (
        _builder(subject, subject, key.public_key(), now, expires)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return _pem(builder.sign(key, hashes.SHA256())) + _key_pem(key)


def issue(authority: str, subject: Subject, now: float, expires: float) -> str:
    """A certificate for `subject`, with a new key."""
    key = ec.generate_private_key(ec.SECP256R1())
    return _sign(authority, key.public_key(), subject, now, expires) + _key_pem(key)


def sign_request(authority: str, request: str, subject: Subject, now: float, expires: float) -> str:
    """A certificate for `subject` with the key of a signing request.

    Of the request only the key counts, whatever else it asks for. Raises RequestError.
    """
    key = _parse(request).public_key()
    if isinstance(key, rsa.RSAPublicKey):
        strong = key.key_size >= _SHORTEST_RSA_BITS
    else:
        strong = isinstance(key, ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey)
    if not strong:
        text = f"the key must be ECDSA, Ed25519, or RSA of at least {_SHORTEST_RSA_BITS} bits"
        raise RequestError(text)
    return _sign(authority, key, subject, now, expires)


def read_request(request: str) -> Requested:
    """What a signing request asks for. Raises RequestError."""
    parsed = _parse(request)

    def texts(kind: x509.ObjectIdentifier) -> tuple[str, ...]:
        return tuple(str(item.value) for item in parsed.subject.get_attributes_for_oid(kind))

    name, groups = "".join(texts(NameOID.COMMON_NAME)[:1]), texts(NameOID.ORGANIZATION_NAME)
    try:
        found = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return Requested(name, groups, (), ())
    addresses = (str(address) for address in found.get_values_for_type(x509.IPAddress))
    mail = found.get_values_for_type(x509.RFC822Name)
    links = found.get_values_for_type(x509.UniformResourceIdentifier)
    hosts = (*found.get_values_for_type(x509.DNSName), *addresses)
    return Requested(name, groups, hosts, (*mail, *links))


def _parse(request: str) -> x509.CertificateSigningRequest:
    try:
        parsed = x509.load_pem_x509_csr(request.encode())
        if not parsed.is_signature_valid:
            raise RequestError("the request is not signed with its own key")
    except (ValueError, InvalidSignature) as error:
        raise RequestError(f"not a PEM certificate signing request: {error}") from error
    return parsed


def _sign(
    authority: str, key: CertificatePublicKeyTypes, subject: Subject, now: float, expires: float
) -> str:
    issuer = x509.load_pem_x509_certificate(authority.encode())
    issuer_key = serialization.load_pem_private_key(authority.encode(), None)
    assert isinstance(issuer_key, ec.EllipticCurvePrivateKey)
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in subject.groups]
    names.append(x509.NameAttribute(NameOID.COMMON_NAME, subject.name))
    purpose = ExtendedKeyUsageOID.SERVER_AUTH if subject.hosts else ExtendedKeyUsageOID.CLIENT_AUTH
    usage = x509.KeyUsage(True, False, False, False, False, False, False, False, False)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    builder = (
        _builder(x509.Name(names), issuer.subject, key, now, expires)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(identifier, critical=False)
    )
    if subject.hosts:
        hosts = x509.SubjectAlternativeName([_host(host) for host in subject.hosts])
        builder = builder.add_extension(hosts, critical=False)
    return _pem(builder.sign(issuer_key, hashes.SHA256()))


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: CertificatePublicKeyTypes,
    now: float,
    expires: float,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.fromtimestamp(now, UTC) - _CLOCK_SKEW)
        .not_valid_after(datetime.fromtimestamp(expires, UTC))
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()


def new_request(name: str) -> tuple[str, str]:
    """A new key and a signing request for it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject)
    pem = request.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    return _key_pem(key), pem.decode()


_FUNCTIONS = {
    function.__name__: function
    for function in (new_authority, issue, sign_request, read_request, new_request)
}


def main() -> None:
    """Answer one question after the other, until there are no more."""
    while True:
        try:
            name, arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        answer: object
        try:
            answer = _FUNCTIONS[name](*arguments)
        except RequestError as error:
            answer = error
        pickle.dump(answer, sys.stdout.buffer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
