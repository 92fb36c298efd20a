"""What the program says to machines is whole, also when the reader is slow and a signal comes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

from labconsole.cli.output import print_json_line

SAYING = """
import asyncio, signal
from labconsole.cli.output import print_json_line

async def say():
    asked = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
    number = 0
    while not asked.is_set():
        print_json_line({"number": number, "pad": "x" * %d})
        number += 1
        await asyncio.sleep(0)

asyncio.run(say())
"""


@pytest.mark.parametrize("size", range(4200, 6200, 250))
def test_a_signal_while_a_pipe_is_full_loses_nothing(size: int):
    process = subprocess.Popen([sys.executable, "-c", SAYING % size], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    first = process.stdout.readline()
    time.sleep(0.15)  # by now nothing more goes into the pipe
    process.send_signal(signal.SIGTERM)
    rest = process.stdout.read()
    assert process.wait(10) == 0
    process.stdout.close()
    numbers = [json.loads(line)["number"] for line in (first + rest).splitlines()]
    assert numbers == list(range(len(numbers)))


def test_without_a_descriptor_it_is_said_as_well(capsys: pytest.CaptureFixture[str]):
    print_json_line({"ü": 1})
    assert json.loads(capsys.readouterr().out) == {"ü": 1}
