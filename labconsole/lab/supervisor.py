"""``python -m labconsole.lab.supervisor``: the process outside a lab's namespaces, which keeps the lab alive.

It opens what must come from the host's network namespace (the listening sockets of the nodes' SSH servers), enters new
namespaces, forks the lab's process 1 and waits for it. However it is killed, the lab ends with it.
"""

from __future__ import annotations

import argparse
import datetime
import errno
import json
import os
import signal
import socket
import sys
from functools import partial
from pathlib import Path
from typing import TextIO

from labconsole.errors import LabError, LabSetupError
from labconsole.lab import control
from labconsole.lab.files import user_name, write_client_files
from labconsole.lab.nodes import kernel
from labconsole.lab.nodes.kernel import listen
from labconsole.lab.prerequisites import namespace_refusal
from labconsole.lab.spec import HIGHEST_INDEX, OWNER_NUMBER, SSH_PORT, LabSpec, Layout, address_of, lay_out
from labconsole.lab.state import LabFile, ProcessIdentity

DEFAULT_NAME = "local"


def main(arguments: list[str]) -> int:
    """Detach, then run the lab until a signal ends it."""
    parser = argparse.ArgumentParser(prog="labconsole.lab.supervisor")
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--spec", required=True)
    parser.add_argument("--ready-fd", type=int, required=True)
    parser.add_argument("--lock-fd", type=int, required=True)
    options = parser.parse_args(arguments)
    # A second fork: the process that called `up` may live long and must not be the parent of a zombie.
    if os.fork():
        os._exit(0)
    os.setsid()
    ready = os.fdopen(options.ready_fd, "w", encoding="utf-8")
    _tell(ready, {"pid": os.getpid()})
    try:
        spec = LabSpec.from_json(json.loads(options.spec))
        if spec.generator == "pktgen":
            from labconsole.lab.machines.whole_lab import hold_machine

            index, owner, listeners = claim(spec)
            with owner:
                for each in listeners.values():
                    each.close()  # QEMU listens there
                is_up = partial(_say_up, spec, index, options.directory, ready, options.lock_fd)
                return hold_machine(spec, index, options.directory, is_up)
        return _hold(spec, options.directory, ready, options.lock_fd)
    except (LabError, OSError) as exc:
        print(exc, file=sys.stderr)
        _tell(ready, {"error": str(exc)})
        return 1


def _tell(ready: TextIO, message: dict[str, object]) -> None:
    """Write one line for ``up``: first ``pid``, then ``ready`` or ``error``."""
    try:
        print(json.dumps(message), file=ready, flush=True)
    except BrokenPipeError:
        return  # the caller of `up` has left; the lab is up all the same


def claim(spec: LabSpec) -> tuple[int, socket.socket, dict[str, socket.socket]]:
    """Claim an index; return it, the socket that claims it, and a listening socket per node.

    Listening on an address is the one thing that two processes cannot do at once. An index is skipped if other programs
    use some of its addresses.
    """
    for index in [0] if spec.name == DEFAULT_NAME else range(1, HIGHEST_INDEX + 1):
        opened: list[socket.socket] = []
        try:
            owner = listen(address_of(index, OWNER_NUMBER))
            opened.append(owner)
            listeners = {}
            for node in lay_out(spec, index).nodes:
                listeners[node.name] = listen(node.address)
                opened.append(listeners[node.name])
            return index, owner, listeners
        except OSError as exc:
            for each in opened:
                each.close()
            if exc.errno != errno.EADDRINUSE:
                raise LabSetupError(f"cannot listen on 127.18.{index}.0/24 port {SSH_PORT}: {exc}") from exc
    if spec.name == DEFAULT_NAME:
        raise LabSetupError(
            f"127.18.0.0/24 port {SSH_PORT} is in use: another user's lab `{DEFAULT_NAME}`, or a server on "
            f"port {SSH_PORT} of all addresses; give this lab another name, such as --name mine"
        )
    raise LabSetupError(f"port {SSH_PORT} is in use on each of 127.18.1-{HIGHEST_INDEX}.0/24")


def _hold(spec: LabSpec, directory: Path, ready: TextIO, lock: int) -> int:
    from labconsole.lab.nodes import init
    from labconsole.lab.nodes.sshd import new_keys

    index, owner, listeners = claim(spec)
    layout: Layout = lay_out(spec, index)
    keys = new_keys([node.name for node in layout.nodes])
    write_client_files(
        spec,
        layout,
        directory,
        private_key=keys.client_private,
        public_key=keys.client_public,
        host_keys=keys.host_public,
    )
    uut_case = None
    if spec.uut == "machine":
        from labconsole.lab.machines.uut import QemuMachineHost, write_boot_files

        write_boot_files(spec, directory)
        uut_case = QemuMachineHost
    listener = control.listen(directory)
    blueprint = init.Blueprint(spec, layout, listeners, keys.host_private, keys.client_public, user_name(), uut_case)
    enter_namespaces()
    report, their_report = socket.socketpair()
    lifeline, our_end = os.pipe()
    process = os.fork()
    if process == 0:
        for descriptor in (lock, our_end, ready.fileno(), report.fileno(), owner.fileno()):
            os.close(descriptor)
        init.be_process_one(blueprint, listener, lifeline, their_report)
    end_with_signal(process)
    their_report.close()
    os.close(lifeline)
    listener.close()
    for each in listeners.values():
        each.close()
    report.settimeout(init.SETUP_STEP_S * 3 + init.step_limit_s(spec))
    try:
        _await_ready(report)
        _say_up(spec, index, directory, ready, lock, process, os.uname().release)
    except BaseException:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        raise
    os.waitpid(process, 0)
    return 0


def _await_ready(report: socket.socket) -> None:
    try:
        message = control.json_line(report)
    except (TimeoutError, EOFError, ConnectionError):
        raise LabSetupError("the lab's first process ended, or hung, while it was built") from None
    if message.get("state") != "ready":
        raise LabSetupError(str(message.get("message")))


def enter_namespaces() -> None:
    """Enter a user namespace (when not root), and a PID namespace for the next child, which makes the others for
    itself: this process needs the host's /proc. Raises LabSetupError with the command to type.
    """
    root = os.geteuid() == 0
    try:
        if not root:
            kernel.enter_user_namespace()
        kernel.unshare(kernel.CLONE_NEWPID)
    except OSError as exc:
        raise namespace_refusal(exc, root=root) from exc


def end_with_signal(process: int) -> None:
    """Make SIGTERM and SIGINT end the lab's first process, and with it everything; waitpid() then returns."""

    def kill(*_: object) -> None:
        os.kill(process, signal.SIGKILL)

    signal.signal(signal.SIGTERM, kill)
    signal.signal(signal.SIGINT, kill)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def _say_up(
    spec: LabSpec, index: int, directory: Path, ready: TextIO, lock: int, process: int, kernel_release: str
) -> None:
    """Write that the lab is up, and notify ``up``. ``/proc`` here is still the host's, so the ids are those that
    ``down`` sees.
    """
    LabFile(
        spec=spec,
        index=index,
        supervisor=ProcessIdentity.of(os.getpid()),
        init=ProcessIdentity.of(process),
        owner=user_name(),
        started_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        kernel=kernel_release,
    ).write(directory)
    os.close(lock)
    _tell(ready, {"ready": True})
    ready.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
