"""The agent's process. Started from the archive that nodes/archive.py builds, or as ``python -m labconsole.agent``."""

from __future__ import annotations

import signal

from labconsole.agent.keeper import become_keeper


def main() -> None:
    journal = become_keeper()
    # From here on in the child. Imported only now, so that the keeper stays small and shares no state with it.
    import asyncio

    from labconsole.agent.server import serve

    # A pipe nobody reads shall be an error to handle, not a silent death that leaves the undoing to the keeper.
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    asyncio.run(serve(journal))


if __name__ == "__main__":
    main()
