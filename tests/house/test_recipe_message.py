"""The recipe for a message: a class in wire, a method in the agent's operations, and it can be asked for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import labconsole

REQUEST = '''

class Echo(Message):
    """What was said."""

    said: Name


class AskEcho(Request[Echo], op="echo"):
    """Ask to hear it again."""

    said: Word
'''

METHOD = """
    @handles(AskEcho)
    async def echo(self, request: AskEcho) -> Echo:
        return Echo(said=request.said)

    @handles(StartTaps)
"""

ASKED = """
import json, subprocess, sys
from labconsole.nodes import archive
from labconsole.wire.links import AskEcho

started = subprocess.Popen(["sh", "-c", archive.launch_command(sys.executable, None)], stdin=subprocess.PIPE,
    stdout=subprocess.PIPE)
started.stdin.write(archive.payload())
for number, request in enumerate([AskEcho(said="hello").arguments(), {"said": 7}, {"said": "a", "more": 1}]):
    started.stdin.write(json.dumps({"id": number, "op": AskEcho.op, "args": request}).encode() + b"\\n")
    started.stdin.flush()
    while True:
        line = json.loads(started.stdout.readline())
        if line.get("id") == number:
            break
    print(json.dumps(line))
print(AskEcho.reply.parse({"said": "hello"}).said)
started.stdin.close()
started.wait(10)
"""


def test_a_message_is_one_class_and_one_method(tmp_path: Path) -> None:
    shutil.copytree(
        Path(labconsole.__file__).parent, tmp_path / "labconsole", ignore=shutil.ignore_patterns("__pycache__")
    )
    topic = tmp_path / "labconsole/wire/links.py"
    text = topic.read_text()
    topic.write_text(
        text.replace("import Count, Index, Most, Name, Rule, bad", "import Count, Index, Most, Name, Rule, Word, bad")
        + REQUEST
    )
    methods = tmp_path / "labconsole/agent/operations/reading.py"
    text = methods.read_text()
    assert text.count("    @handles(StartTaps)\n") == 1
    imported = text.replace("import NodeLinks,", "import AskEcho, Echo, NodeLinks,", 1)
    methods.write_text(imported.replace("\n    @handles(StartTaps)\n", METHOD, 1))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", ASKED],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.splitlines() == [
        '{"id": 0, "ok": {"said": "hello"}}',
        '{"id": 1, "error": {"code": "bad_request", "message": "said is not a valid name"}}',
        '{"id": 2, "error": {"code": "bad_request", "message": "echo has an unknown key more"}}',
        "hello",
    ], done.stderr
