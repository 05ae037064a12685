"""The pytest plugin, as a project of somebody else's uses it."""

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

PROJECT = """
import pytest
from shepherd.testing.rest import Rest, is_gone, is_running, pod

seen = []


@pytest.fixture(scope="session")
def shepherd_options():
    return {"nodes": 2}


@pytest.mark.parametrize("round", range(3))
def test_each_test_has_a_namespace_of_its_own(shepherd, shepherd_session, round):
    rest = Rest(shepherd)
    assert rest.get("pods")["items"] == []
    if seen:
        assert seen[-1].namespace != shepherd.namespace
        assert is_gone(rest.get("/api/v1/namespaces/" + seen[-1].namespace))
        assert not seen[-1].kubeconfig.exists()
    seen.append(shepherd)
    rest.ask("POST", "pods", pod("web"))
    rest.until("pods/web", is_running)
    shepherd_session.faults.answer(503, times=100, path="/nothing")


def test_what_waits_for_an_operator_that_ended_is_swept_out(shepherd):
    kept = {"metadata": {"name": "kept", "finalizers": ["example.com/operator"]}}
    assert Rest(shepherd).ask("POST", "configmaps", kept)["kind"] == "ConfigMap"
    seen.append(shepherd)


def test_nothing_is_left_of_it(shepherd):
    if seen:
        assert is_gone(Rest(shepherd).get("/api/v1/namespaces/" + seen[-1].namespace))


def test_a_cluster_of_one_s_own(shepherd_cluster):
    assert shepherd_cluster.nodes.names == ["n1", "n2"]
    shepherd_cluster.nodes.lose("n1")
    shepherd_cluster.clock.advance(60)
"""


def test_pytest_finds_it() -> None:
    (found,) = entry_points(group="pytest11", name="shepherd")
    assert found.value == "shepherd.testing.plugin"


def test_its_fixtures_work_in_processes_side_by_side(tmp_path: Path) -> None:
    (tmp_path / "test_project.py").write_text(PROJECT)
    alone = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n2"]
    command += ["-p", "xdist", "-p", "shepherd.testing.plugin"]
    result = subprocess.run(
        command, cwd=tmp_path, env=alone, capture_output=True, text=True, check=False
    )
    assert "6 passed" in result.stdout, result.stdout + result.stderr


def test_it_costs_nothing_where_it_is_not_used() -> None:
    code = (
        "import sys, shepherd.testing.plugin; "
        "print([name for name in ('aiohttp', 'asyncio', 'msgspec') if name in sys.modules])"
    )
    command = [sys.executable, "-c", f"import pytest; {code}"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "aiohttp" not in result.stdout
    assert "msgspec" not in result.stdout
