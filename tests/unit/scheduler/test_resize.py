"""What a pod counts for while its resources change."""

from typing import Any

import pytest

from shepherd.api.objects import decode
from shepherd.scheduler.objects import Pod
from shepherd.scheduler.shape import Shapes

PENDING = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}


@pytest.mark.parametrize(
    ("asked", "allocated", "actual", "conditions", "counted"),
    [
        ("100m", "100m", "100m", [], 100),
        ("500m", "100m", "100m", [], 500),  # not granted yet
        ("100m", "100m", "500m", [], 500),  # it still has it
        ("100m", "500m", "300m", [], 500),
        ("5000m", "200m", "100m", [PENDING], 200),  # it will never get that
        ("1", "1000m", "0.5", [], 1000),
    ],
)
def test_the_most_of_what_it_has_and_asks_for(
    asked: str, allocated: str, actual: str, conditions: list[Any], counted: int
) -> None:
    status = {
        "name": "a",
        "allocatedResources": {"cpu": allocated},
        "resources": {"requests": {"cpu": actual}},
    }
    spec = {"containers": [{"name": "a", "resources": {"requests": {"cpu": asked}}}]}
    made = {"spec": spec, "status": {"containerStatuses": [status], "conditions": conditions}}
    assert Shapes().of(decode(made, Pod)).requests == {"cpu": counted}


def test_of_a_sidecar_too() -> None:
    sidecar = {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}
    spec = {"containers": [{"name": "a"}], "initContainers": [sidecar]}
    status = {"name": "s", "resources": {"requests": {"cpu": "2"}}}
    made = {"spec": spec, "status": {"initContainerStatuses": [status]}}
    assert Shapes().of(decode(made, Pod)).requests == {"cpu": 2000}


def test_statuses_that_tell_nothing_change_nothing() -> None:
    spec = {"containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]}
    made = {"spec": spec, "status": {"containerStatuses": [{"name": "a"}]}}
    assert Shapes().of(decode(made, Pod)).requests == {"cpu": 1000}
