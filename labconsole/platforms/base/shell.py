"""Commands of a hypervisor, run on the UUT by its agent: argv, a time limit, and an answer that is not trusted yet.

Neither exit status nor text of such tools is reliable alone (docs/platforms.md names the cases), so ``run`` returns any
answer, even that of a command that did not end; callers that change something read the state back.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, cast

from labconsole.contracts.ports import AgentLink
from labconsole.errors import AgentError, CapabilityMissing, NodeError
from labconsole.wire.execution import Execute

LIMIT_S = 30.0
SHOWN_CHARACTERS = 200
SSH_FAILED = 255
NOT_FOUND = 127
NEVER_ENDED = ("exec_timeout", "exec_failed")

MAX_BLANKS = 100
"""Names of guests have up to 80 characters: a table pads the column of a short one by as many blanks."""

_RUN = re.compile(rf"\s{{{MAX_BLANKS + 1},}}")

_DENIED = re.compile(
    r"permission denied|not permitted|must be (?:run as )?root|root privileges|access denied"
    r"|authentication (?:unavailable|failed)|requires? (?:super-?user|root)|insuffici?ent privileges",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Answer:
    """A command's answer. ``exit_status`` is None if it had not ended within its limit."""

    argv: tuple[str, ...]
    exit_status: int | None
    stdout: str
    stderr: str

    @property
    def text(self) -> str:
        """Both streams: the stream of a message differs between versions."""
        return f"{self.stdout}\n{self.stderr}"

    @property
    def denied(self) -> bool:
        """Whether it reports that this user has no permission."""
        return _DENIED.search(self.text) is not None

    @property
    def said(self) -> str:
        """The last informative line, errors first, short enough for a sentence."""
        for stream in (self.stderr, self.stdout):
            written = [" ".join(line.split()) for line in stream.splitlines() if line.strip()]
            if written:
                shown = "".join(c for c in written[-1] if c.isprintable())
                return shown if len(shown) <= SHOWN_CHARACTERS else f"{shown[: SHOWN_CHARACTERS - 1]}…"
        return "it did not end in time" if self.exit_status is None else f"exit status {self.exit_status}"

    @property
    def program(self) -> str:
        """The program to run, behind ``env`` and its settings."""
        return next((word for word in self.argv if word != "env" and "=" not in word), self.argv[0])

    @property
    def command(self) -> str:
        return shlex.join(self.argv)


def collapsed(text: str) -> str:
    """Text without long runs of blanks: on a megabyte of them, sent on purpose, the parsers would not end."""
    return _RUN.sub(lambda run: "\n" if "\n" in run[0] else " " * MAX_BLANKS, text)


def ssh_argv(destination: str, line: str) -> list[str]:
    """The command line with which the UUT runs one shell line elsewhere.

    It accepts only host keys in the UUT's known_hosts, which it does not change, and forwards none of the user's
    credentials to that host, independent of the UUT's ssh_config.
    """
    settings = (
        "BatchMode=yes",
        "ConnectTimeout=10",
        "StrictHostKeyChecking=yes",
        "UpdateHostKeys=no",
        "VerifyHostKeyDNS=no",
        "NoHostAuthenticationForLocalhost=no",
        "ForwardAgent=no",
        "ForwardX11=no",
        "ClearAllForwardings=yes",
    )
    options = [word for setting in settings for word in ("-o", setting)]
    return ["ssh", "-k", *options, "--", destination, line]  # -k: no GSSAPI credentials, also without GSSAPI


class Shell:
    """The UUT's command line for one platform. With ``ssh`` its commands go on to a hypervisor elsewhere."""

    def __init__(self, uut: AgentLink, platform: str, ssh: str | None = None) -> None:
        self.uut, self.platform, self.ssh = uut, platform, ssh

    def error(self, message: str) -> NodeError:
        return NodeError(self.uut.name, f"platform {self.platform}: {message}")

    def missing(self, message: str) -> CapabilityMissing:
        return CapabilityMissing(self.uut.name, f"platform {self.platform}: {message}")

    def sent(self, argv: Sequence[str]) -> list[str]:
        """The command as this node runs it."""
        if self.ssh is None:
            return list(argv)
        # ssh passes one line to a remote shell, so every word is quoted for it.
        line = shlex.join(["env", "LC_ALL=C", *argv])
        return ssh_argv(self.ssh, line)

    async def run(self, argv: Sequence[str], *, limit_s: float = LIMIT_S) -> Answer:
        """Run it. Raises CapabilityMissing if the program is missing or not permitted, else returns."""
        sent = self.sent(argv)
        try:
            reply = await self.uut.ask(Execute(argv=sent, timeout_s=limit_s), timeout_s=limit_s + 10)
        except AgentError as exc:
            if exc.code == "command_missing":
                raise self.missing(f"{sent[0]} is not installed on this node") from exc
            if exc.code == "no_permission":
                raise self.missing(f"no permission to run {sent[0]} on this node") from exc
            if exc.code in NEVER_ENDED:
                return Answer(tuple(argv), None, "", exc.message)
            raise
        if reply.truncated:
            raise self.error(f"`{shlex.join(argv)}` printed too much output")
        said = (collapsed(reply.stdout), collapsed(reply.stderr))
        answer = Answer(tuple(argv), reply.exit_status, *said)
        if self.ssh is not None and answer.exit_status == SSH_FAILED:
            raise self.error(f"cannot reach {self.ssh} by ssh from this node: {answer.said}")
        if self.ssh is not None and answer.exit_status == NOT_FOUND:
            raise self.missing(f"{answer.program} is not installed on {self.ssh}")
        return answer

    async def must(self, argv: Sequence[str], *, limit_s: float = LIMIT_S) -> str:
        """The output of a command that changes nothing. Raises NodeError if it failed, CapabilityMissing if refused."""
        answer = await self.run(argv, limit_s=limit_s)
        if answer.exit_status != 0:
            raise self.failed(answer)
        return answer.stdout

    def failed(self, answer: Answer) -> NodeError:
        """The failure of a command, in one sentence."""
        if answer.denied:
            hint = "log in as a user who may use it, or set `become:` in hosts.yaml"
            return self.missing(f"no permission to use {answer.program} ({answer.said}): {hint}")
        if answer.exit_status is None:
            return self.error(answer.said)
        return self.error(f"`{answer.command}` failed: {answer.said}")


class _UnreachedUut:
    """Placeholder for a UUT that receives no requests."""

    name = "uut"


class RecordingShell(Shell):
    """Records commands and runs none: each "succeeds" with empty output."""

    def __init__(self, platform: str, ssh: str | None = None) -> None:
        super().__init__(cast("AgentLink", _UnreachedUut()), platform, ssh)
        self.lines: list[str] = []
        self.argvs: list[tuple[str, ...]] = []

    async def run(self, argv: Sequence[str], *, limit_s: float = LIMIT_S) -> Answer:
        self.argvs.append(tuple(argv))
        self.lines.append(shlex.join(self.sent(argv)))
        return Answer(tuple(argv), 0, "", "")

    def record(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run ``work`` as far as it gets without an answer. It waits for nothing, so no event loop is needed."""
        try:
            work.send(None)
        except StopIteration:
            return
        except NodeError:
            self.lines.append("# … and what follows from what that says")
        finally:
            work.close()
