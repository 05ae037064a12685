"""The cluster's certificates: what TLS peers accept, and that they outlive years unattended."""

import asyncio
import socket
import ssl
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509 import CertificateSigningRequestBuilder, Name, NameAttribute
from cryptography.x509.oid import NameOID

from shepherd.lib.certificates import RequestError
from shepherd.lib.clock import SystemClock
from shepherd.lib.tasks import cancel_and_wait
from shepherd.server.pki import Identity, Pki, PkiError
from shepherd.testing.virtual import VirtualClock, run_virtual

DAY = 24 * 3600.0


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data") / "pki"


@pytest.fixture(scope="module")
def pki(directory: Path) -> Pki:
    return Pki.open(directory, clock=SystemClock(), hosts=("box", "192.0.2.7", "10.43.0.1"))


@pytest.fixture(scope="module")
def signing_request() -> tuple[str, str]:
    """A certificate signing request that asks for the moon, and its key, in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = Name([NameAttribute(NameOID.ORGANIZATION_NAME, "system:masters")])
    request = CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    key_pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return request.public_bytes(Encoding.PEM).decode(), key_pem.decode()


def client_context(ca: str, identity: Identity | None, tmp_path: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=ca)
    if identity:
        file = tmp_path / "client.pem"
        file.write_text(identity.certificate + identity.key)
        context.load_cert_chain(file)
    return context


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> ssl.SSLSocket:
    """Connect the two; the server's side, which knows the client's certificate."""
    left, right = socket.socketpair()
    serving = server.wrap_socket(left, server_side=True, do_handshake_on_connect=False)
    calling = client.wrap_socket(right, server_hostname=host, do_handshake_on_connect=False)
    for end in (serving, calling):
        end.setblocking(False)
    waiting = [calling, serving]
    while waiting:
        for end in list(waiting):
            try:
                end.do_handshake()
                waiting.remove(end)
            except ssl.SSLWantReadError:
                pass
    return serving


def subject(connection: ssl.SSLSocket) -> list[tuple[str, str]]:
    peer = connection.getpeercert() or {}
    return [pair for part in peer["subject"] for pair in part]  # type: ignore[misc]


@pytest.mark.parametrize(
    "host",
    ["localhost", "127.0.0.1", "::1", "box", "192.0.2.7", "10.43.0.1", "kubernetes.default.svc"],
)
def test_the_api_is_known_under_all_its_names(pki: Pki, tmp_path: Path, host: str) -> None:
    client = client_context(pki.ca, None, tmp_path)
    shake_hands(pki.serving_context(), client, host)


def test_the_api_is_not_known_under_another_name(pki: Pki, tmp_path: Path) -> None:
    client = client_context(pki.ca, None, tmp_path)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(pki.serving_context(), client, "example.com")


def test_the_admin_certificate_proves_an_administrator(pki: Pki, tmp_path: Path) -> None:
    client = client_context(pki.ca, pki.admin, tmp_path)
    connection = shake_hands(pki.serving_context(), client, "localhost")
    assert subject(connection) == [
        ("organizationName", "system:masters"),
        ("commonName", "shepherd-admin"),
    ]


def test_a_certificate_of_another_ca_is_refused(pki: Pki, tmp_path: Path) -> None:
    other = Pki.open(tmp_path / "other", clock=SystemClock())
    client = client_context(pki.ca, other.admin, tmp_path)
    with pytest.raises(ssl.SSLError):
        shake_hands(pki.serving_context(), client, "localhost")


def test_a_node_is_known_to_the_api_and_its_endpoint_to_the_server(
    pki: Pki, tmp_path: Path, signing_request: tuple[str, str]
) -> None:
    request, key = signing_request
    made = pki.sign_node("n1", request, ["192.0.2.9"])
    certificate, serving = made.client, made.serving
    client = client_context(pki.ca, Identity(certificate, key), tmp_path)
    assert subject(shake_hands(pki.serving_context(), client, "localhost")) == [
        ("organizationName", "system:nodes"),
        ("commonName", "system:node:n1"),
    ]
    endpoint = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=pki.ca)
    endpoint.verify_mode = ssl.CERT_REQUIRED
    (tmp_path / "endpoint.pem").write_text(serving + key)
    endpoint.load_cert_chain(tmp_path / "endpoint.pem")
    caller = subject(shake_hands(endpoint, pki.node_context(), "192.0.2.9"))
    assert ("commonName", "system:shepherd-server") in caller


def test_a_node_cannot_pass_for_the_api(
    pki: Pki, tmp_path: Path, signing_request: tuple[str, str]
) -> None:
    request, key = signing_request
    made = pki.sign_node("n1", request, ["127.0.0.1"])
    certificate, serving = made.client, made.serving
    for bundle in (certificate, serving):
        impostor = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        (tmp_path / "impostor.pem").write_text(bundle + key)
        impostor.load_cert_chain(tmp_path / "impostor.pem")
        with pytest.raises(ssl.SSLCertVerificationError):
            shake_hands(impostor, client_context(pki.ca, None, tmp_path), "127.0.0.1")


@pytest.mark.parametrize("request_text", ["", "nonsense", "-----BEGIN CERTIFICATE REQUEST-----\n"])
def test_what_is_no_signing_request_is_refused(pki: Pki, request_text: str) -> None:
    with pytest.raises(RequestError):
        pki.sign_node("n1", request_text, [])


def test_only_the_owner_can_read_the_directory(pki: Pki, directory: Path) -> None:
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert [stat.S_IMODE(file.stat().st_mode) for file in directory.iterdir()] == [0o600] * 8


def test_a_second_start_changes_nothing_and_needs_no_cryptography(
    pki: Pki, directory: Path
) -> None:
    before = {file.name: file.read_text() for file in directory.iterdir()}
    program = (
        "import sys; from pathlib import Path; from shepherd.lib.clock import SystemClock;"
        "from shepherd.server.pki import Pki;"
        "pki = Pki.open(Path(sys.argv[1]), clock=SystemClock(),"
        " hosts=('box', '192.0.2.7', '10.43.0.1'));"
        "pki.serving_context(), pki.node_context(), pki.admin, pki.ca_hash;"
        "assert 'cryptography' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program, str(directory)], check=True)
    assert {file.name: file.read_text() for file in directory.iterdir()} == before


def test_new_addresses_renew_the_serving_certificate_alone(tmp_path: Path) -> None:
    """kubernetes-sigs/kind#2045; canonical/microk8s#5524: the host's address changed between
    starts."""
    old = Pki.open(tmp_path / "pki", clock=SystemClock(), hosts=("192.0.2.1",))
    admin, ca = old.admin, old.ca
    new = Pki.open(tmp_path / "pki", clock=SystemClock(), hosts=("192.0.2.2",))
    assert (new.admin, new.ca) == (admin, ca)
    client = client_context(ca, None, tmp_path)
    shake_hands(new.serving_context(), client, "192.0.2.2")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(new.serving_context(), client, "192.0.2.1")


def test_a_damaged_certificate_is_made_anew(tmp_path: Path) -> None:
    ca = Pki.open(tmp_path, clock=SystemClock()).ca
    for name in ("serving", "admin", "server"):
        path = tmp_path / f"{name}.pem"
        path.write_text(path.read_text()[:-100])
    pki = Pki.open(tmp_path, clock=SystemClock())
    assert pki.ca == ca
    shake_hands(pki.serving_context(), client_context(ca, pki.admin, tmp_path), "localhost")


def test_a_damaged_authority_is_not_replaced_but_named(tmp_path: Path) -> None:
    Pki.open(tmp_path, clock=SystemClock())
    path = tmp_path / "ca.pem"
    half = path.read_text()[:300]
    path.write_text(half)
    with pytest.raises(PkiError, match=r"ca\.pem is damaged: restore it"):
        Pki.open(tmp_path, clock=SystemClock())
    assert path.read_text() == half


def test_an_unusable_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PkiError, match="file"):
        Pki.open(tmp_path / "file" / "pki", clock=SystemClock())


def test_a_host_name_that_no_certificate_can_hold_is_left_out(tmp_path: Path) -> None:
    pki = Pki.open(tmp_path, clock=SystemClock(), hosts=("", "späte-kiste", "192.0.2.1"))
    shake_hands(pki.serving_context(), client_context(pki.ca, None, tmp_path), "192.0.2.1")


def test_certificates_are_renewed_unattended_for_years(tmp_path: Path) -> None:
    """k3s-io/k3s#2550, #8762, #10865."""

    async def scenario() -> None:
        clock = VirtualClock()
        pki = Pki.open(tmp_path / "pki", clock=clock)
        ca, first, times = pki.ca, pki.admin, []

        async def renewed() -> None:
            times.append(clock.monotonic() / DAY)
            assert pki.admin != first

        running = asyncio.create_task(pki.run(renewed))
        await clock.sleep(3 * 365 * DAY)
        await cancel_and_wait(running)
        assert [round(day) for day in times] == [245, 490, 735, 980]
        assert pki.ca == ca

    run_virtual(scenario(), within_seconds=None)


def test_a_running_server_shows_the_renewed_certificate(tmp_path: Path) -> None:
    async def scenario() -> None:
        # Made 400 days ago: run out by now, until it is renewed.
        clock = VirtualClock(epoch=SystemClock().now() - 400 * DAY)
        pki = Pki.open(tmp_path / "pki", clock=clock)
        serving = pki.serving_context()
        client = client_context(pki.ca, None, tmp_path)
        with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
            shake_hands(serving, client, "localhost")
        await clock.sleep(400 * DAY)
        assert pki.renew()
        shake_hands(serving, client, "localhost")

    run_virtual(scenario(), within_seconds=None)
