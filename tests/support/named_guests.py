"""Guests inside which a test looks: what their ``ip`` says and does, and a UUT whose agent leads to shells in them."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from typing import Any

from labconsole.errors import AgentError
from support.replayed_node import ReplayedNode

_DISK_MADE = re.compile(r"cd /\S+ && for d in .* && mkdir -m 700 (\S+) && .* echo \"LCDISK ")
_DISK_REMOVED = re.compile(r"rm -rf -- (\S+) \|\| ")
_ASKED = re.compile(r"echo '<'([0-9a-f]{12}); (sh -c .*) </dev/null 2>&1; s=\$\?; echo; echo '>'[0-9a-f]{12} \$s")


@dataclass
class Inside:
    """One guest with one NIC, as busybox's ``ip`` shows it."""

    mac: str
    interface: str = "eth0"
    addresses: list[str] = field(default_factory=list)
    up: bool = False
    disk: str = "ext4 /dev/xvda1 1038336 32 961536 1% /"
    """The type of the file system that its jobs work on, and what ``df`` says of it."""

    directories: list[str] = field(default_factory=list)
    """Those in it that are ours."""

    deaf: int = 0
    """So many lines it does not answer as a whole: a console still prints something else."""

    def answer(self, mark: str, line: str) -> str:
        if self.deaf:
            self.deaf -= 1
            return "something else\n"
        status, said = self.run(line)
        return f"<{mark}\n{said}\n>{mark} {status}\n"

    def run(self, line: str) -> tuple[int, str]:
        if found := _DISK_MADE.match(line):
            self.directories.append(found[1])
            return 0, f"LCDISK {self.disk}"
        if found := _DISK_REMOVED.match(line):
            self.directories.remove(found[1])
            return 0, ""
        said = []
        for each in re.split(r" && |; ", line):
            words = shlex.split(each)
            match words:
                case ["ip", "-o", "link"]:
                    flags = "BROADCAST,MULTICAST" + (",UP,LOWER_UP" if self.up else "")
                    said.append("1: lo: <LOOPBACK> mtu 65536 qdisc noop    link/loopback 00:00:00:00:00:00 brd 0")
                    said.append(
                        f"2: {self.interface}@if7: <{flags}> mtu 1500 qdisc noop qlen 1000\\    link/ether {self.mac} "
                        "brd ff:ff:ff:ff:ff:ff"
                    )
                case ["ip", "-o", "-4", "address", "show", "dev", self.interface]:
                    said += [
                        f"2: {self.interface}    inet {each} scope global {self.interface}" for each in self.addresses
                    ]
                case ["ip", "address", "add", address, "dev", self.interface] if address not in self.addresses:
                    self.addresses.append(address)
                case ["ip", "address", "del", address, "dev", self.interface] if address in self.addresses:
                    self.addresses.remove(address)
                case ["ip", "link", "set", self.interface, ("up" | "down") as how]:
                    self.up = how == "up"
                case [":"]:
                    pass
                case _:
                    return 1, f"not known here: {each}"
        return 0, "\n".join(said)


@dataclass
class CrewNode(ReplayedNode):
    """``inside``: what each of the agent's guests leads to; ``not_yet``: how often what leads there ends at once."""

    inside: dict[str, Inside] = field(default_factory=dict)
    not_yet: int = 0
    open: dict[str, list[str]] = field(default_factory=dict)
    """The shells that are open, and what leads there."""

    opened: int = 0
    said: str = ""
    """What a guest's console shows before it is up."""

    deaf: frozenset[str] = frozenset()
    """Guests whose way in leads nowhere for as long as anybody waits."""

    _clock: int = 0

    async def request(self, op: str, args: dict[str, Any] | None = None, *, timeout_s: float = 30.0) -> dict[str, Any]:
        name = (args or {}).get("guest", "")
        if self.lost:
            self.open.clear()
        elif op == "ping":
            self._clock += 1
            return {"monotonic_ns": self._clock, "wall_ns": 1}
        elif op == "guest.start":
            assert args is not None
            if self.not_yet:
                self.not_yet -= 1
                raise AgentError(self.name, "guest g1 ended with status 255; it ends: refused", code="guest_ended")
            if name in self.deaf:
                raise AgentError(self.name, f"guest {name} did not answer within 5 s", code="guest_silent")
            self.opened += 1
            self.open[name] = args["argv"]
            return {"pid": 1000 + self.opened, "started_ns": 2, "ready_ns": 3, "console": self.said}
        elif op in ("guest.ask", "guest.status", "guest.stop") and name not in self.open:
            raise AgentError(self.name, f"no guest {name} was started here", code="no_such_guest")
        elif op == "guest.ask":
            assert args is not None
            asked = _ASKED.fullmatch(args["line"])
            assert asked is not None, args["line"]
            return {"printed": self.inside[name].answer(asked[1], shlex.split(asked[2])[2])}
        elif op == "guest.status":
            return {"running": True, "pid": 1000 + self.opened, "cpu_s": None}
        elif op == "guest.stop":
            del self.open[name]
            return {}
        return await super().request(op, args, timeout_s=timeout_s)
