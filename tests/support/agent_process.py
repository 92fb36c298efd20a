"""An agent as a node runs it: from the archive, through pipes, in a network namespace of the test's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from labconsole.nodes import archive
from support.requirements import missing, require, require_namespaces

SENDER = """
import socket, struct, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind((sys.argv[1], 0))
for number in range(int(sys.argv[2])):
    data = struct.pack(">IIII", 0xBE9BE955, number, 1, 1) + bytes(2)
    udp = struct.pack(">HHHH", 9, 9, 8 + len(data), 0) + data
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 32, 17, 0, b"\\xc6\\x12\\1\\1", b"\\xc6\\x13\\1\\1")
    s.send(b"\\2\\0\\0\\0\\0\\1\\2\\0\\0\\0\\0\\2\\x08\\0" + ip + udp)
"""


def eventually(true: Callable[[], bool], what: str) -> None:
    """Wait for something that happens by itself. The bound is far above the promise: only a hang shall fail here."""
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline, f"still not so after 10 s: {what}"
        time.sleep(0.01)


class Net:
    """A network namespace, and a user namespace around it when the test has no root."""

    def __init__(self) -> None:
        require("unshare", "nsenter", "ip")
        require_namespaces()
        root = os.geteuid() == 0
        self._holder = subprocess.Popen(
            ["unshare", "-n" if root else "-Urn", "sh", "-c", "echo; exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._holder.stdout is not None
        if not self._holder.stdout.readline():
            self.close()
            missing("network namespaces cannot be made here")
        self.prefix = ["nsenter", "-t", str(self._holder.pid), "-n"]
        if not root:
            self.prefix += ["-U", "--preserve-credentials"]
        self.pid = self._holder.pid
        self.inode = os.stat(f"/proc/{self._holder.pid}/ns/net").st_ino

    def run(self, *argv: str) -> str:
        return subprocess.run([*self.prefix, *argv], check=True, capture_output=True, text=True).stdout

    def pair(self, name: str, peer: str) -> None:
        """A veth pair, up at both ends, sending nothing by itself."""
        self.run("ip", "link", "add", name, "type", "veth", "peer", "name", peer)
        for end in (name, peer):
            self.write_sysctl(f"ipv6/conf/{end}/disable_ipv6", "1")
            self.run("ip", "link", "set", end, "up")

    def read_sysctl(self, path: str) -> str:
        return self.run("cat", f"/proc/sys/net/{path}").strip()

    def write_sysctl(self, path: str, value: str) -> None:
        self.run("sh", "-c", f"echo {value} > /proc/sys/net/{path}")

    def send(self, interface: str, count: int) -> None:
        self.run(sys.executable, "-c", SENDER, interface, str(count))

    def links(self) -> set[str]:
        return {link["ifname"] for link in json.loads(self.run("ip", "-j", "link"))}

    def processes(self) -> set[int]:
        """Who lives in here besides the holder, zombies not counted."""
        return processes_in(self.inode) - {self._holder.pid}

    def close(self) -> None:
        assert self._holder.stdin is not None and self._holder.stdout is not None
        self._holder.stdin.close()
        self._holder.stdout.close()
        self._holder.wait()


def processes_in(inode: int) -> set[int]:
    found = set()
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if os.stat(f"/proc/{name}/ns/net").st_ino == inode:
                    found.add(int(name))
            except OSError:
                continue
    return found


class AgentProcess:
    """One agent and the console's end of its pipes."""

    def __init__(self, net: Net, python: str = sys.executable, directory: str | None = None) -> None:
        command = archive.launch_command(python, None)
        environment = dict(os.environ, **({"TMPDIR": directory} if directory else {}))
        self.popen = subprocess.Popen(
            [*net.prefix, "sh", "-c", "exec " + command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
        assert self.popen.stdin is not None and self.popen.stdout is not None and self.popen.stderr is not None
        self.stdin, self.stdout, self.stderr = self.popen.stdin, self.popen.stdout, self.popen.stderr
        self._number = 0
        self.events: list[dict[str, Any]] = []
        try:
            self.write(archive.payload())
            self.hello = self.next()
        except BaseException:
            self.close()
            raise

    def write(self, data: bytes) -> None:
        self.stdin.write(data)
        self.stdin.flush()

    def next(self) -> dict[str, Any]:
        line = self.stdout.readline()
        if not line:
            raise EOFError(f"the agent ended with {self.popen.wait()}: {self.stderr.read()!r}")
        message: dict[str, Any] = json.loads(line)
        return message

    def post(self, op: Any, **args: Any) -> int:
        """Send a request and do not wait."""
        self._number += 1
        self.write(json.dumps({"id": self._number, "op": op, "args": args}).encode() + b"\n")
        return self._number

    def reply(self, number: int) -> dict[str, Any]:
        """The reply to this request, already here or to come."""
        for message in self.events:
            if message.get("id") == number:
                self.events.remove(message)
                return message
        while True:
            message = self.next()
            if message.get("id") == number:
                return message
            self.events.append(message)

    def ok(self, op: Any, **args: Any) -> dict[str, Any]:
        message = self.reply(self.post(op, **args))
        assert "ok" in message, message
        result: dict[str, Any] = message["ok"]
        return result

    def error(self, op: Any, **args: Any) -> dict[str, Any]:
        message = self.reply(self.post(op, **args))
        assert "error" in message, message
        result: dict[str, Any] = message["error"]
        return result

    def event(self, name: str) -> dict[str, Any]:
        """The next event of this name, already here or to come."""
        while True:
            for event in self.events:
                if event.get("event") == name:
                    self.events.remove(event)
                    return event
            self.events.append(self.next())

    def capture(self, interface: str, **more: Any) -> dict[str, Any]:
        """Arguments of capture.start for all test frames on an interface."""
        return {
            "capture": "s1",
            "interface": interface,
            "filter": "udp and dst port 9",
            "snap_bytes": 96,
            "buffer_kib": 8192,
            "directory": None,
            "expected_packets": 100_000,
            **more,
        }

    def close(self) -> None:
        if not self.stdin.closed:
            self.stdin.close()
        self.popen.wait(10)
        self.stdout.close()
        self.stderr.close()
