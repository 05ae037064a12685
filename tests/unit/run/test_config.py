"""The command line: what is accepted, and what a user reads when it is not."""

from pathlib import Path

import pytest

from shepherd.run.config import Address, UsageError, parse, parse_address


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        (":9876", "", 9876),
        ("localhost:80", "localhost", 80),
        ("10.0.0.7:0", "10.0.0.7", 0),
        ("[::1]:9876", "::1", 9876),
    ],
)
def test_addresses_that_work(text: str, host: str, port: int) -> None:
    assert parse_address("--addr", text) == Address(host, port)


@pytest.mark.parametrize(
    "text",
    ["", ":", "9876", "host", "host:x", ":70000", "::1:9876", "[::1]", "[x]:1", "a b:1", "²:²"],
)
def test_addresses_that_do_not(text: str) -> None:
    with pytest.raises(UsageError) as error:
        parse(["--addr", text])
    assert repr(text) in str(error.value)
    assert "host:port, [::1]:port or :port" in str(error.value)


def test_a_local_agent_goes_where_the_server_listens() -> None:
    assert str(Address("", 1).local) == "127.0.0.1:1"
    assert str(Address("::", 1).local) == "[::1]:1"
    assert str(Address("192.0.2.1", 1).local) == "192.0.2.1:1"


def test_the_defaults_are_the_documented_ones() -> None:
    config = parse([])
    assert (config.mode, str(config.addr)) == ("server", ":9876")
    assert config.data_dir == Path("/var/lib/shepherd")
    assert (config.pod_cidr, config.service_cidr) == ("10.42.0.0/16", "10.43.0.0/16")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--mode", "serevr"], "--mode 'serevr' is unknown: use server, agent, standalone"),
        (["--mode", "agent"], "--mode agent needs --api-addr"),
        (["--mode", "agent", "--api-addr", ""], "--api-addr '' is not an address"),
        (["--runtime", "docker"], "--runtime 'docker' is unknown: use oci, hollow"),
        (["--pod-cidr", "10.0.0.1/16"], "--pod-cidr '10.0.0.1/16' is not a network"),
        (["--service-cidr", "10.0.0.0/30"], "--service-cidr '10.0.0.0/30' must be"),
        (["--insecure", "--addr", ":9876"], "--addr ':9876' must be a loopback address"),
        (["--token-file", "/nowhere"], "--token-file '/nowhere' cannot be read"),
        (["--data-dir", ""], "--data-dir '' is not a directory"),
        (["--node-name", "Not_A_Name"], "--node-name 'not_a_name' is not a node name"),
        (["--node-name", "n" * 53], "at most 52"),
        (
            ["--pod-cidr", "10.0.0.0/16", "--service-cidr", "10.0.1.0/24"],
            "--pod-cidr '10.0.0.0/16' and --service-cidr '10.0.1.0/24' must not overlap",
        ),
        (["--max-pids", "0"], "--max-pids '0' is not a number of processes"),
        (["--insecure", "--node-ip", "192.0.2.1"], "not --node-ip '192.0.2.1'"),
        (["--node-ip", "x"], "--node-ip 'x' is not an IP address"),
        (["--registry-mirror", "docker.io"], "--registry-mirror 'docker.io' must be REGISTRY=HOST"),
        (["--adr", ":1"], "unrecognized arguments: --adr"),
    ],
)
def test_mistakes_name_the_value_and_the_cure(arguments: list[str], text: str) -> None:
    with pytest.raises(UsageError) as error:
        parse(arguments)
    assert text in str(error.value)
    assert "\n" not in str(error.value)


def test_a_relative_data_directory_is_meant_from_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/tmp")
    assert parse(["--data-dir", "x"]).data_dir == Path("/tmp/x")


def test_insecure_listens_on_loopback_by_default() -> None:
    assert str(parse(["--insecure"]).addr) == "127.0.0.1:9876"


def test_a_token_may_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("shepherd1.ab.cd\n")
    assert parse(["--token-file", str(tmp_path / "token")]).token == "shepherd1.ab.cd"


def test_a_registry_may_have_several_mirrors() -> None:
    flags = ["--registry-mirror", "docker.io=a:1", "--registry-mirror", "docker.io=b"]
    assert parse(flags).registry_mirrors == {"docker.io": ("a:1", "b")}
