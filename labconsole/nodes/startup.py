"""Why an agent did not start, from the output of the shell, sudo or Python: the missing capability, and the remedy."""

from __future__ import annotations

import re
import shlex

from labconsole.errors import CapabilityMissing, NodeError, NodeUnreachable
from labconsole.wire.clean import last_line

MIN_PYTHON = (3, 9)
_VERSION = re.compile(r"\b(\d+)\.(\d+)\b")
_LACKING = re.compile(r"^ModuleNotFoundError: No module named '((?!labconsole|pyroute2)\w+)'")
_WHOLE_PYTHON = "install Debian's python3 (python3-minimal is not enough) or set `python:` in hosts.yaml"


def version_command(python: str, become: str | None) -> str:
    """A command line that prints major.minor of the node's Python, of any version."""
    code = "import sys; sys.stdout.write('%d.%d' % sys.version_info[:2])"
    return shlex.join([*(["sudo", "-n", "--"] if become else []), python, "-c", code])


def explain(
    name: str, *, user: str, python: str, become: str | None, exit_status: int | None, stderr: bytes, junk: bytes
) -> NodeError:
    """The error for an agent that ended before its hello."""
    last_output = last_line(stderr) or last_line(junk)
    text = stderr[-4096:].decode("utf-8", "replace").lower()
    quoted = f" ({last_output})" if last_output else ""
    absent = exit_status == 127 or "not found" in text or "no such file" in text
    if become == "sudo" and absent and not re.search(r"^sudo: ", text, re.MULTILINE):
        return _missing(
            name, f"sudo is not installed there{quoted}: install it, or log in as root and remove `become: sudo`"
        )
    if become == "sudo" and re.search(r"password is required|terminal is required|askpass|conversation failed", text):
        return _missing(name, f"sudo wants a password from {user}{quoted}; {_sudoers(user)}")
    if become == "sudo" and re.search(r"sudoers|not allowed to|may not run", text):
        return _missing(name, f"sudo does not let {user} in{quoted}; {_sudoers(user)}")
    if absent and not text.lstrip().startswith("traceback"):
        return _missing(name, f"{python} is not installed there{quoted}: {_WHOLE_PYTHON}")
    if exit_status == 126:
        return _missing(name, f"{python} cannot be run there{quoted}: set another `python:` in hosts.yaml")
    status = "" if exit_status is None else f" (exit status {exit_status})"
    return NodeUnreachable(
        name,
        f"the agent did not start{status}" + (f": {last_output}" if last_output else " without a message"),
        operation="connect",
    )


def too_old(name: str, python: str, answer: str) -> NodeError | None:
    """The error for a Python that is too old for the agent, by version_command's output, or None."""
    found = _VERSION.search(answer)
    if found is None or (int(found[1]), int(found[2])) >= MIN_PYTHON:
        return None
    wanted = ".".join(map(str, MIN_PYTHON))
    return _missing(
        name,
        f"{python} there is Python {found[0]}, which is too old; {wanted} or newer is needed: set `python:` in "
        f"hosts.yaml",
    )


def lacks_library(name: str, python: str, stderr: bytes) -> NodeError | None:
    """The error for a Python of a sufficient version that lacks a part of its standard library, or None."""
    lacking = _LACKING.search(last_line(stderr))
    if lacking is None:
        return None
    return _missing(name, f"{python} there lacks {lacking[1]} of the standard library: {_WHOLE_PYTHON}")


def _sudoers(user: str) -> str:
    return f"allow it in a file created by `visudo -f /etc/sudoers.d/labconsole`: {user} ALL=(root) NOPASSWD: ALL"


def _missing(name: str, text: str) -> NodeError:
    return CapabilityMissing(name, text, operation="connect")
