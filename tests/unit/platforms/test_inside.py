"""A shell inside a guest, spoken to through the agent's own operations: answers are whole, marked and never mixed up."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from labconsole.agent.operations.guests import GuestProcess, Guests
from labconsole.agent.operations.program_execution import Executor
from labconsole.contracts.ports import AgentLink
from labconsole.errors import AgentError, NodeError
from labconsole.platforms.base.guest_shell import DONE, READY, ask_on_console, close_shell, open_shell
from labconsole.wire.codec import WireError
from labconsole.wire.execution import Execute
from labconsole.wire.guests import StartGuest
from labconsole.wire.message import R, Request


class _Link:
    """An agent's guests without an agent around them."""

    name = "uut"

    def __init__(self) -> None:
        self.guests = Guests(lambda event: None, lambda namespace: ())
        self.started: list[GuestProcess] = []

    async def ask(self, request: Request[R], *, timeout_s: float = 30.0) -> R:
        try:
            reply = await getattr(self.guests, request.op.removeprefix("guest."))(request)
            if isinstance(request, StartGuest):
                self.started.append(self.guests._guests[request.guest])
            return cast(R, reply)
        except WireError as exc:
            raise AgentError(self.name, exc.message, code=exc.code, operation=request.op) from exc


def _with_link(work: Callable[[AgentLink], Awaitable[None]]) -> None:
    async def run() -> None:
        link = _Link()
        try:
            await work(cast(AgentLink, link))
        finally:
            link.guests.kill_all()
            for guest in link.started:
                await guest.reader
                cast(Any, guest.process)._transport.close()

    asyncio.run(run())


def test_a_shell_answers_each_line_with_what_that_line_printed() -> None:
    async def work(link: AgentLink) -> None:
        ask = await open_shell(link, "second", ["env", "WHERE=inside"])
        assert await ask(link, "echo $WHERE; printf 'no end of line'") == "inside\nno end of line"
        assert await ask(link, "true") == ""
        assert await ask(link, "echo 'a\"b'; cat") == 'a"b', "a line that reads takes no later line"
        answers = await asyncio.gather(*(ask(link, f"echo {number}") for number in range(5)))
        assert answers == ["0", "1", "2", "3", "4"]
        await close_shell(link, "second")
        await close_shell(link, "second")

    _with_link(work)


@pytest.mark.parametrize("own_session", ["", "setsid "])
def test_a_guest_that_dies_is_missed_although_what_it_started_holds_its_console_open(own_session: str) -> None:
    """As the helpers of a User-mode Linux do; one in a session of its own does not end with its process group."""

    async def work(link: AgentLink) -> None:
        ask = await open_shell(link, "second", [])
        waiting = asyncio.ensure_future(ask(link, f"{own_session}sleep 1000 & echo began $!; wait"))
        (guest,) = cast(_Link, link).started
        while (begun := re.search(rb"began (\d+)\s", guest.console)) is None:
            await asyncio.sleep(0.01)
        os.kill(guest.process.pid, signal.SIGKILL)
        try:
            with pytest.raises(AgentError, match="guest second ended with status -9"):
                await asyncio.wait_for(waiting, 20)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(begun[1]), signal.SIGKILL)

    _with_link(work)


@pytest.mark.parametrize("own_session", ["", "setsid "])
def test_a_program_is_over_when_it_has_ended_although_what_it_started_holds_its_output_open(
    own_session: str, tmp_path: Path
) -> None:
    """A stray of its process group ends with it; one in a session of its own is told."""

    async def work() -> None:
        line = f"{own_session}sleep 1000 & echo $! > {tmp_path}/stray; echo said"
        ask = Executor(lambda namespace: ()).run(Execute(argv=["sh", "-c", line], timeout_s=20.0))
        if not own_session:
            assert (await ask).stdout == "said\n"
            return
        try:
            with pytest.raises(WireError, match="something it started keeps its output open"):
                await ask
        finally:
            os.kill(int((tmp_path / "stray").read_text()), signal.SIGKILL)

    asyncio.run(work())


def test_a_line_that_fails_is_an_error_with_its_last_words() -> None:
    async def work(link: AgentLink) -> None:
        ask = await open_shell(link, "second", [])
        with pytest.raises(NodeError, match="in guest second, status 3: no such thing"):
            await ask(link, "echo no such thing; exit 3")
        assert await ask(link, "echo still here") == "still here"

    _with_link(work)


def test_a_line_that_a_terminal_would_cut_or_run_as_two_is_refused() -> None:
    async def work(link: AgentLink) -> None:
        ask = await open_shell(link, "second", [])
        for line in ("echo one\necho two", "echo " + "x" * 4000):
            with pytest.raises(NodeError, match="too long or has several"):
                await ask(link, line)

    _with_link(work)


def test_what_a_console_shows_besides_does_not_become_part_of_an_answer() -> None:
    async def work(link: AgentLink) -> None:
        # A serial console echoes, ends lines in \r\n, and the kernel writes to it.
        loop = (
            f"echo {READY}; while read -r line; do echo \"$line\"; echo '[1.0] kernel words'; "
            f'sh -c "$line" | sed "s/$/\\r/"; echo "{DONE} $?"; echo late words; done'
        )
        await link.ask(StartGuest(guest="g", argv=["sh", "-c", loop], ready=READY, timeout_s=5.0))
        ask = ask_on_console("g")
        assert await ask(link, "echo one; echo two") == "one\ntwo"
        assert await ask(link, "echo three") == "three"

    _with_link(work)


def test_a_guest_that_says_it_is_done_without_an_answer_is_told_by_its_words() -> None:
    async def work(link: AgentLink) -> None:
        loop = f"echo {READY}; while read -r line; do echo 'Kernel panic'; echo '{DONE} 0'; done"
        await link.ask(StartGuest(guest="g", argv=["sh", "-c", loop], ready=READY, timeout_s=5.0))
        with pytest.raises(NodeError, match="guest g did not answer completely; its answer ends: .*Kernel panic"):
            await ask_on_console("g")(link, "echo hello")

    _with_link(work)
