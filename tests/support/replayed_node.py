"""A UUT that answers a hypervisor's commands from a recorded shell (recordings/platforms/), as an AgentLink.

A recording has what is always so, then phases ("## running"): the same command answers as the phase has it. ``moves``
says which command brings which phase about; a command that was not recorded is a failing test.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from labconsole.contracts.driver import StreamWiring
from labconsole.errors import AgentError, NodeLost
from labconsole.platforms.base.installed_guests import InstalledGuestDriver
from support.agent_events import LINK
from support.asking import Asking

RECORDINGS = Path(__file__).parent.parent / "recordings" / "platforms"


def wiring(name: str = "s1", number: int = 1) -> StreamWiring:
    return StreamWiring(
        name=name,
        uut_in=f"eth{number}",
        uut_in_mac=f"52:54:00:00:01:0{number}",
        uut_out=f"eth{number + 4}",
        uut_out_mac=f"52:54:00:00:02:0{number}",
        sink_mac=f"52:54:00:00:03:0{number}",
        source_ip=f"198.18.{number}.1",
        sink_ip=f"198.19.{number}.1",
    )


def recorded(name: str) -> dict[str, dict[str, dict[str, Any]]]:
    """Phase ("" is always) to command to the agent's reply."""
    return parse_recording((RECORDINGS / f"{name}.txt").read_text())


def parse_recording(text: str) -> dict[str, dict[str, dict[str, Any]]]:
    """The same of a recording's text."""
    phases: dict[str, dict[str, dict[str, Any]]] = {"": {}}
    phase, command = "", None
    out: list[str] = []
    err: list[str] = []
    for line in text.splitlines():
        ended = re.fullmatch(r"\[rc=(\d{1,3})\]", line)
        if command is None and line.startswith("## "):
            phase = line[3:]
            phases[phase] = {}
        elif command is None and line.startswith("$ "):
            command, out, err = line[2:], [], []
        elif command is not None and ended:
            said = {"stdout": "".join(f"{x}\n" for x in out), "stderr": "".join(f"{x}\n" for x in err)}
            phases[phase][command] = {"exit_status": int(ended[1]), "truncated": False, **said}
            command = None
        elif command is not None:
            (err if line.startswith("2> ") else out).append(line.removeprefix("2> "))
    return phases


@dataclass
class ReplayedNode(Asking):
    """``moves``: command to the phase after it, or to (phase, looks): only after that many further commands."""

    recording: str
    phase: str = ""
    moves: dict[str, str | tuple[str, int]] = field(default_factory=dict)
    interfaces: Iterable[str] = ("eth1", "eth5")
    bridged: bool = True
    missing: frozenset[str] = frozenset()
    hanging: frozenset[str] = frozenset()
    name: str = "uut"
    commands: list[str] = field(default_factory=list)
    changes: list[tuple[str, Any]] = field(default_factory=list)
    shells: list[tuple[str, Any]] = field(default_factory=list)
    promised: dict[str, dict[str, Any]] = field(default_factory=dict)
    """How the keeper would stop the guests that were started, and that were off when it was promised."""

    lost: bool = False
    _coming: tuple[str, int] | None = None

    def __post_init__(self) -> None:
        self.phases = recorded(self.recording)

    async def request(self, op: str, args: dict[str, Any] | None = None, *, timeout_s: float = 30.0) -> dict[str, Any]:
        if self.lost:
            raise NodeLost(self.name, "the link is gone")
        if op == "exec":
            assert args is not None
            assert timeout_s > args["timeout_s"] > 0
            return self._run(args["argv"])
        if op == "links":
            masters = {name: f"br-{name}" if self.bridged else None for name in self.interfaces}
            return {"links": [{**LINK, "name": name, "master": masters[name]} for name in masters]}
        if op == "net.read":
            return {"sysctls": dict.fromkeys((args or {})["sysctls"], "1")}
        if op == "guest.promise_stop":
            assert args is not None
            self.promised[args["guest"]] = {**args, "commands": len(self.commands)}
            return {}
        if op == "guest.stop_kept":
            self.promised.pop((args or {})["guest"], None)
            return {}
        if op in ("guest.start", "guest.stop"):
            self.shells.append((op, (args or {}).get("argv")))
            return {"pid": 7, "started_ns": 1, "ready_ns": 2, "console": ""} if op == "guest.start" else {}
        assert op in ("net.apply", "net.undo"), op
        self.changes.append((op, args))
        return {"failed": []} if op == "net.undo" else {}

    def _run(self, argv: list[str]) -> dict[str, Any]:
        if argv[0] in self.missing:
            raise AgentError(self.name, f"{argv[0]} is not installed on this node", code="command_missing")
        command = shlex.join(argv)
        self.commands.append(command)
        self._arrive()
        reply = self._find(command)
        move = self.moves.get(command)
        if isinstance(move, str):
            self.phase = move
        elif move is not None:
            self._coming = move
        if command in self.hanging:
            raise AgentError(self.name, f"{argv[0]} had not ended after 1 s and was killed", code="exec_timeout")
        assert reply is not None, f"not recorded in phase {self.phase!r}: $ {command}"
        return reply

    def _arrive(self) -> None:
        if self._coming is None:
            return
        phase, looks = self._coming
        self._coming = (phase, looks - 1)
        if looks <= 1:
            self.phase, self._coming = phase, None

    def _find(self, command: str) -> dict[str, Any] | None:
        for phase in (self.phase, ""):
            for said, reply in self.phases[phase].items():
                if said == command or (said.endswith(" …") and command.startswith(said[:-1])):
                    return reply
        return None

    def answers(self, command: str, stdout: str = "", *, exit_status: int = 0, stderr: str = "") -> None:
        """Answer otherwise than recorded, in every phase."""
        for answers in self.phases.values():
            answers.pop(command, None)
        self.phases[""][command] = {
            "exit_status": exit_status,
            "stdout": stdout,
            "stderr": stderr,
            "truncated": False,
        }


def hurried(driver: InstalledGuestDriver, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Let a driver's time pass only by its own pauses; they are returned."""
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(driver, "now", lambda: sum(pauses))
    monkeypatch.setattr(driver, "pause", pause)
    return pauses
