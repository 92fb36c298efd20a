"""The set-up panel: what to measure, each choice explained, its errors; or the present measurement in its place."""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import Callable, Hashable

from rich.cells import cell_len
from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Button, Input, Static

from labconsole.errors import ConfigError, LabError
from labconsole.model.design_point import BACKGROUNDS, FORWARDING_SHARES, DesignPoint
from labconsole.model.inventory import Inventory
from labconsole.text.cells import format_duration, format_rounded, safe
from labconsole.tui.console import clock, form
from labconsole.tui.console.current_measurement import build_current_measurement
from labconsole.tui.console.state import ConsoleState
from labconsole.tui.parts.fields import Choice, Field
from labconsole.tui.parts.lines import Lines, Span, field, set_border_titles
from labconsole.units import format_target

# -- setup -------------------------------------------------------------------------------------------------------------
# The set-up panel: what to measure, what each choice means, what is wrong with it.

LABELS = {
    "platform": "Platform",
    "frame_size": "Frame size",
    "sources": "Sources",
    "target": "Target",
    "background": "Background",
    "duration": "Duration",
    "repetitions": "Repetitions",
}


LOOK_AGAIN_S = 1.0
"""Interval for checking the fields without input: nodes connect, and their interfaces' MTUs change."""


def fit_whole_words(text: str, width: int) -> str:
    """Return the words that fit. A mark shows that some are left out."""
    whole = safe(text, 1000)
    kept = whole
    while cell_len(kept) > width and kept != " …":
        kept = kept.removesuffix(" …").rpartition(" ")[0] + " …"
    return kept if kept != " …" else safe(whole, width)


class Hint(Lines):
    """The meaning of one choice, in the longest wording that fits, or its error."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.wordings: tuple[str, ...] = ("",)
        self.problem = ""
        self.doubts: tuple[str, ...] = ()

    def lines(self, width: int) -> list[list[Span]]:
        if self.problem:
            return [[(fit_whole_words("✗ " + self.problem.removeprefix("is "), width), "bad")]]
        if self.doubts:
            doubt = next((w for w in self.doubts if cell_len(w) + 2 <= width), self.doubts[-1])
            return [[(fit_whole_words(f"! {doubt}", width), "warn")]]
        fitting = next((w for w in self.wordings if cell_len(w) <= width), self.wordings[-1])
        return [[(fit_whole_words(fitting, width), "muted")]]


class SetupProblem(Lines):
    """Next to the buttons: the allowed values for the first problem."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.text = ""
        self.tone_name = "muted"

    def lines(self, width: int) -> list[list[Span]]:
        rows = textwrap.wrap(f"allowed: {self.text}", max(10, width)) if self.text else []
        if len(rows) > self.size.height:
            rows = textwrap.wrap(self.text, max(10, width))
        return [[(safe(row, width), self.tone_name)] for row in rows[:3]]


class UutNow(Lines):
    """Programs running on the unit under test before the operator presses Run."""

    def __init__(self) -> None:
        super().__init__(id="uut-now")
        self.wordings: tuple[str, ...] = ("not inspected yet",)
        self.tone_name = "muted"

    def show(self, wordings: tuple[str, ...], tone: str) -> None:
        """Show a text. ``wordings``: longest first."""
        self.wordings, self.tone_name = wordings, tone
        self.paint()

    def lines(self, width: int) -> list[list[Span]]:
        fitting = next((w for w in self.wordings if len(w) <= width), self.wordings[-1])
        return [[(safe(fitting, width), self.tone_name)]]


class SetupPanel(Vertical):
    """The fields. ``reading`` is their present meaning."""

    def __init__(
        self,
        inventory: Inventory,
        remembered: form.FormValues | None = None,
        also: Callable[[DesignPoint], None] | None = None,
        stored: Callable[[DesignPoint], None] | None = None,
        *,
        beyond: Callable[[DesignPoint], tuple[str, ...]] = lambda request: (),
        run_key: str,
        abort_key: str,
        may_run: bool = True,
    ) -> None:
        """``may_run``: the console does more than watch. ``beyond`` warns that a source does not reach the target,
        longest wording first.
        """
        super().__init__(id="setup")
        self._run_key, self._abort_key = run_key, abort_key
        self._inventory, self._also, self._stored = inventory, also, stored
        self._unstored: dict[Hashable, ConfigError | None] = {}
        self._may_run, self._beyond = may_run, beyond
        self._initial = form.initial_values(inventory)
        # The testbed may have changed since: a set-up that is wrong now is not offered.
        if remembered is not None and form.read_form(remembered, inventory, also).request is not None:
            self._initial = remembered
        self.reading = form.read_form(self._initial, inventory, also)
        self.border_title = "Set-up"

    def compose(self) -> ComposeResult:
        v, inventory = self._initial, self._inventory
        sources = [str(n) for n in range(1, len(inventory.streams) + 1)]
        fields: dict[str, Field | Choice] = {
            "platform": Choice(list(inventory.platforms), v.platform, id="platform"),
            "frame_size": Field(
                v.frame_size, prefix=form.NUMBER_PREFIX, presets=form.FRAME_SIZE_PRESETS, id="frame_size"
            ),
            "sources": Field(v.sources, prefix=form.NUMBER_PREFIX, presets=sources, id="sources"),
            "target": Field(v.target, prefix=form.TARGET_PREFIX, presets=form.TARGET_PRESETS, id="target"),
            "background": Choice(BACKGROUNDS, v.background, id="background"),
            "duration": Field(v.duration, prefix=form.SECONDS_PREFIX, presets=form.DURATION_PRESETS, id="duration"),
            "repetitions": Field(
                v.repetitions, prefix=form.NUMBER_PREFIX, presets=form.REPETITION_PRESETS, id="repetitions"
            ),
        }
        for name, widget in fields.items():
            with Horizontal(classes="setup-row"):
                yield Static(LABELS[name], classes="setup-label", markup=False)
                yield widget
                yield Hint(id=f"hint-{name}")
        with Horizontal(classes="setup-row"):
            yield Static("UUT now", classes="setup-label", markup=False)
            yield UutNow()
        with Horizontal(id="setup-run"):
            for id, label in (("run", f"Run  {self._run_key}"), ("abort", f"Abort  {self._abort_key}")):
                button = Button(Text(label), id=id, compact=True)
                button.display = self._may_run
                button.can_focus = False  # their keys reach them from anywhere; two tab stops fewer
                yield button
            yield SetupProblem(id="setup-words")

    def on_mount(self) -> None:
        self.reread()
        self.set_interval(LOOK_AGAIN_S, self.reread)

    def requery_store(self) -> None:
        """Query the store again: something was saved, so missing data may be there now."""
        self._unstored.clear()
        self.reread()

    def _refuse(self, request: DesignPoint) -> None:
        """Raises ConfigError for requests that the testbed cannot run, or for which the store lacks data."""
        if self._also is not None:
            self._also(request)
        if self._stored is None or request.background not in FORWARDING_SHARES:
            return
        key = (request.platform, request.background, request.sources, request.frame.includes_fcs)
        if key not in self._unstored:
            self._unstored[key] = None
            self._ask_store(key, request)
        missing = self._unstored[key]
        if missing is not None:
            raise missing

    @work(group="stored")
    async def _ask_store(self, key: Hashable, request: DesignPoint) -> None:
        assert self._stored is not None
        try:
            await asyncio.to_thread(self._stored, request)
        except ConfigError as exc:
            self._unstored[key] = exc
            self.reread()
        except LabError:
            pass  # Run reports a store that cannot be read

    def values(self) -> form.FormValues:
        """The present contents of the fields."""

        def text(name: str) -> str:
            widget = self.query_one(f"#{name}")
            assert isinstance(widget, Field | Choice)
            return widget.value

        return form.FormValues(*(text(name) for name in LABELS))

    @on(Input.Changed)
    @on(Choice.Changed)
    def reread(self) -> None:
        """Read the fields, and show next to each what it means."""
        if not self.is_mounted or not self.query("#setup-words"):
            return
        self.reading = form.read_form(self.values(), self._inventory, self._refuse)
        for name in LABELS:
            hint = self.query_one(f"#hint-{name}", Hint)
            problem = self.reading.problems.get(name)
            hint.wordings = self.reading.hints.get(name, ("",))
            hint.problem = problem.short if problem else ""
            hint.doubts = self._beyond(self.reading.request) if name == "target" and self.reading.request else ()
            hint.paint()
        allowed = self.query_one("#setup-words", SetupProblem)
        first = next(iter(self.reading.problems.values()), None)
        allowed.text, allowed.tone_name = (first.allowed, "bad") if first else ("", "muted")
        allowed.paint()
        self.query_one("#abort", Button).display = first is None and self._may_run  # the text needs its room
        self.query_one("#run", Button).disabled = first is not None or not self._may_run

    @on(Input.Submitted)
    def next_field(self) -> None:
        """Go to the next field, as tab does. Starting traffic takes its own key."""
        self.screen.focus_next()


# -- measurement panel -------------------------------------------------------------------------------------------------
# The present measurement in place of the set-up: during a plan it differs from the fields.

LABEL_CELLS = 13


class MeasurementPanel(Lines):
    """The design point of the trial under way, its place, and its time."""

    def __init__(self, state: ConsoleState) -> None:
        super().__init__(id="measured")
        self._state = state
        self.border_title = "Measured now"

    def lines(self, width: int) -> list[list[Span]]:
        now = build_current_measurement(self._state, clock.monotonic_s(), clock.wall_s())
        if now is None:
            return []
        rows: list[tuple[str, str]] = []
        trial, point = self._state.trial, self._state.current_request
        if point is not None:
            rate = f", {format_rounded(point.intended_pps)} pps each" if point.intended_pps is not None else ""
            rows = [
                ("Platform", point.platform),
                ("Frame size", point.frame.words()),
                ("Sources", str(point.sources)),
                ("Target", f"{format_target(point.wish)}{rate}"),
                ("Background", point.background),
                ("Duration", f"{point.duration_s:g} s"),
            ]
        set_border_titles(self, f"Measured now by {safe(now.by, 40)}" if now.by else "Measured now")
        rows += [
            ("Place", ", ".join(word for word in (now.place[0], now.plan[0]) if word)),
            ("Step", now.step[0]),
            ("Left", "" if now.left_s is None else f"about {format_duration(now.left_s)}"),
            ("Run", trial.run_id if trial is not None else ""),
        ]
        shown = [field(label, safe(text, 400), width, rows=1, label_cells=LABEL_CELLS) for label, text in rows if text]
        return [line for lines in shown for line in lines]
