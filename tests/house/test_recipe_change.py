"""The recipe for a change to a node's network: one class in network, and a node makes it, undoes it and tells it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import labconsole

CHANGE = '''
from __future__ import annotations

import os
from typing import List

from labconsole.network.change import Entry, NetworkChange, ChangedNode, line
from labconsole.wire.rules import Word


class Mark(NetworkChange, do="mark"):
    """Leave a file."""

    path: Word

    def apply(self, node: ChangedNode) -> None:
        node.promise(self.kind, path=self.path)
        open(self.path, "x").close()

    @staticmethod
    def undo(entry: Entry) -> None:
        if os.path.exists(entry["path"]):
            os.unlink(entry["path"])

    def commands(self) -> List[str]:
        return [line("touch", self.path)]
'''

ASKED = """
import json, os, signal, subprocess, sys
from labconsole.network.marks import Mark
from labconsole.nodes import archive
from labconsole.wire.changes import ApplyChanges, UndoChanges
from message_tables import tables

agent = subprocess.Popen(["sh", "-c", archive.launch_command(sys.executable, None)], stdin=subprocess.PIPE,
    stdout=subprocess.PIPE)
agent.stdin.write(archive.payload())
agent.stdin.flush()
hello = json.loads(agent.stdout.readline())
mark = Mark(path=os.path.abspath("a mark"))
wrong = {"token": "t", "changes": [{"do": "mark", "path": 7}]}
apply, undo = ApplyChanges(token="t", changes=[mark]), UndoChanges(token="t")
for number, (op, args) in enumerate([
    (apply.op, apply.arguments()), (undo.op, undo.arguments()), (apply.op, wrong), (apply.op, apply.arguments()),
]):
    agent.stdin.write(json.dumps({"id": number, "op": op, "args": args}).encode() + b"\\n")
    agent.stdin.flush()
    while True:
        line = json.loads(agent.stdout.readline())
        if line.get("id") == number:
            break
    print(json.dumps(line), os.path.exists(mark.path))
os.kill(hello["pid"], signal.SIGKILL)
agent.wait(10)
print(os.path.exists(mark.path))
print(*Mark(path="a mark").commands())
print(*[row for row in tables()["changes"].splitlines() if "mark" in row])
"""


def test_a_change_is_one_class(tmp_path: Path) -> None:
    shutil.copytree(
        Path(labconsole.__file__).parent, tmp_path / "labconsole", ignore=shutil.ignore_patterns("__pycache__")
    )
    (tmp_path / "labconsole/network/marks.py").write_text(CHANGE)
    search_path = f"{tmp_path}{os.pathsep}{Path(__file__).parents[2] / 'tools'}"
    done = subprocess.run(
        [sys.executable, "-c", ASKED],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": search_path, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    refused = '{"code": "bad_request", "message": "change mark: path is not a valid name"}'
    assert done.stdout.splitlines() == [
        '{"id": 0, "ok": {}} True',
        '{"id": 1, "ok": {"failed": []}} False',
        f'{{"id": 2, "error": {refused}}} False',
        '{"id": 3, "ok": {}} True',
        "False",
        "touch 'a mark'",
        "| `mark` | `namespace`: optional text, `path`: text | Leave a file. |",
    ], done.stderr
