"""How many nodes are connected at once."""

from __future__ import annotations

import asyncio

from labconsole.nodes.ssh_connection import ConcurrencyLimit

LONG_S = 3600.0


def test_no_more_at_once_than_there_are_turns() -> None:
    turns, now, most = ConcurrencyLimit(3, LONG_S), 0, 0

    async def connect() -> None:
        nonlocal now, most
        async with turns.one():
            now += 1
            most = max(most, now)
            await asyncio.sleep(0)
            now -= 1

    async def all_nodes() -> None:
        async with asyncio.timeout(30):
            await asyncio.gather(*(connect() for _ in range(20)))

    for _ in range(2):  # each event loop has turns of its own
        asyncio.run(all_nodes())
        assert (now, most) == (0, 3)


def test_nodes_that_never_answer_do_not_keep_the_others_waiting() -> None:
    turns, connected = ConcurrencyLimit(2, 0.01), []

    async def answer_never() -> None:
        async with turns.one():
            await asyncio.Event().wait()

    async def connect(number: int) -> None:
        async with turns.one():
            connected.append(number)

    async def all_nodes() -> None:
        silent = [asyncio.create_task(answer_never()) for _ in range(6)]
        async with asyncio.timeout(30):
            await asyncio.gather(*(connect(number) for number in range(6)))
        for task in silent:
            task.cancel()
        await asyncio.gather(*silent, return_exceptions=True)
        # A turn that was given back early is not given back again at the end.
        async with asyncio.timeout(30):
            async with turns.one(), turns.one():
                third = asyncio.create_task(connect(6))
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                assert not third.done()
            await third

    asyncio.run(all_nodes())
    assert connected == [0, 1, 2, 3, 4, 5, 6]


def test_who_is_cancelled_gives_the_turn_back() -> None:
    turns = ConcurrencyLimit(1, LONG_S)

    async def cancelled() -> None:
        holding, waiting = (asyncio.create_task(_forever(turns)) for _ in range(2))
        await asyncio.sleep(0)
        for task in (waiting, holding):
            task.cancel()
        await asyncio.gather(holding, waiting, return_exceptions=True)
        async with asyncio.timeout(30), turns.one():
            pass

    asyncio.run(cancelled())


async def _forever(turns: ConcurrencyLimit) -> None:
    async with turns.one():
        await asyncio.Event().wait()
