"""What a node tells of itself."""

from dataclasses import replace

from shepherd.agent.machine import PLENTY
from shepherd.agent.node_status import conditions, transitions


def test_events_tell_what_has_changed_in_kubelets_words() -> None:
    well = conditions(PLENTY, "")
    assert transitions(well, []) == ["NodeReady"]
    assert transitions(well, well) == []
    short = conditions(replace(PLENTY, disk_free_share=0.01), "no network")
    assert transitions(short, well) == ["NodeHasDiskPressure", "NodeNotReady"]
    assert transitions(well, short) == ["NodeHasNoDiskPressure", "NodeReady"]
    silent = [c | {"status": "Unknown"} for c in well]
    assert "NodeReady" in transitions(well, silent)
