"""Virtual time jumps, keeps order, and tells when nothing can happen any more."""

import asyncio

import pytest

from shepherd.testing.virtual import EPOCH, StalledError, VirtualClock, eventually, run_virtual


def test_a_week_passes_in_no_time() -> None:
    async def week() -> float:
        clock = VirtualClock()
        await clock.sleep(7 * 24 * 3600.0)
        return clock.now()

    assert run_virtual(week(), within_seconds=1e7) == pytest.approx(EPOCH + 7 * 24 * 3600.0)


def test_timers_fire_in_the_order_of_their_times() -> None:
    async def race() -> list[str]:
        order: list[str] = []

        async def runner(name: str, seconds: float) -> None:
            await asyncio.sleep(seconds)
            order.append(name)

        async with asyncio.TaskGroup() as group:
            for name, seconds in (("slow", 30.0), ("quick", 0.001), ("middle", 5.0)):
                group.create_task(runner(name, seconds))
        return order

    assert run_virtual(race()) == ["quick", "middle", "slow"]


def test_threads_run_in_place() -> None:
    async def main() -> float:
        await asyncio.to_thread(lambda: None)
        with pytest.raises(ValueError, match="wrong"):
            await asyncio.to_thread(_raise)
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == 0.0


def _raise() -> None:
    raise ValueError("wrong")


def test_waiting_for_ever_ends_at_the_limit() -> None:
    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(TimeoutError):
        run_virtual(main(), within_seconds=10.0)


def test_a_loop_without_timers_is_stalled() -> None:
    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(StalledError):
        run_virtual(main(), within_seconds=None)


def test_eventually_waits_in_virtual_time_and_gives_up() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        await eventually(lambda: loop.time() >= 3.0, within_seconds=10.0)
        with pytest.raises(AssertionError, match="the impossible did not hold within 5 s"):
            await eventually(lambda: False, within_seconds=5.0, what="the impossible")

    run_virtual(main())
