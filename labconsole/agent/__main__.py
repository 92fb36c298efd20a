"""The agent's process. Started from the archive that nodes/archive.py builds, or as ``python -m labconsole.agent``.

Imports before the first line are the whole delay until a console knows that its agent runs.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any, Dict

from labconsole.agent.keeper import ENDING, become_keeper
from labconsole.wire import codec
from labconsole.wire.version import __version__


def main() -> None:
    journal = become_keeper()
    # From here on in the child. A pipe without a reader must be an error to handle, not a silent death that leaves the
    # undoing to the keeper; a signal waits until there is a loop that ends the session in order.
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    os.write(1, codec.encode(hello()))
    # Imported only now, so that the keeper stays small and the console soon gets the first line.
    import asyncio

    from labconsole.agent.server import serve

    asyncio.run(serve(journal))


def hello() -> Dict[str, Any]:
    uname = os.uname()
    return {
        "event": "hello",
        "protocol": codec.PROTOCOL,
        "version": __version__,
        "python": sys.version.split()[0],
        "pid": os.getpid(),
        "euid": os.geteuid(),
        "hostname": uname.nodename,
        "kernel": uname.release,
        "monotonic_ns": time.monotonic_ns(),
        "wall_ns": time.time_ns(),
    }


if __name__ == "__main__":
    main()
