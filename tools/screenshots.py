"""``make screenshots``: the pictures in screenshots/, taken of the real console on a real lab.

Brings up a lab of its own that loses 2 % of what leaves the unit under test, measures a small matrix with the headless
command so that there is something to look at, then drives the console by keys. Nothing of the user's is touched: state,
store and settings lie in a temporary directory.
PNG is made where rsvg-convert (librsvg2-bin) and pngquant are.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from labconsole.engine.execution.progress import ExecutionStatus  # noqa: E402
from labconsole.engine.protocol import SessionFactory  # noqa: E402
from labconsole.lab import commands as lab  # noqa: E402
from labconsole.lab.spec import LabSpec  # noqa: E402
from labconsole.tui.app import ConsoleApp  # noqa: E402
from labconsole.tui.parts.fields import Choice, Field  # noqa: E402
from support.console_svg import svg  # noqa: E402

NAME = "pictures"
WAIT_S = 60.0
MATRIX = """\
plan: curves
platforms: [raw, container]
frame_sizes: [500]
targets: [20Mbit, 50Mbit, 80Mbit]
duration_s: 1
repetitions: 3
drain_s: 1
settle_s: 0
"""
OVERNIGHT = MATRIX.replace("curves", "night").replace("[500]", "[64, 1500]").replace("repetitions: 3", "repetitions: 5")
BROKEN = MATRIX.replace("curves", "broken").replace("frame_sizes", "frame_size")


class Pictures:
    """One console at one size."""

    def __init__(self, factory: SessionFactory, size: tuple[int, int], directory: Path) -> None:
        self.app, self._size, self._directory = ConsoleApp(factory), size, directory

    async def __aenter__(self) -> Pictures:
        self._run = self.app.run_test(size=self._size, notifications=True)
        self._pilot = await self._run.__aenter__()
        nodes = self._nodes()
        await self.shown("Bench", f"{nodes} of {nodes} nodes" if self._size[0] > 100 else f"{nodes}/{nodes}")
        await self.shown("load", give_up_s=15, loud=False)  # the unit under test was looked at
        return self

    async def __aexit__(self, *details: object) -> None:
        if self.app.session is not None:
            await self.app.session.abort()
            await self.app.session.close()
        await self._run.__aexit__(*details)  # type: ignore[arg-type]

    def _nodes(self) -> int:
        return len(self.app.session.inventory.nodes) if self.app.session is not None else 7

    def text(self) -> str:
        """What stands on the screen."""
        return "\n".join("".join(s.text for s in strip) for strip in self.app.screen._compositor.render_strips())

    async def until(self, true: Callable[[], bool], what: str, give_up_s: float = WAIT_S, *, loud: bool = True) -> None:
        """Wait for a condition of the console."""
        for _ in range(round(give_up_s / 0.05)):
            if true():
                return
            await self._pilot.pause(0.05)
        if loud:
            raise TimeoutError(f"{what} did not happen within {give_up_s:g} s\n{self.text()}")

    async def shown(self, *words: str, give_up_s: float = WAIT_S, loud: bool = True) -> None:
        """Wait for words on the screen."""
        await self.until(lambda: all(w in self.text() for w in words), " and ".join(words), give_up_s, loud=loud)

    async def keys(self, *keys: str) -> None:
        """Type."""
        for key in keys:
            await self._pilot.press(key)
        await self._pilot.pause(0.3)

    def set_up(self, **values: str) -> None:
        """Fill fields of the set-up panel."""
        for name, value in values.items():
            widget = self.app.screen.query_one(f"#{name}")
            assert isinstance(widget, Field | Choice)
            widget.value = value

    async def run(
        self, duration_s: float, *, look: Callable[[], object] | None = None, words: str = "last run"
    ) -> None:
        """Run what is set up; ``look`` when most of it was sent."""
        await self.keys("r")
        await self.shown("sending")
        await self._pilot.pause(duration_s * 0.75)
        if look is not None:
            look()
        await self.until(lambda: not self.app.state.requested, "the end of the run")
        await self.shown(words)
        await self._pilot.pause(0.3)

    def take(self, name: str) -> None:
        """One picture, as SVG and PNG."""
        path = self._directory / f"{name}-{self._size[0]}x{self._size[1]}.svg"
        path.write_text(svg(self.app), encoding="utf-8")
        if shutil.which("rsvg-convert") and shutil.which("pngquant"):
            zoom = "1.5" if self._size[0] < 200 else "1.2"
            png = path.with_suffix(".png")
            drawn = subprocess.run(["rsvg-convert", "--zoom", zoom, str(path)], check=True, capture_output=True).stdout
            small = subprocess.run(
                ["pngquant", "--speed", "1", "64", "-"], input=drawn, check=True, capture_output=True
            )
            png.write_bytes(small.stdout)
        print(path.relative_to(self._directory.parent), flush=True)


async def every_screen(factory: SessionFactory, directory: Path) -> None:
    """All that there is, at 120x40."""
    async with Pictures(factory, (120, 40), directory) as console:
        take, keys = console.take, console.keys
        console.set_up(platform="raw", frame_size="500", target="100Mbit", duration="6", repetitions="1")
        await keys("tab", "shift+tab")
        take("bench-ready")
        console.set_up(target="20Gbit")
        await keys()
        take("bench-refused")
        console.set_up(target="100Mbit")
        await console.run(6, look=lambda: take("bench-sending"))
        console.set_up(duration="1", repetitions="5")
        await console.run(1, words="as saved")
        take("bench-repetitions")
        await bench_views(console)
        await keys("d")
        take("bench-light")
        await keys("d", "2")
        await console.shown("loss", "Verdict")
        await keys()
        take("runs-verdict")
        await keys("t")
        take("runs-packets")
        await keys("t")
        await console.shown("offered")
        await keys()
        take("runs-over-time")
        await keys("T", "T", "m", "end", "m", "c")
        await console.shown("≠")
        take("runs-compare")
        await keys("3")
        await console.shown("Points")
        await keys()
        take("curves")
        await plans(console)
        await check(console)
        await keys("6")
        await console.shown("load", "kernel")
        await keys()
        take("nodes")
        await keys("7")
        take("log")
        await keys("1", "question_mark")
        take("help")


async def bench_views(console: Pictures) -> None:
    """The streams' way through the testbed, all of them on one scale, while a trial runs; what happened meanwhile."""
    console.set_up(platform="container", frame_size="500", target="50Mbit", duration="6", repetitions="1")
    await console.keys("t")
    await console.run(6, look=lambda: console.take("bench-topology"))
    console.take("bench-topology-saved")
    await console.keys("t", "c")
    if console.app.size.width < 100:
        await console.keys("v", "v")
    await console.run(6, look=lambda: console.take("bench-streams"))
    await console.keys("0")
    await console.shown("console was opened")
    console.take("since")
    await console.keys("escape", "c")


async def watching(hosts: Path, directory: Path, size: tuple[int, int]) -> None:
    """A read-only console while somebody else measures."""
    words = ["run", "--hosts", str(hosts), "--platform", "raw", "--frame-size", "500", "--target", "100Mbit"]
    command = [sys.executable, "-m", "labconsole", *words, "--duration", "6", "--repetitions", "3"]
    async with Pictures(real_factory(hosts, read_only=True), size, directory) as console:
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        other = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            await console.shown("measures")
            await console.shown("sending", "repetition 2" if size[0] > 100 else "2/3")
            await console.keys()
            console.take("watching")
        finally:
            await asyncio.to_thread(other.wait)


async def plans(console: Pictures) -> None:
    """A plan half way through."""
    await console.keys("4")
    await console.shown("night", "broken")
    await console.keys("home", "down", "r")

    def half() -> bool:
        execution = console.app.state.execution
        return execution is not None and execution.outcome.taken >= 13 and console.app.state.trial is not None

    await console.until(half, "half a plan", 180)
    await console.shown("sending")
    console.take("plans-running")
    await console.keys("a", "y")
    await console.until(
        lambda: (
            console.app.state.execution is not None
            and console.app.state.execution.status not in (ExecutionStatus.RUNNING, ExecutionStatus.PAUSING)
        ),
        "the plan's end",
    )
    await console.until(lambda: not console.app.state.requested, "the plan's end")
    console.app.screen.set_focus(console.app.screen.query_one("#plans"))
    await console.keys("end")
    console.take("plans-broken")


async def check(console: Pictures) -> None:
    """A testbed with one interface that cannot carry the largest frame."""
    lab.execute(NAME, "uut", ["ip", "link", "set", "eth5", "mtu", "1400"])
    await console.keys("5", "r")
    await console.shown("checked")
    await console.keys()
    console.take("check")
    lab.execute(NAME, "uut", ["ip", "link", "set", "eth5", "mtu", "1500"])


async def bench_and_runs(factory: SessionFactory, directory: Path, size: tuple[int, int]) -> None:
    """The two main screens at another size."""
    async with Pictures(factory, size, directory) as console:
        console.set_up(platform="raw", frame_size="500", target="100Mbit", duration="5", repetitions="1")
        await console.keys()
        console.take("bench-ready")
        await console.run(5, look=lambda: console.take("bench-sending"))
        await bench_views(console)
        await console.keys("2")
        await console.shown("valid")
        await console.keys()
        console.take("runs")


async def without_colour(factory: SessionFactory, directory: Path) -> None:
    """NO_COLOR: all that colour says is said by glyphs and words too."""
    async with Pictures(factory, (120, 40), directory) as console:
        console.set_up(platform="container", frame_size="500", target="100Mbit", duration="4", repetitions="1")
        await console.run(4, look=lambda: console.take("bench-no-color"))


def real_factory(hosts: Path, *, read_only: bool = False) -> SessionFactory:
    """Sessions on a real inventory."""
    from labconsole.api.testbed import load_testbed, open_session

    inventory, runs = load_testbed(hosts, None)
    return lambda: open_session(inventory, runs, read_only=read_only)


def runner(hosts: Path, directory: Path, only: str) -> None:
    """Every picture."""
    factory = real_factory(hosts)
    if only in ("", "120"):
        asyncio.run(every_screen(factory, directory))
    for size in ((80, 24), (200, 60)):
        if only in ("", str(size[0])):
            asyncio.run(bench_and_runs(factory, directory, size))
    for size in ((80, 24), (120, 40), (200, 60)):
        if only in ("", "watching"):
            asyncio.run(watching(hosts, directory, size))
    if only in ("", "nocolor"):
        os.environ["NO_COLOR"] = "1"
        asyncio.run(without_colour(factory, directory))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "screenshots")
    parser.add_argument("--only", default="", help="120, 80, 200, watching or nocolor")
    parser.add_argument("--keep", action="store_true", help="leave what is in the directory")
    args = parser.parse_args()
    directory = args.out.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    if not args.only and not args.keep:
        for old in [*directory.glob("*.svg"), *directory.glob("*.png")]:
            old.unlink()
    with tempfile.TemporaryDirectory() as home:
        for word in ("STATE", "DATA", "CONFIG", "CACHE"):
            os.environ[f"XDG_{word}_HOME"] = f"{home}/{word.lower()}"
        os.environ.pop("NO_COLOR", None)
        os.chdir(home)
        Path("plans").mkdir()
        for name, text in (("curves", MATRIX), ("night", OVERNIGHT), ("broken", BROKEN)):
            Path("plans", f"{name}.yaml").write_text(text)
        status = lab.up(LabSpec(name=NAME, sources=3, loss={"uut/out": 0.02}))
        try:
            hosts = Path(status.hosts_file)
            command = [sys.executable, "-m", "labconsole", "replay", "plans/curves.yaml", "--hosts", str(hosts)]
            subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
            runner(hosts, directory, args.only)
        finally:
            lab.down(NAME)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
