"""Ephemeral containers can be added, and only that."""

from typing import Any

import pytest

from shepherd.api.kinds import POD
from shepherd.api.kinds.ephemeral import validate_ephemeral_update


def pod(*ephemeral: dict[str, Any]) -> dict[str, Any]:
    spec = {"containers": [{"name": "main", "image": "i"}], "ephemeralContainers": list(ephemeral)}
    made: dict[str, Any] = {"metadata": {"name": "p"}, "spec": spec}
    POD.default(made)
    return made


LOOK = {"name": "look", "image": "busybox", "targetContainerName": "main"}


def test_one_more_is_fine() -> None:
    assert validate_ephemeral_update(pod(LOOK, LOOK | {"name": "again"}), pod(LOOK)) == []


@pytest.mark.parametrize(
    ("wanted", "field", "text"),
    [
        ([], "spec.ephemeralContainers", "may not be removed"),
        ([LOOK | {"image": "other"}], "spec.ephemeralContainers", "may not be changed"),
        ([LOOK, LOOK], "spec.ephemeralContainers[1].name", "Duplicate"),
        ([LOOK, LOOK | {"name": "main"}], "spec.ephemeralContainers[1].name", "Duplicate"),
        ([LOOK, {"name": "b"}], "spec.ephemeralContainers[1].image", "Required"),
        (
            [LOOK, LOOK | {"name": "b", "targetContainerName": "no"}],
            "spec.ephemeralContainers[1].targetContainerName",
            "no such container",
        ),
        (
            [LOOK, LOOK | {"name": "b", "ports": [{"containerPort": 1}]}],
            "spec.ephemeralContainers[1].ports",
            "cannot be set for an Ephemeral Container",
        ),
    ],
)
def test_all_else_is_refused(wanted: list[dict[str, Any]], field: str, text: str) -> None:
    found = validate_ephemeral_update(pod(*wanted), pod(LOOK))
    assert any(error.field == field and text in error.message for error in found)
