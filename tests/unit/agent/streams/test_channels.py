"""What is agreed on, and what the error and resize channels say."""

import json

import pytest

from shepherd.agent.streams.channels import (
    SPDY_PROTOCOLS,
    V1,
    V3,
    V4,
    V5,
    WEBSOCKET_PROTOCOLS,
    Size,
    choose,
    exited,
    failed,
    offered,
    outcome,
    sizes,
)


@pytest.mark.parametrize(
    ("header", "known", "chosen"),
    [
        ("v5.channel.k8s.io, v4.channel.k8s.io", WEBSOCKET_PROTOCOLS, V5),
        ("v4.channel.k8s.io", WEBSOCKET_PROTOCOLS, V4),
        ("v5.channel.k8s.io,v4.channel.k8s.io,v3.channel.k8s.io", SPDY_PROTOCOLS, V4),
        ("v5.channel.k8s.io, v4.channel.k8s.io", (V4, V1), V4),
        ("", WEBSOCKET_PROTOCOLS, ""),
        ("v9.channel.k8s.io", WEBSOCKET_PROTOCOLS, None),
    ],
)
def test_the_clients_first_choice_that_is_known_is_taken(
    header: str, known: tuple[str, ...], chosen: str | None
) -> None:
    assert choose(offered(header), known) == chosen


def test_an_exit_code_is_told_as_clients_read_it() -> None:
    status = json.loads(outcome(V4, exited(42)))
    assert status["reason"] == "NonZeroExitCode"
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "42"}]
    assert json.loads(outcome(V5, exited(0)))["status"] == "Success"


def test_old_protocols_have_text_alone() -> None:
    assert outcome(V3, exited(0)) == b""
    assert b"exit status 42" in outcome(V1, exited(42))
    assert outcome(V1, failed("no such container")) == b"Internal error occurred: no such container"


def test_sizes_are_read_whether_or_not_they_come_one_by_one() -> None:
    assert sizes(b'{"Width":80,"Height":24}') == [Size(80, 24)]
    assert sizes(b'{"Width":1,"Height":2}{"Width":3,"Height":4}\n') == [Size(1, 2), Size(3, 4)]
    assert sizes(b'{"Width":70000,"Height":24}') == []
