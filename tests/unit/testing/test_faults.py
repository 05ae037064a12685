"""Faults on cue and by chance reach the clients of an embedded cluster."""

import http.client
from collections.abc import Iterator
from typing import Any

import pytest

from shepherd.testing import Cluster, Faults
from shepherd.testing.rest import Rest, pod

BROKEN = (http.client.HTTPException, OSError)


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    yield shared
    shared.faults.clear()


@pytest.fixture
def rest(cluster: Cluster) -> Iterator[Rest]:
    with cluster.namespace() as settings:
        yield Rest(settings)


def config_map(name: str) -> Any:
    return {"metadata": {"name": name}}


@pytest.mark.parametrize(
    ("code", "reason"), [(409, "Conflict"), (410, "Expired"), (503, "ServiceUnavailable")]
)
def test_the_next_requests_are_answered_with_an_error(
    cluster: Cluster, rest: Rest, code: int, reason: str
) -> None:
    cluster.faults.answer(code, times=2, method="POST", path="/configmaps")
    assert "items" in rest.get("configmaps")
    for _ in range(2):
        refused = rest.ask("POST", "configmaps", config_map("one"))
        assert (refused["code"], refused["reason"]) == (code, reason)
    assert rest.ask("POST", "configmaps", config_map("one"))["kind"] == "ConfigMap"


def test_too_many_requests_says_when_to_come_again(cluster: Cluster, rest: Rest) -> None:
    cluster.faults.answer(429, retry_after=7)
    with rest.send("GET", "pods") as response:
        assert (response.status, response.headers["retry-after"]) == (429, "7")


def test_a_lost_request_changes_nothing_a_lost_response_hides_a_change(
    cluster: Cluster, rest: Rest
) -> None:
    cluster.faults.lose_requests(method="POST")
    with pytest.raises(BROKEN):
        rest.ask("POST", "configmaps", config_map("one"))
    assert rest.get("configmaps/one")["code"] == 404
    cluster.faults.lose_responses(method="POST")
    with pytest.raises(BROKEN):
        rest.ask("POST", "configmaps", config_map("one"))
    assert rest.get("configmaps/one")["kind"] == "ConfigMap"


def test_a_slow_body_takes_the_cluster_s_time(cluster: Cluster, rest: Rest) -> None:
    cluster.faults.slow_down(3600.0, path="/pods")
    with rest.send("GET", "pods") as response:
        assert response.status == 200
        cluster.clock.advance(3601.0)
        assert b"PodList" in response.read()


def test_watches_are_cut(cluster: Cluster, rest: Rest) -> None:
    events = _begun(rest)
    cluster.faults.cut_watches("/configmaps")
    with pytest.raises(BROKEN):
        list(events)


def test_watches_expire_with_an_event(cluster: Cluster, rest: Rest) -> None:
    events = _begun(rest)
    cluster.faults.expire_watches()
    [last] = list(events)
    assert (last["type"], last["object"]["code"]) == ("ERROR", 410)


def test_what_a_stalled_watch_held_back_comes_later(cluster: Cluster, rest: Rest) -> None:
    events = _begun(rest)
    cluster.faults.stall_watches()
    rest.ask("POST", "configmaps", config_map("two"))
    cluster.faults.cut_watches("/nothing")
    cluster.faults.resume_watches()
    rest.ask("POST", "configmaps", config_map("three"))
    assert [next(events)["object"]["metadata"]["name"] for _ in range(2)] == ["two", "three"]


def test_a_stalled_watch_can_still_be_cut(cluster: Cluster, rest: Rest) -> None:
    events = _begun(rest)
    cluster.faults.stall_watches()
    rest.ask("POST", "configmaps", config_map("two"))
    cluster.faults.cut_watches()
    with pytest.raises(BROKEN):
        list(events)


def test_events_come_twice(cluster: Cluster, rest: Rest) -> None:
    events = _begun(rest)
    cluster.faults.double_events("/configmaps")
    rest.ask("POST", "configmaps", config_map("two"))
    assert next(events) == next(events)


def _begun(rest: Rest) -> Iterator[Any]:
    """A watch that has given its first event."""
    rest.until("configmaps", lambda found: "items" in found)
    rest.ask("POST", "configmaps", config_map("first"))
    events = rest.watch("configmaps?fieldSelector=metadata.name!=kube-root-ca.crt")
    assert next(events)["object"]["metadata"]["name"] == "first"
    return events


def test_by_chance_a_seed_repeats_itself() -> None:
    def codes(seed: int) -> list[int]:
        with Cluster(client_faults=Faults(rejected=0.3, conflict=0.3), seed=seed) as cluster:
            rest = Rest(cluster.settings)
            patch = {"metadata": {"labels": {"seen": "yes"}}}
            path = "/api/v1/namespaces/default"
            return [rest.ask("PATCH", path, patch).get("code", 200) for _ in range(20)]

    assert codes(1) == codes(1)
    assert set(codes(1)) == {200, 409, 429}


def test_which_node_is_lost_is_the_seed_s_choice() -> None:
    def lost(seed: int) -> str:
        with Cluster(nodes=3, seed=seed) as cluster:
            name = cluster.random.choice(cluster.nodes.names)
            cluster.nodes.lose(name)
            assert name not in cluster.nodes.names
            return name

    assert lost(1) == lost(1)


def test_expired_and_cut_watches_by_chance() -> None:
    with Cluster(client_faults=Faults(expired=1.0, cut=1.0)) as cluster:
        rest = Rest(cluster.settings)
        assert rest.get("pods?watch=true&resourceVersion=1")["code"] == 410
        rest.ask("POST", "pods", pod("web"))
        events = rest.watch("pods")
        assert next(events)["type"] == "ADDED"
        with pytest.raises(BROKEN):
            list(events)


def test_a_cluster_lives_with_faults_of_its_own_network() -> None:
    faults = Faults(0.05, 0.05, 0.05, rejected=0.05, conflict=0.05, expired=0.2, cut=0.02)
    with Cluster(faults=faults, seed=3) as cluster:
        rest = Rest(cluster.settings)
        rest.ask("POST", "pods", pod("web"))
        cluster.clock.advance(60.0)
        assert rest.get("pods/web")["status"]["phase"] == "Running"
