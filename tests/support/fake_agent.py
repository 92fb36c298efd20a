"""An agent that speaks the protocol and does nothing but what a test asks of it. Runs on Python 3.9, too.

Sent over stdin by the launcher in ssh_servers.py; MODE and PID_FILE are set in front of it.
"""

import json
import os
import sys
import threading
import time
from typing import Any

MODE = globals().get("MODE", "")
PID_FILE = globals().get("PID_FILE", "")


def put(message: dict[str, Any]) -> None:
    sys.stdout.buffer.write(json.dumps(message).encode() + b"\n")
    sys.stdout.buffer.flush()


def raw(text: str) -> None:
    sys.stdout.buffer.write(text.encode("latin-1"))
    sys.stdout.buffer.flush()


def clocks() -> dict[str, int]:
    return {"monotonic_ns": time.monotonic_ns(), "wall_ns": time.time_ns()}


def answer(number: int, op: str, args: dict[str, Any]) -> None:
    if op == "ping":
        put({"id": number, "ok": clocks()})
    elif op == "watchdog":
        put({"id": number, "ok": {}})
    elif op == "echo":
        put({"id": number, "ok": args})
    elif op == "late":
        threading.Timer(args["after_s"], answer, (number, "echo", args)).start()
    elif op == "big":
        put({"id": number, "ok": {"text": "x" * args["bytes"]}})
    elif op == "raw":
        raw(args["text"])
    elif op == "refuse":
        put({"id": number, "error": args})
    elif op == "event":
        put(args)
        put({"id": number, "ok": {}})
    elif op == "die":
        sys.stderr.write("dying as asked\n")
        sys.stderr.flush()
        os._exit(args["status"])
    elif op == "close":
        put({"id": number, "ok": {"failed": []}})
        os._exit(0)


def main() -> None:
    if PID_FILE:
        with open(PID_FILE, "w") as file:
            file.write(str(os.getpid()))
    if MODE == "mute":
        sys.stdin.buffer.read()
        return
    if MODE == "old protocol":
        put(dict(event="hello", protocol=0, **clocks()))
    if MODE == "chatter":
        while True:
            raw("no\n" * 1000)
    if MODE == "endless line":
        while True:
            raw("x" * 65536)
    if MODE == "crash":
        raise RuntimeError("\x1b[31mbroken\x07 on purpose")
    hello = dict(event="hello", protocol=1, version="0", python="3", pid=os.getpid(), euid=os.geteuid(), **clocks())
    sys.stdout.buffer.write(json.dumps(hello, separators=(",", ":")).encode() + b"\n")
    sys.stdout.buffer.flush()
    if MODE == "no asyncio":
        raise ModuleNotFoundError("No module named 'asyncio'")
    for line in sys.stdin.buffer:
        request = json.loads(line)
        answer(request["id"], request["op"], request["args"])
    os._exit(0)


main()
