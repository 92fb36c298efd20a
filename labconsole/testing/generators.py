"""The promises of a traffic generator, each as an assertion with a sentence."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Final

from labconsole.model.generator import NODE_FUNCTIONS, generator_of
from labconsole.model.generator_names import BUILT_IN
from labconsole.nodes import archive
from labconsole.plugins import PluginError

_IMPORT: Final = """
import sys
sys.path.insert(0, sys.argv[1])
from importlib import import_module
module = import_module(sys.argv[2])
missing = [name for name in sys.argv[3:] if not callable(getattr(module, name, None))]
sys.exit("lacks " + ", ".join(missing) if missing else 0)
"""


def check_generator(module: ModuleType, name: str, *, python: str = sys.executable) -> None:
    """Check a traffic generator: its ``GENERATOR``, and its node code, imported as a node does.

    The import sees only the standard library of ``python`` and the agent's archive; give it a Python 3.9 if there is
    one. To test what the generator sends, measure with it.
    """
    assert name not in BUILT_IN, f"a generator {name} already exists"
    try:
        made = generator_of(module, name)
    except PluginError as exc:
        raise AssertionError(str(exc)) from None
    assert made.about.summary, "GENERATOR says nothing in summary"
    with tempfile.TemporaryDirectory() as place:
        agent = Path(place) / "agent.pyz"
        agent.write_bytes(archive.build_agent({name: made}))
        words = [str(agent), f"{archive.GENERATORS}.{name}", *NODE_FUNCTIONS]
        done = subprocess.run([python, "-I", "-S", "-c", _IMPORT, *words], capture_output=True, text=True, check=False)
    last = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
    assert done.returncode == 0, f"{made.about.node} cannot be imported on a node: {last[0]}"
