"""Processes that the agent starts: none of them outlives it, and some wait for the instant to begin."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import struct
import subprocess
import sys
import time
from typing import Any, Callable, Optional, Sequence, Set

from labconsole.agent.debug import complain
from labconsole.agent.processes import linux
from labconsole.wire.codec import WireError

# -- children ----------------------------------------------------------------------------------------------------------
# Processes that the agent starts: none of them outlives it.
#
# Each child requests SIGKILL at its parent's death from the kernel. That request is tied to the *thread* that forked,
# so all forks happen on the main thread (the event loop's). It is lost at the exec of a program with file capabilities
# (a tcpdump set up for an unprivileged group) and not inherited by grandchildren: those are left to the keeper.

SEARCH_PATH = ":".join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"])
"""An unprivileged login's PATH often lacks the directory of tcpdump."""

READ_BYTES = 65536
"""How much of a child's output is read ahead, which is asyncio's default."""

OOM_SCORE = "900"
"""The kernel's maximum is 1000."""

CHILD_ENVIRONMENT = dict(os.environ, PATH=SEARCH_PATH.strip(":"), LC_ALL="C", LANGUAGE="C")
"""Messages of tools are matched by text, so they must not be translated."""


def build_preexec(
    parent: int, namespaces: Sequence[Any], ignore_setgroups: bool, own_group: bool
) -> Callable[[], None]:
    """Build the child's steps between fork and exec. ``namespaces``: (descriptor, kind) to enter, in this order."""

    def prepare() -> None:
        if own_group:
            os.setpgid(0, 0)
        linux.die_with_parent(signal.SIGKILL, parent)
        for descriptor, kind in namespaces:
            linux.setns(descriptor, kind)
        if ignore_setgroups:
            linux.ignore_setgroups()

    return prepare


class _Watched(asyncio.subprocess.SubprocessStreamProtocol):
    """Receives the end of a process while a descendant may still have its output open."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=READ_BYTES, loop=loop)
        self.over: "asyncio.Future[None]" = loop.create_future()

    def process_exited(self) -> None:
        super().process_exited()
        if not self.over.done():
            self.over.set_result(None)


class Child(asyncio.subprocess.Process):
    """A process whose ``exited`` waits for its own end. ``wait``, from Python 3.11 on, waits for the end of its output,
    which a descendant may keep open for ever.
    """

    def __init__(self, transport: asyncio.SubprocessTransport, protocol: _Watched) -> None:
        super().__init__(transport, protocol, asyncio.get_running_loop())
        self._whole, self._over = transport, protocol.over

    def close(self) -> None:
        """Release its output, even if other processes have it open. The process has ended, or is killed."""
        self._whole.close()

    async def exited(self) -> None:
        await asyncio.shield(self._over)


async def _started(argv: Sequence[str], **options: Any) -> Child:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.subprocess_exec(lambda: _Watched(loop), *argv, **options)
    return Child(transport, protocol)


async def spawn(
    argv: Sequence[str],
    *,
    stdin: int = subprocess.DEVNULL,
    stdout: int = subprocess.PIPE,
    stderr: int = subprocess.PIPE,
    namespaces: Sequence[Any] = (),
    ignore_setgroups: bool = False,
    own_session: bool = True,
) -> Child:
    """Start a program that dies with the agent, in its own process group and, by default, its own session."""
    starting = asyncio.ensure_future(
        _started(
            argv,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=CHILD_ENVIRONMENT,
            start_new_session=own_session,
            preexec_fn=build_preexec(os.getpid(), namespaces, ignore_setgroups, not own_session),
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        # If cancelled half-way, asyncio would kill the process but not its descendants by then.
        await asyncio.wait([starting])
        if not starting.cancelled() and starting.exception() is None:
            kill_group(starting.result())
        raise


def fork(work: Callable[[], None], *, keep: Sequence[int] = ()) -> int:
    """Run ``work`` in a child without exec. It has no descriptor of ours but ``keep`` and never returns here."""
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        linux.die_with_parent(signal.SIGKILL, parent)
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            if descriptor not in keep:
                os.dup2(null, descriptor)
        close_all_but(set(keep) | {0, 1, 2} | archive_descriptors())
        work()
        status = 0
    finally:
        os._exit(status)
    return 0  # not reached


def archive_descriptors() -> Set[int]:
    """Return the descriptor of the agent's own archive, which has no other name: a child may still import from it."""
    prefix = "/proc/self/fd/"
    numbers = [entry[len(prefix) :] for entry in sys.path if entry.startswith(prefix)]
    return {int(number) for number in numbers if number.isdigit()}


def close_all_but(keep: Any) -> None:
    for name in os.listdir("/proc/self/fd"):
        descriptor = int(name)
        if descriptor not in keep:
            try:
                os.close(descriptor)
            except OSError:  # the one that listed the directory is closed already
                continue


def kill_group(process: asyncio.subprocess.Process, number: int = signal.SIGKILL) -> None:
    """Signal a child made by ``spawn`` and its descendants, unless it has ended."""
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        # Permission: the group has only the zombie of a process with other credentials.
        return


def kill_first(process: asyncio.subprocess.Process) -> None:
    """Make the kernel take memory from a child made by ``spawn`` and its descendants before any other process."""
    try:
        with open("/proc/%d/oom_score_adj" % process.pid, "w", encoding="ascii") as setting:
            setting.write(OOM_SCORE)
    except OSError as exc:
        complain("process %d is not the first to be killed for memory: %s" % (process.pid, exc))


# -- armed child -------------------------------------------------------------------------------------------------------
# A forked child that gets ready, waits for the instant to begin, works, and never outlives the agent.
#
# Its readiness, its failure to get ready and its end are all reported through one pipe: only the child has the writing
# end, so the end of file is its death, whatever killed it, and no signal handler or kernel feature is needed to notice
# it.

READY_LIMIT_S = 10.0
NAP_NS = 20_000_000
"""The longest sleep in one piece, so that a request to stop is seen within this time."""

_GO = struct.Struct("=q")
_AT_ONCE = -1


class ChildSide:
    """The child's side: it reports once that it is ready (or why not), then waits for the start."""

    def __init__(self, reading: int, writing: int) -> None:
        self._reading, self._writing = reading, writing

    def ready(self) -> None:
        os.write(self._writing, b"{}\n")

    def failed(self, code: str, message: str) -> None:
        os.write(self._writing, json.dumps({"code": code, "message": message}).encode("ascii") + b"\n")

    def wait_word(self) -> Optional[int]:
        """Return the instant to begin at on CLOCK_MONOTONIC, or None for at once. Ends the process if there is no
        start.
        """
        word = os.read(self._reading, _GO.size)
        if len(word) != _GO.size:
            os._exit(0)
        (at_ns,) = _GO.unpack(word)
        return None if at_ns == _AT_ONCE else int(at_ns)


def sleep_until(instant_ns: int, stopped: Callable[[], bool]) -> bool:
    """Sleep until ``instant_ns`` (CLOCK_MONOTONIC), in short pieces. Returns False if stopped before."""
    while True:
        if stopped():
            return False
        rest_ns = instant_ns - time.monotonic_ns()
        if rest_ns <= 0:
            return True
        time.sleep(min(rest_ns, NAP_NS) / 1e9)


class ArmedChild:
    """The agent's handle on one such child. Made on the main thread: the kernel ties the child's life to it."""

    def __init__(self, work: Callable[[ChildSide], None]) -> None:
        word_reading, self._word = os.pipe()
        self._news, news_writing = os.pipe()
        side = ChildSide(word_reading, news_writing)
        self.pid = fork(lambda: work(side), keep=(word_reading, news_writing))
        os.close(word_reading)
        os.close(news_writing)
        os.set_blocking(self._news, False)
        self._buffer = b""
        self._alive = True
        self._loop = asyncio.get_running_loop()
        self._first: "asyncio.Future[bytes]" = self._loop.create_future()
        self._end: "asyncio.Future[None]" = self._loop.create_future()
        self._loop.add_reader(self._news, self._hear)

    def _hear(self) -> None:
        try:
            data = os.read(self._news, 65536)
        except BlockingIOError:
            return
        self._buffer += data
        if not self._first.done() and (b"\n" in self._buffer or not data):
            self._first.set_result(self._buffer.partition(b"\n")[0])
        if not data:
            self._reap()

    @property
    def last_words(self) -> Optional[str]:
        """Return the child's error after it was ready, a sentence, or None."""
        lines = self._buffer.split(b"\n")[1:-1]
        return str(json.loads(lines[-1])["message"]) if lines else None

    def _reap(self) -> None:
        self._loop.remove_reader(self._news)
        os.close(self._news)
        os.close(self._word)
        try:
            # Files are closed late in a process's end: this waits for microseconds.
            os.waitpid(self.pid, 0)
        except ChildProcessError:  # another waiter has reaped it
            pass
        self._alive = False
        self._end.set_result(None)

    @property
    def alive(self) -> bool:
        return self._alive

    async def wait_ready(self) -> None:
        """Wait until the child is ready. Raises WireError with the child's own sentence if it failed."""
        done, _ = await asyncio.wait([self._first], timeout=READY_LIMIT_S)
        if not done:
            raise WireError("generator_failed", "the sending process was not ready after %g s" % READY_LIMIT_S)
        line = self._first.result()
        news: Any = json.loads(line) if line else None
        if news is None:
            raise WireError("generator_failed", "the sending process died before it was ready")
        if news:
            raise WireError(news["code"], news["message"])

    def give_word(self, at_monotonic_ns: Optional[int]) -> None:
        if self._alive:
            try:
                os.write(self._word, _GO.pack(_AT_ONCE if at_monotonic_ns is None else at_monotonic_ns))
            except BrokenPipeError:  # it died, which its end of file reports
                pass

    async def wait_end(self) -> None:
        await asyncio.wait([self._end])

    def signal(self, number: int) -> None:
        """Send a signal. The process is not reaped before ``alive`` turns False, so the id cannot be another's."""
        if self._alive:
            os.kill(self.pid, number)

    async def close(self) -> None:
        """Make sure that the child is gone."""
        self.signal(signal.SIGKILL)
        await self.wait_end()
