"""The command in a process that is forked from one which has imported its modules already.

Python takes most of a second to import what a command needs, and the tests on a lab run hundreds. Everything else is as
with ``python -m labconsole``: a process of its own, with its own standard streams, environment and directory. What tests
signals, or the start of the program itself, starts it by ``support.live_lab.COMMAND``.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

OF_THE_INTERPRETER = ("PYTHON", "LC_", "LANG", "TZ")
"""Beginnings of variables that Python reads when it starts."""

MODULES = ("cli.session_runner", "api.testbed", "api.measuring", "api.plan_files", "api.stored", "lab.commands")
LENGTH_BYTES = 8


class Forker:
    """The process that forks. It ends with its socket."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "support.forked_command", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])},
            )
        self._environment = read_by_interpreter(os.environ)

    def fits(self, environment: Mapping[str, str]) -> bool:
        """Whether a fresh interpreter would begin as this one did."""
        return self._process.poll() is None and read_by_interpreter(environment) == self._environment

    def run(self, words: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
        """Run the command in the current directory and environment. Raises subprocess.TimeoutExpired."""
        request = json.dumps({"words": words, "environment": dict(os.environ), "directory": os.getcwd()}).encode()
        reading, writing = os.pipe()
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, open(reading, "rb", buffering=0) as told:
            with open(writing, "wb", buffering=0):
                head = len(request).to_bytes(LENGTH_BYTES, "big")
                socket.send_fds(self._socket, [head], [out.fileno(), err.fileno(), writing])
                self._socket.sendall(request)
            status = await_status(told.fileno(), words, timeout_s)
            texts = []
            for stream in (out, err):
                stream.seek(0)
                texts.append(stream.read().decode())
        return subprocess.CompletedProcess([*words], status, *texts)

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


_forkers: dict[int, Forker] = {}


def run_command(words: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
    """Run ``labconsole`` with these words, as ``subprocess.run`` would with captured text."""
    forker = _forkers.get(os.getpid())
    if forker is None:
        forker = _forkers[os.getpid()] = Forker()
        atexit.register(forker.close)
    if forker.fits(os.environ):
        return forker.run(words, timeout_s)
    argv = [sys.executable, "-m", "labconsole", *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s)


def read_by_interpreter(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(OF_THE_INTERPRETER)}


def await_status(told: int, words: Sequence[str], timeout_s: float) -> int:
    """Wait for the exit status, which follows the number of the process; after ``timeout_s`` end the process."""
    deadline, text = time.monotonic() + timeout_s, b""
    while text.count(b"\n") < 2:
        if not select.select([told], [], [], max(0.0, deadline - time.monotonic()))[0]:
            if text:
                os.kill(int(text), signal.SIGKILL)
            raise subprocess.TimeoutExpired([*words], timeout_s)
        more = os.read(told, 64)
        if not more:
            raise RuntimeError(f"the process that forks ended before {words}")
        text += more
    return int(text.split()[1])


# -- the process that forks ---------------------------------------------------------------------------------------------


def serve(requests: socket.socket) -> None:
    """Fork a process for each request until there are no more."""
    import importlib

    from labconsole.cli import commands

    for name in MODULES:
        importlib.import_module(f"labconsole.{name}")
    for name in commands.names():
        commands.load(name)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        head, descriptors, _, _ = socket.recv_fds(requests, LENGTH_BYTES, 3)
        if not head:
            return
        request = b""
        while len(request) < int.from_bytes(head, "big"):
            request += requests.recv(int.from_bytes(head, "big") - len(request))
        if os.fork() == 0:
            requests.close()
            os._exit(wait_for(json.loads(request), *descriptors))
        for descriptor in descriptors:
            os.close(descriptor)


def wait_for(request: dict[str, object], out: int, err: int, told: int) -> int:
    """Fork the command, and report its number and its exit status."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    number = os.fork()
    if number == 0:
        os.close(told)
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.close(out)
        os.close(err)
        run_main(request)
    os.write(told, b"%d\n" % number)
    _, ended = os.waitpid(number, 0)
    with suppress(BrokenPipeError):  # nobody waits any longer
        os.write(told, b"%d\n" % os.waitstatus_to_exitcode(ended))
    return 0


def run_main(request: dict[str, object]) -> NoReturn:
    """Do what ``python -m labconsole`` does; never returns."""
    from labconsole.cli.main import main

    words, environment, directory = request["words"], request["environment"], request["directory"]
    assert isinstance(words, list) and isinstance(environment, dict) and isinstance(directory, str)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    sys.argv = ["labconsole", *words]
    status = 1
    try:
        status = main()
    except SystemExit as exc:
        status = exc.code if isinstance(exc.code, int) else int(exc.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:  # as an interpreter ends, but for taking itself apart, which would copy every page
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as requested:
        serve(requested)
