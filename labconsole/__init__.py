"""labconsole: measure how well a machine forwards packets when it is virtualized.

From Python: load_testbed, run, replay (run_async and replay_async to await), open_store, make_report, compare.
docs/python.md. They are imported at first use, because SSH, pandas and a database load slowly.
"""

from __future__ import annotations

from typing import Any

from labconsole.wire.version import __version__

__all__ = [
    "__version__",
    "compare",
    "load_testbed",
    "make_report",
    "open_store",
    "replay",
    "replay_async",
    "run",
    "run_async",
]

_MODULES = {"compare": "stored", "make_report": "stored", "open_store": "stored"}


def __getattr__(name: str) -> Any:
    if name.startswith("__") or name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.api.{_MODULES.get(name, 'measuring')}"), name)
