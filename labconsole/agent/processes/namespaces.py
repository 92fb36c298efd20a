"""Network namespaces that the agent makes for guests, each kept alive by a child process and by nothing else.

No name in /run/netns and no bind mount: when the child dies, and it dies with the agent, the kernel removes the
namespace and everything in it. The agent notices a child's death by the end of a pipe, and closes its own descriptors:
a guest that was killed is gone, and does not forward as if nothing had happened.
"""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Callable, Dict, List, Optional, Tuple

from labconsole.agent.processes import children, linux
from labconsole.wire import codec

READY_TIMEOUT_S = 5.0


class Holder:
    """One namespace: its process, open descriptors of its network and mount namespace, and the pipe whose end is its
    death.
    """

    def __init__(self, pid: int, private_mounts: bool, life: int) -> None:
        self.pid, self.life = pid, life
        self.network = os.open("/proc/%d/ns/net" % pid, os.O_RDONLY | os.O_CLOEXEC)
        self.mounts: Optional[int] = None
        if private_mounts:
            self.mounts = os.open("/proc/%d/ns/mnt" % pid, os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        """End the process and wait for it, so that the namespace can be removed when this returns."""
        asyncio.get_running_loop().remove_reader(self.life)
        os.close(self.life)
        os.close(self.network)
        if self.mounts is not None:
            os.close(self.mounts)
        try:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            return


class Namespaces:
    """The namespaces made so far, by name; "" is the one that the agent runs in.

    ``on_death`` is called with the name of a namespace whose process was killed, when it is gone.
    """

    def __init__(self, on_death: Callable[[str], None]) -> None:
        self._holders: Dict[str, Holder] = {}
        self._on_death = on_death

    def __contains__(self, name: str) -> bool:
        return name == "" or name in self._holders

    @property
    def names(self) -> List[str]:
        return ["", *self._holders]

    def resolve(self, name: str) -> Optional[int]:
        """Return the descriptor to enter ``name`` by, or None for "". Raises LookupError if there is none."""
        return None if name == "" else self._holders[name].network

    def require(self, name: str) -> Optional[int]:
        """Like ``resolve``, for names from a request."""
        try:
            return self.resolve(name)
        except LookupError:
            raise codec.WireError("no_such_namespace", "namespace %s does not exist here" % name) from None

    def find_entry_namespaces(self, name: str) -> List[Tuple[int, int]]:
        """Return the namespaces that a child enters to run inside ``name``: its mounts (a fresh /sys) and its
        network.
        """
        self.require(name)
        if name == "":
            return []
        holder = self._holders[name]
        entered = [(holder.network, linux.CLONE_NEWNET)]
        if holder.mounts is not None:
            entered.append((holder.mounts, linux.CLONE_NEWNS))
        return entered

    def pid(self, name: str) -> int:
        self.require(name)
        return self._holders[name].pid if name else os.getpid()

    async def make(self, name: str) -> None:
        """Make a namespace. Main thread only, because it forks."""
        if name in self:
            raise codec.WireError("exists", "namespace %s already exists" % name)
        reading, writing = os.pipe()
        pid = children.fork(lambda: _hold(writing), keep=(writing,))
        os.close(writing)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bytes] = loop.create_future()

        def readable() -> None:
            loop.remove_reader(reading)
            if not answer.done():
                answer.set_result(os.read(reading, 256))

        loop.add_reader(reading, readable)
        try:
            word = await asyncio.wait_for(answer, READY_TIMEOUT_S)
        except asyncio.TimeoutError:
            word = b"no answer in %g s" % READY_TIMEOUT_S
        finally:
            loop.remove_reader(reading)
        if word not in (b"net", b"net+mnt"):
            os.close(reading)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            reason = word.decode("ascii", "replace") or "its process ended"
            raise codec.WireError("no_namespace", "cannot create namespace %s: %s" % (name, reason))
        self._holders[name] = Holder(pid, word == b"net+mnt", reading)
        loop.add_reader(reading, self._died, name)

    def _died(self, name: str) -> None:
        self.remove(name)
        self._on_death(name)

    def remove(self, name: str) -> None:
        holder = self._holders.pop(name, None)
        if holder is not None:
            holder.close()


def _hold(writing: int) -> None:
    """Run the namespace's process: make the namespace, report it, wait to be killed."""
    try:
        linux.unshare(linux.CLONE_NEWNET)
    except OSError as exc:
        os.write(writing, str(exc).encode("ascii", "replace")[:200])
        return
    word = b"net+mnt"
    try:
        # A /sys of its own, else programs in here see the outer interfaces in /sys/class/net.
        linux.unshare(linux.CLONE_NEWNS)
        linux.mount(None, b"/", None, linux.MS_PRIVATE_RECURSIVE)
        linux.mount(b"sysfs", b"/sys", b"sysfs", 0)
    except OSError:
        word = b"net"
    os.write(writing, word)
    while True:
        signal.pause()
