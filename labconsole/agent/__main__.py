"""The agent's process. Started from the archive that nodes/package.py builds, or as ``python -m labconsole.agent``."""

from __future__ import annotations

import asyncio
import os
import signal

from labconsole.agent.keeper import Journal
from labconsole.agent.server import serve


def main() -> None:
    # A pipe nobody reads shall be an error to handle, not a silent death that leaves the undoing to the keeper.
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    journal = Journal()
    # Before the event loop exists, so that the keeper shares nothing with it.
    alive = journal.start_keeper()
    asyncio.run(serve(journal, alive))
    # Worker threads that hang (a dead disk) must not keep the process.
    os._exit(0)


if __name__ == "__main__":
    main()
