"""A terminal that may go away: a closed window or a lost SSH connection must not keep a trial from ending properly.

Textual writes from a thread that dies at the first failed write. Its queue of 30 frames then fills up and blocks the
event loop, and with it the engine. This driver drops a failed write, and SIGHUP (see ConsoleApp.hang_up) does the rest.
"""

from __future__ import annotations

import errno
import os
from typing import IO, Any

from textual.drivers.linux_driver import LinuxDriver


def terminal_is_gone(descriptor: int) -> bool:
    """Whether a descriptor is a terminal whose other end was closed."""
    try:
        os.tcgetpgrp(descriptor)
    except OSError as exc:
        return exc.errno == errno.EIO
    return False


def detach() -> None:
    """Redirect standard input, output and error if they were a terminal, so that later writes to them do not fail."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        if os.isatty(descriptor) or terminal_is_gone(descriptor):
            os.dup2(nowhere, descriptor)
    os.close(nowhere)


class _Lenient:
    """A text file that drops writes once its terminal is gone."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, text: str) -> int:
        try:
            return self._file.write(text)
        except OSError:
            return len(text)

    def flush(self) -> None:
        try:
            self._file.flush()
        except OSError:
            return

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class HangUpDriver(LinuxDriver):
    """Textual's driver, made to survive its terminal."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._file: Any = _Lenient(self._file)
