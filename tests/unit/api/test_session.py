"""A loop of its own for who has none, or has one that runs already."""

import asyncio
import signal
import threading
import time

import pytest

from labconsole.api.measuring import run_in_own_loop


async def answer() -> int:
    await asyncio.sleep(0)
    return 42


def test_it_works_with_and_without_a_loop_that_runs():
    assert run_in_own_loop(answer) == 42

    async def inside() -> int:
        return run_in_own_loop(answer)

    assert asyncio.run(inside()) == 42


def test_what_is_raised_is_raised():
    async def failing() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run_in_own_loop(failing)


def test_an_interrupt_cancels_it_and_waits_until_it_has_cleaned_up():
    begun, cleaned, ended = threading.Event(), threading.Event(), threading.Event()
    main = threading.get_ident()

    async def long() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
            ended.set()
        finally:
            await asyncio.sleep(0.05)
            cleaned.set()

    def interrupt() -> None:
        begun.wait(10)
        time.sleep(0.05)
        signal.pthread_kill(main, signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores interrupts
    try:
        threading.Thread(target=interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            run_in_own_loop(long)
    finally:
        signal.signal(signal.SIGINT, before)
    assert cleaned.is_set() and not ended.is_set()
