"""What ControllerRevisions hold, and which of them are kept."""

import json

from shepherd.api.objects import ControllerRevision, decode
from shepherd.controllers.history import patch_of, surplus, template_of


def revision(number: int, name: str = "") -> ControllerRevision:
    return decode({"metadata": {"name": name or f"r{number}"}, "revision": number},
                  ControllerRevision)  # fmt: skip


def test_a_revision_holds_the_patch_that_brings_the_template_back_with_its_keys_in_order() -> None:
    template = {"spec": {"b": 1, "a": [{"d": 1, "c": 2}]}, "metadata": {"labels": {"app": "web"}}}
    text = json.dumps(patch_of(template), separators=(",", ":"))
    assert text == (
        '{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"web"}},'
        '"spec":{"a":[{"c":2,"d":1}],"b":1}}}}'
    )
    kept = decode({"data": patch_of(template)}, ControllerRevision)
    assert template_of(kept) == template
    assert template_of(decode({"data": {"strange": 1}}, ControllerRevision)) == {}


def test_the_oldest_go_and_live_ones_neither_go_nor_count() -> None:
    kept = [revision(number) for number in (4, 1, 3, 2, 5)]
    assert [r.revision for r in surplus(kept, {"r5"}, 2)] == [1, 2]
    assert [r.revision for r in surplus(kept, {"r1", "r5"}, 1)] == [2, 3]
    assert surplus(kept, {"r5"}, 10) == []
    assert len(surplus(kept, {"r5"}, 0)) == 4
