"""The first start, where there is no hosts.yaml yet: asks what there is, and leads to a testbed."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from labconsole.cli.output import complain, plain_lines
from labconsole.errors import LabError
from labconsole.model.inventory import DEFAULT_INVENTORY
from labconsole.text.harmless import harmless_output

WORDS = """\
There is no hosts.yaml here, which says what a testbed is made of.
What do you have?

  1  machines that I reach over SSH, with cables between them
  2  this machine alone: show me the console on a testbed made on it,
     which is removed afterwards
  q  leave
"""


def first_start(store: str | None) -> Path | None:
    """The testbed file that was made; None: the user leaves. Does not return where a demo takes over, on ``store``."""
    with harmless_output():  # machines are asked, and what they say is shown
        return _led(store)


def _led(store: str | None) -> Path | None:
    plain_lines(WORDS)
    while True:
        answer = _asked("1, 2 or q: ").lower()
        if answer in ("q", "quit", ""):
            return None
        if answer == "2":
            sys.stdout.flush()
            where = [] if store is None else ["--store", store]
            os.execv(sys.executable, [sys.executable, "-P", "-m", "labconsole", "demo", *where])
        if answer == "1":
            found = _discovered()
            if found is not None:
                return found


def _discovered() -> Path | None:
    """None: it did not come to a file, and why was said."""
    from labconsole.cli.discovering import discover

    plain_lines("Name machines as you do after `ssh`, such as dut1 or root@10.0.0.5;", "~/.ssh/config is used.")
    uut = _asked("The unit under test, which forwards: ")
    others = _asked("All other machines, with blanks between them: ").split()
    become = _asked("Do you log in as root? [Y/n] ").lower() in ("n", "no")  # then by sudo, which must not ask
    args = argparse.Namespace(
        machine=[f"uut={uut}", *others], out=DEFAULT_INVENTORY, testbed="testbed", ssh_config=None, become=become,
        yes=False, json=False, take_over=False,
    )  # fmt: skip
    try:
        return DEFAULT_INVENTORY if discover(args) == 0 else None
    except LabError as exc:
        complain(exc)
        return None


def _asked(question: str) -> str:
    """What is typed; "" at the end of the input."""
    sys.stdout.write(question)
    sys.stdout.flush()
    return sys.stdin.readline().strip()
