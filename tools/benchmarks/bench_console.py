"""The console on a hundred nodes of eight interfaces at 10 Hz: CPU, answer to a key, bytes painted, memory, first paint.

The console is the real program in a terminal of 200x60, its nodes are real agents over SSH (scale_lab.py). Beside it, on
the same session, stands a program that shows the same table with Textual's stock DataTable and nothing else, in its
fastest use: only rows in sight, only cells that changed, plain text, fixed widths. One process is measured at a time; its
CPU time is the kernel's. A key's answer is the time from writing it to the terminal until the cursor's mark is drawn on
another row.

    python tools/benchmarks/bench_console.py [--nodes 100] [--seconds 15] [--keys 80] [--memory-minutes 0]
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import pty
import random
import re
import select
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

WIDTH, HEIGHT = 200, 60
CPU_RATIO, TIMES_LESS_CPU, KEY_S, FIRST_PAINT_STARTS = 0.25, 4.0, 0.050, 40.0
"""Either of the first two. The last: in starts of the bare interpreter, timed in turn."""

SETTLE_S = 30.0
"""After connecting: as long as it takes to fill every interface's history (240 samples at 10 Hz), and a little."""

BARE_STARTS = 5
"""For each start of the console."""

MARK = "▌".encode()
MOVE = re.compile(rb"\x1b\[(\d+);(\d+)H")


class Terminal:
    """A program in a terminal of our own: its output is read, counted and searched for the cursor's mark."""

    def __init__(self, argv: list[str], **environment: str) -> None:
        self.started_s = time.monotonic()
        self.pid, self._master = pty.fork()
        if self.pid == 0:
            os.environ.update(environment)
            os.execvp(argv[0], argv)
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
        self.bytes = self.writes = 0
        self.marked: bytes = b""
        self._tail = b""

    def read(self, until_s: float) -> bytes:
        """What comes within the time, at most one chunk."""
        if not select.select([self._master], [], [], max(0.0, until_s - time.monotonic()))[0]:
            return b""
        try:
            chunk = os.read(self._master, 1 << 20)
        except OSError:
            last = re.sub(rb"\x1b\[[^a-zA-Z]*[a-zA-Z]", b"", self._tail)[-600:].decode(errors="replace")
            raise EOFError(f"the program ended: {last}") from None
        self.bytes += len(chunk)
        self.writes += 1
        data = self._tail + chunk
        at = data.rfind(MARK)
        if at >= 0:
            moves = list(MOVE.finditer(data, 0, at))
            # Our table's mark stands in the cursor's row; the stock one's is followed by the row's number.
            self.marked = (moves[-1].group(1) if moves else b"?") + data[at : at + 12]
        self._tail = data[-4096:]
        return chunk

    def watch(self, seconds: float) -> None:
        """Let time pass, reading."""
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            self.read(until_s)

    def wait_for(self, text: bytes, seconds: float) -> float:
        """Seconds since the program was started until a text was written (colours between its letters do not count)."""
        until_s, seen = self.started_s + seconds, b""
        while time.monotonic() < until_s:
            seen = (seen + self.read(until_s))[-200_000:]
            if text in re.sub(rb"\x1b\[[\d;]*[mH]", b"", seen):
                return time.monotonic() - self.started_s
        raise TimeoutError(f"{text!r} was not shown within {seconds:g} s")

    def press(self, key: bytes) -> None:
        os.write(self._master, key)

    def answer_s(self, key: bytes, limit_s: float = 2.0) -> float:
        """Press a key; the time until the mark stands elsewhere."""
        before, pressed_s = self.marked, time.monotonic()
        self.press(key)
        while self.marked == before:
            if time.monotonic() - pressed_s > limit_s:
                return limit_s
            self.read(pressed_s + limit_s)
        return time.monotonic() - pressed_s

    def cpu_s(self) -> float:
        """CPU time so far, threads included: the process's clock, as clock_getcpuclockid(3) names it."""
        return time.clock_gettime_ns((~self.pid << 3) | 2) / 1e9

    def rss_bytes(self) -> int:
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

    def close(self) -> None:
        """End it as a user does, by force if need be."""
        with contextlib.suppress(OSError, EOFError):
            self.press(b"q")
            until_s = time.monotonic() + 20
            while time.monotonic() < until_s:
                self.read(until_s)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._master)


def environment(directory: Path, **more: str) -> dict[str, str]:
    """A terminal of true colours, state and settings of its own, neither SSH nor tmux around it."""
    own = {name: str(directory / name.lower()) for name in ("XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")}
    plain = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "PYTHONPATH": str(HERE.parents[1])}
    for name in ("SSH_CONNECTION", "TMUX", "NO_COLOR", "PYTHONDONTWRITEBYTECODE"):  # installed, it is compiled once
        os.environ.pop(name, None)
    return {**own, **plain, **more}


def slope_bytes_per_s(samples: list[tuple[float, int]]) -> float:
    """Least squares."""
    mean_t = statistics.fmean(t for t, _ in samples)
    mean_v = statistics.fmean(v for _, v in samples)
    spread = sum((t - mean_t) ** 2 for t, _ in samples)
    return sum((t - mean_t) * (v - mean_v) for t, v in samples) / spread if spread else 0.0


def measure(terminal: Terminal, *, seconds: float, keys: int, memory_s: float) -> dict[str, Any]:
    """CPU and bytes at rest, then answers to keys at irregular moments, then memory over time."""
    cpu_s, at_s, painted, writes = terminal.cpu_s(), time.monotonic(), terminal.bytes, terminal.writes
    terminal.watch(seconds)
    spent_s = time.monotonic() - at_s
    result: dict[str, Any] = {
        "cpu_ratio": (terminal.cpu_s() - cpu_s) / spent_s,
        "painted_bytes_per_s": (terminal.bytes - painted) / spent_s,
        "writes_per_s": (terminal.writes - writes) / spent_s,
    }
    answers = []
    for number in range(keys):
        terminal.watch(random.uniform(0.12, 0.38))
        answers.append(terminal.answer_s(b"\x1b[A" if number % 2 else b"\x1b[B"))
    answers.sort()
    if answers:
        result |= {
            "key_p50_ms": statistics.median(answers) * 1e3,
            "key_p95_ms": answers[int(0.95 * len(answers))] * 1e3,
        }
    if memory_s:
        sizes, until_s = [], time.monotonic() + memory_s
        while time.monotonic() < until_s:
            terminal.watch(1.0)
            sizes.append((time.monotonic(), terminal.rss_bytes()))
        result["rss_slope_kib_per_min"] = slope_bytes_per_s(sizes) * 60 / 1024
        quarter = len(sizes) // 4
        result["rss_last_quarter_slope_kib_per_min"] = slope_bytes_per_s(sizes[-quarter:]) * 60 / 1024
        result["memory_minutes"] = memory_s / 60
    result["rss_mib"] = terminal.rss_bytes() / 2**20
    return {key: round(value, 4) if isinstance(value, float) else value for key, value in result.items()}


@contextlib.contextmanager
def scale_lab(directory: Path, nodes: int, interfaces: int) -> Iterator[Path]:
    lab = subprocess.Popen(
        [
            sys.executable,
            str(HERE / "scale_lab.py"),
            "--directory",
            str(directory),
            "--nodes",
            str(nodes),
            "--interfaces",
            str(interfaces),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert lab.stdin is not None and lab.stdout is not None
    try:
        line = lab.stdout.readline()
        if not line:
            raise RuntimeError("the lab did not come up")
        yield Path(json.loads(line)["hosts"])
    finally:
        lab.stdin.close()
        lab.wait(30)
        lab.stdout.close()


UNREACHABLE = """\
testbed: nowhere
nodes:
  src1: {address: 127.0.0.1, port: 1, roles: [source]}
  uut: {address: 127.0.0.1, port: 1, roles: [uut]}
  snk1: {address: 127.0.0.1, port: 1, roles: [sink]}
streams:
  - {name: s1, source: src1/eth1, uut_in: eth1, uut_out: eth5, sink: snk1/eth1, source_ip: 198.18.1.1, sink_ip: 198.19.1.1}
platforms:
  raw: {driver: raw, forwarding: route}
"""


def first_paint(directory: Path, starts: int = 5) -> dict[str, Any]:
    """From the shell to the whole bench on screen, and bare interpreters in turn; the nodes refuse, which is quick."""
    hosts = directory / "nowhere.yaml"
    hosts.write_text(UNREACHABLE)
    first, whole, cpu, bare = [], [], [], []
    for _ in range(starts):
        terminal = Terminal(console(hosts, directory), **environment(directory))
        try:
            first.append(terminal.wait_for(b"labconsole", 20.0))
            whole.append(terminal.wait_for(b"Interfaces", 20.0))
            cpu.append(terminal.cpu_s())
        finally:
            terminal.close()
        for _ in range(BARE_STARTS):
            begun_s = time.monotonic()
            subprocess.run([sys.executable, "-c", "pass"], check=True)
            bare.append(time.monotonic() - begun_s)
    return {
        "first_words_s": round(statistics.median(first), 3),
        "first_paint_s": round(statistics.median(whole), 3),
        "first_paint_min_s": round(min(whole), 3),
        "cpu_until_then_s": round(statistics.median(cpu), 3),
        "bare_start_ms": round(statistics.median(bare) * 1e3, 1),
        "first_paint_in_bare_starts": round(statistics.median(whole) / statistics.median(bare), 1),
    }


def console(hosts: Path, directory: Path) -> list[str]:
    store = f"sqlite:///{directory / 'runs.sqlite'}"
    return [sys.executable, "-m", "labconsole", "console", "--hosts", str(hosts), "--store", store]


def stock_table(hosts: Path) -> list[str]:
    return [sys.executable, __file__, "--stock", str(hosts)]


def stock(hosts: Path) -> int:
    """The same table by DataTable, as a program of its own."""
    from textual.app import App, ComposeResult
    from textual.widgets import DataTable, Static

    from labconsole.api.testbed import load_testbed, open_session
    from labconsole.engine.live.events import NodeState
    from labconsole.tui.screens.bench.interfaces import InterfacesTable

    inventory, store = load_testbed(hosts, str(hosts.with_name("stock.sqlite")))
    session = open_session(inventory, store)

    class Stock(App[None]):
        CSS = "Static { height: 1; } DataTable { height: 1fr; }"

        def compose(self) -> ComposeResult:
            yield Static("", id="where")
            yield DataTable(cursor_type="row")

        async def on_mount(self) -> None:
            self.table = self.query_one(DataTable)
            self.run_worker(session.connect())
            self.ours = InterfacesTable(inventory, session.telemetry)
            self.columns = [c for c in self.ours.COLUMNS if c.name not in ("kind", "mtu")]
            self.widths = {
                c.name: (60 if c.name == "rx_spark" else 8 if c.name == "tx_spark" else c.width) for c in self.columns
            }
            for column in self.columns:
                self.table.add_column(column.title, key=column.name, width=self.widths[column.name])
            self.words = "connecting"
            self.shown: dict[Any, list[str]] = {}
            self.order: list[Any] = []
            self.set_interval(0.1, self.paint)
            self.table.focus()

        def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
            self.query_one("#where", Static).update(f"{self.words}  ▌{event.cursor_row:06}")

        def paint(self) -> None:
            nodes = session.telemetry.nodes.values()
            if not all(node.state is NodeState.CONNECTED for node in nodes):
                return
            if not self.order:
                self.order = list(self.ours.keys())
                for key in self.order:
                    self.table.add_row(*("" for _ in self.columns), key=str(key))
                self.words = f"{len(inventory.nodes)} of {len(inventory.nodes)} nodes"
                self.query_one("#where", Static).update(f"{self.words}  ▌000000")
            self.ours.prepare()
            top, rows = self.table.scroll_offset.y, self.table.size.height
            with self.batch_update():
                for key in self.order[top : top + rows]:
                    cells = [getattr(self.ours, "cell_" + c.name)(key, self.widths[c.name])[0] for c in self.columns]
                    before = self.shown.get(key)
                    for column, (index, cell) in zip(self.columns, enumerate(cells), strict=True):
                        if before is None or before[index] != cell:
                            self.table.update_cell(str(key), column.name, cell)
                    self.shown[key] = cells

        async def key_q(self) -> None:
            await session.close()
            self.exit()

    Stock().run()
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--interfaces", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=15.0, help="at rest, for CPU and bytes")
    parser.add_argument("--keys", type=int, default=80)
    parser.add_argument("--memory-minutes", type=float, default=0.0, help="watch memory for so long")
    parser.add_argument("--only", choices=("console", "remote", "stock", "first-paint"))
    parser.add_argument("--stock", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.stock:
        return stock(args.stock)
    what = f"{args.nodes} nodes x {args.interfaces} interfaces at 10 Hz, {WIDTH}x{HEIGHT}"
    results: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        if args.only in (None, "first-paint"):
            results["first paint"] = first_paint(directory)
            print(json.dumps({"benchmark": "console", "what": "first paint of the bench", **results["first paint"]}))
        for kind, more, prefix in (
            ("console", {}, b"i"),
            ("remote", {"SSH_CONNECTION": "192.0.2.1 1 192.0.2.2 22"}, b"i"),
            ("stock", {}, b""),
        ):
            if args.only not in (None, kind):
                continue
            with scale_lab(directory / kind, args.nodes, args.interfaces) as hosts:
                command = stock_table(hosts) if kind == "stock" else console(hosts, directory)
                terminal = Terminal(command, **environment(directory, **more))
                try:
                    terminal.wait_for(f"{args.nodes} of {args.nodes} nodes".encode(), 180.0)
                    terminal.press(prefix)
                    terminal.watch(SETTLE_S)
                    results[kind] = measure(
                        terminal,
                        seconds=args.seconds,
                        keys=args.keys,
                        memory_s=args.memory_minutes * 60 if kind == "console" else 0.0,
                    )
                finally:
                    terminal.close()
            print(json.dumps({"benchmark": what, "what": kind, **results[kind]}), flush=True)
    if "console" in results:
        last: dict[str, Any] = {"benchmark": what}
        if "stock" in results:
            last["times_less_cpu"] = round(results["stock"]["cpu_ratio"] / results["console"]["cpu_ratio"], 2)
        met = results["console"]["cpu_ratio"] <= CPU_RATIO or last.get("times_less_cpu", 0) >= TIMES_LESS_CPU
        met = met and results["console"].get("key_p95_ms", 0) <= KEY_S * 1e3
        met = met and results.get("first paint", {}).get("first_paint_in_bare_starts", 0) <= FIRST_PAINT_STARTS
        print(json.dumps({**last, "target_met": met}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
