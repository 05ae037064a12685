"""Pods as the agent sees them, in few words."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from shepherd.agent.pod_state import BoundPod, ContainerView, PodView
from shepherd.api.objects import Container
from shepherd.runtime.base import ContainerInfo, ContainerState, SandboxInfo

MakeView = Callable[..., PodView]


def _info(name: str, words: str, kind: str) -> ContainerInfo | None:
    """`running`, `exit 1` or `-` for none; `@2` behind it is the attempt."""
    words, _, attempt = words.strip().partition("@")
    if words in ("-", ""):
        return None
    ended = words.startswith("exit")
    code = int(words.split()[1]) if ended else 0
    return ContainerInfo(
        id=f"uid-{name}-{int(attempt or 0)}",
        sandbox_id="uid-0",
        name=name,
        attempt=int(attempt or 0),
        state=ContainerState.EXITED if ended else ContainerState.RUNNING,
        image="sha256:1",
        image_ref="web:1",
        kind=kind,
        started_at=1000.0,
        finished_at=1010.0 if ended else 0.0,
        exit_code=code,
        reason=("Error" if code else "Completed") if ended else "",
    )


def _container(text: str, memory: dict[str, Any]) -> ContainerView:
    """`init a: exit 0` or `main web: running@1 < exit 1`: kind, name, current, previous."""
    head, _, words = text.partition(":")
    kind, name = head.split()
    current, _, previous = words.partition("<")
    spec = Container(name=name, image="web:1", restart_policy="Always" if kind == "sidecar" else "")
    view = ContainerView(
        spec=spec,
        kind=kind,
        current=_info(name, current, kind),
        previous=_info(name, previous, kind),
        image="sha256:1",
    )
    return replace(view, **memory)


@pytest.fixture
def make_view() -> MakeView:
    """`make_view("init a: exit 0", "main web: running", policy="Never", web={"ready": False})`.

    `sandbox` is True (ready), False (lost) or None; `containers` gives what is remembered of
    containers by name; other keywords are fields of the view.
    """

    def make(
        *texts: str,
        policy: str = "Always",
        sandbox: bool | None = True,
        spec: dict[str, Any] | None = None,
        status: dict[str, Any] | None = None,
        memory: dict[str, dict[str, Any]] | None = None,
        **fields: Any,
    ) -> PodView:
        containers = tuple(_container(t, (memory or {}).get(t.split(":")[0].split()[1], {}))
                           for t in texts)  # fmt: skip
        pod = {
            "metadata": {"name": "web-1", "namespace": "default", "uid": "uid", "generation": 1},
            "spec": {
                "restartPolicy": policy,
                "containers": [{"name": c.spec.name} for c in containers if c.kind == "main"],
                "initContainers": [{"name": c.spec.name} for c in containers if c.kind != "main"],
                **(spec or {}),
            },
            "status": status or {},
        }
        box = None
        if sandbox is not None:
            box = SandboxInfo("uid-0", "uid", "web-1", "default", 0, sandbox, ("10.42.0.2",))
        values: dict[str, Any] = {"now": 100.0, "wall": 2000.0, "next_sandbox": 1, "host_ip": "n"}
        return PodView(
            pod=msgspec.convert(pod, BoundPod),
            containers=containers,
            sandbox=box,
            **(values | {"host_ip": "192.0.2.1", "runtime_name": "crun"} | fields),
        )

    return make
