"""Processes that the agent starts: none of them outlives it.

Each child requests SIGKILL at its parent's death from the kernel. That request is tied to the *thread* that forked, so
all forks happen on the main thread (the event loop's). It is lost at the exec of a program with file capabilities (a
tcpdump set up for an unprivileged group) and not inherited by grandchildren: those are left to the keeper.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from typing import Any, Callable, Sequence, Set

from labconsole.agent.debug import complain
from labconsole.agent.processes import linux

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
