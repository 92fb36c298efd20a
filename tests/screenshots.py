"""Makes the pictures in screenshots/ from a console on any session: the real lab, or the tests' scripted one.

``python tests/screenshots.py --hosts lab.yaml`` drives a real testbed; without ``--hosts`` it shows the scripted
session, to try the script itself. Writes SVG and, where ``rsvg-convert`` (librsvg2-bin) is installed, PNG.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "unit"))

from labconsole.engine.events import NodeState
from labconsole.tui import theme
from labconsole.tui.app import ConsoleApp
from labconsole.tui.screens.bench import BenchScreen
from labconsole.tui.session import SessionFactory, SessionLike
from labconsole.tui.widgets.fields import Choice, Field

SIZES = ((200, 60), (120, 40), (80, 24))
FONT = "DejaVu Sans Mono"
FONT_SIZE = "font-size: 20.27px"
"""Makes this font as wide as the one that Textual lays its picture out for."""

WAIT_S = 60.0
DOTS = re.compile(r'<text ([^>]*) x="([\d.]+)" ([^>]*) textLength="([\d.]+)" ([^>]*)>([\u2801-\u28ff]+)</text>')


def one_by_one(match: re.Match[str]) -> str:
    """A run of the chart's dots as one element per cell: monospaced fonts lack them, others are wider than a cell."""
    before, x, middle, length, after, dots = match.groups()
    cell = float(length) / len(dots)
    return "".join(
        f'<text {before} x="{float(x) + i * cell:.1f}" {middle} textLength="{cell:.1f}" {after}>{dot}</text>'
        for i, dot in enumerate(dots)
    )


async def until(true: Callable[[], bool], what: str) -> None:
    """Wait for a condition of the console; give up loudly."""
    for _ in range(round(WAIT_S / 0.05)):
        if true():
            return
        await asyncio.sleep(0.05)
    raise TimeoutError(f"{what} did not happen within {WAIT_S:g} s")


def save(app: ConsoleApp, directory: Path, name: str) -> None:
    """One picture. Blanks are kept and the font named is one that a plain system has."""
    svg = app.export_screenshot(title="labconsole")
    svg = DOTS.sub(one_by_one, svg.replace("Fira Code", FONT).replace("font-size: 20px", FONT_SIZE))
    svg = svg.replace("<text ", '<text xml:space="preserve" ')
    path = directory / f"{name}.svg"
    path.write_text(svg, encoding="utf-8")
    if shutil.which("rsvg-convert"):
        subprocess.run(["rsvg-convert", "-o", str(path.with_suffix(".png")), str(path)], check=True)
    print(path)


def set_up(app: ConsoleApp, **values: str) -> None:
    """Fill fields of the set-up panel."""
    for name, value in values.items():
        widget = app.screen.query_one(f"#{name}")
        assert isinstance(widget, Field | Choice)
        widget.value = value


async def tour(
    factory: SessionFactory, directory: Path, size: tuple[int, int], *, duration_s: float, target: str, frame_size: str
) -> None:
    """Idle, a refused set-up, a trial under way, its result, saved runs, help; light theme for one of them."""
    made: list[SessionLike] = []

    def make() -> SessionLike:
        made.append(factory())
        return made[0]

    app, tag = ConsoleApp(make), f"{size[0]}x{size[1]}"
    async with app.run_test(size=size, notifications=True) as pilot:
        await until(lambda: isinstance(app.screen, BenchScreen), "the bench")
        session = made[0]
        nodes = session.telemetry.nodes
        await until(lambda: all(n.state is NodeState.CONNECTED for n in nodes.values()), "connecting")
        await asyncio.sleep(1.5)
        set_up(app, duration=f"{duration_s:g}", target=target, frame_size=frame_size)
        await pilot.pause(0.3)
        save(app, directory, f"bench-ready-{tag}")
        set_up(app, target="20Gbit")
        await pilot.pause(0.3)
        save(app, directory, f"bench-refused-{tag}")
        set_up(app, target=target)
        await pilot.pause(0.2)
        await pilot.press("r")
        await until(lambda: app.state.trial is not None and len(_longest(session)) > 0, "traffic")
        await asyncio.sleep(duration_s * 0.7)
        await pilot.pause(0.2)
        save(app, directory, f"bench-sending-{tag}")
        if size[0] == 80:
            await pilot.press("v")
            await pilot.pause(0.4)
            save(app, directory, f"bench-chart-{tag}")
            await pilot.press("v", "v")
        await until(lambda: app.state.last is not None and not app.state.asked, "the result")
        await pilot.pause(0.8)
        save(app, directory, f"bench-saved-{tag}")
        await pilot.press("f3")
        await pilot.pause(0.8)
        save(app, directory, f"runs-{tag}")
        await pilot.press("question_mark")
        await pilot.pause(0.3)
        save(app, directory, f"help-{tag}")
        await pilot.press("escape", "f2")
        if size[0] == 120:
            app.theme = theme.LIGHT.name
            await pilot.pause(0.5)
            save(app, directory, f"bench-light-{tag}")
        await session.close()


def _longest(session: SessionLike) -> list[float]:
    return max((list(s.seconds) for s in session.telemetry.streams.values()), key=len, default=[])


def real_factory(hosts: Path, store: str | None) -> SessionFactory:
    """Sessions on a real inventory."""
    from labconsole.testbed import load_testbed, open_session

    inventory, runs = load_testbed(hosts, store)
    return lambda: open_session(inventory, runs)


def scripted_factory() -> SessionFactory:
    """Sessions of the tests' scripted testbed."""
    from tui_fake import MovingSession

    return lambda: MovingSession(loss=0.07)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=Path, help="inventory of a testbed that is up; without it: the scripted one")
    parser.add_argument("--store", help="where the runs go (default: the user's store)")
    parser.add_argument("--out", type=Path, default=Path("screenshots"))
    parser.add_argument("--duration", type=float, default=5.0)
    parser.add_argument("--target", default="100Mbit")
    parser.add_argument("--frame-size", default="500")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for size in SIZES:
        factory = real_factory(args.hosts, args.store) if args.hosts else scripted_factory()
        asyncio.run(
            tour(factory, args.out, size, duration_s=args.duration, target=args.target, frame_size=args.frame_size)
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
