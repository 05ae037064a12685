import asyncio
import signal

import pytest

from shepherd.runtime.oci.changes import Changes
from shepherd.runtime.oci.held import signal_number


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("", signal.SIGTERM),
        ("SIGINT", signal.SIGINT),
        ("quit", signal.SIGQUIT),
        ("9", 9),
        ("SIGRTMIN+3", signal.SIGRTMIN + 3),
        ("SIGNOSUCH", signal.SIGTERM),
    ],
)
def test_stop_signals_as_images_name_them(name: str, number: int) -> None:
    assert signal_number(name) == number


async def test_a_change_is_heard_once_by_each_and_from_the_call_on() -> None:
    changes = Changes()
    one, two = changes.listen(), changes.listen()
    for key in ("a", "b", "a"):
        changes.notify(key)
    async with asyncio.timeout(5):
        assert [await anext(one), await anext(one)] == ["a", "b"]
        assert await anext(two) == "a"
        changes.notify("c")
        assert await anext(one) == "c"
