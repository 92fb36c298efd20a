"""Dialog for a search from the set-up of the Bench: the goal, and search parameters other than the defaults."""

from __future__ import annotations

import re
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from labconsole.engine.protocol import SessionLike
from labconsole.errors import LabError
from labconsole.model.design_point import DesignPoint
from labconsole.model.plan.one_search import build_search, one_search
from labconsole.model.plan.plan import Plan
from labconsole.text.cells import format_duration, format_rounded, safe
from labconsole.tui.parts.action import Action, HasActions
from labconsole.tui.parts.fields import Choice, Field
from labconsole.tui.parts.key_bar import dialog_keys

KINDS: dict[str, tuple[str, ...]] = {
    "NDR, no loss": ("ndr",),
    "PDR, some loss": ("pdr",),
    "throughput, RFC 2544": ("rfc2544",),
    "throughput, TST 009": ("tst009",),
    "frame loss rate": ("frame-loss",),
    "back-to-back": ("back-to-back",),
    "NDR and latency": ("ndr", "latency"),
}
LOAD = frozenset(kind for kind, goals in KINDS.items() if goals[0] not in ("frame-loss", "back-to-back"))
TIMES = frozenset({"back-to-back", "NDR and latency"})
_NUMBER, _DECIMAL = re.compile(r"\d{0,6}"), re.compile(r"\d{0,5}(\.\d{0,6})?")

FIELDS: dict[str, tuple[str, re.Pattern[str], tuple[str, ...], str, str]] = {
    "loss": ("loss %", _DECIMAL, ("0.1", "0.5", "1", "5"), "0.5", "lost at most, of what is intended"),
    "trial_s": ("trial s", _DECIMAL, ("1", "2", "5", "10", "30", "60"), "", "empty: the goal's own"),
    "duration_sum_s": ("per load s", _DECIMAL, ("5", "10", "21", "60", "120"), "", "of trials at one load"),
    "width": ("width %", _DECIMAL, ("0.5", "1", "2", "5"), "", "between the final bounds"),
    "repetitions": ("repeat", _NUMBER, ("1", "5", "20", "50"), "", "of bursts and latency"),
    "max_trials": ("at most", _NUMBER, ("20", "50", "100", "500", "2000"), "2000", "trials, then it ends"),
}
"""Label, allowed text, choices for + and −, initial text, explanation."""

_LABEL_OF_KEY = {**{name: label for name, (label, *_) in FIELDS.items()}, "width_ratio": "width %", "goals": "loss %"}
_KEYS = re.compile("trial_s|duration_sum_s|width_ratio|^(repetitions|max_trials|goals)")
"""Names of the fields in validation messages. The last three are common words elsewhere."""


class AskSearch(HasActions, ModalScreen[Plan | None]):
    """Dismisses with the plan of the search, or None. With an invalid field it stays open and shows why."""

    CSS_PATH = "ask_search.tcss"
    ACTIONS: ClassVar = (
        Action("enter", "take", "Search", "Begin the search.", id="search-take", common=True, priority=True),
        Action("escape", "dismiss(None)", "Cancel", "Close it without a search.", id="search-cancel", common=True),
    )

    def __init__(self, request: DesignPoint, session: SessionLike) -> None:
        super().__init__()
        self._request, self._session = request, session

    def compose(self) -> ComposeResult:
        with Vertical(id="search-box"):
            question = f"Find the highest load of {self._request.format_without_load()}"
            yield Static(safe(question, 200), id="search-question", markup=False)
            with Horizontal(classes="search-row"):
                yield Static("goal", classes="search-label", markup=False)
                yield Choice(tuple(KINDS), next(iter(KINDS)), id="search-goal")
                yield Static("arrows choose, up and down go on", classes="search-hint", markup=False)
            for name, (label, prefix, presets, value, hint) in FIELDS.items():
                with Horizontal(classes="search-row", id=f"row-{name}"):
                    yield Static(label, classes="search-label", markup=False)
                    yield Field(value, prefix=prefix, presets=presets, id=f"search-{name}")
                    yield Static(hint, classes="search-hint", markup=False)
            yield Static("", id="search-takes", markup=False)
            yield Static("", id="search-problem", markup=False)
            yield Static(dialog_keys(self), id="search-keys", markup=False)

    def on_mount(self) -> None:
        self.query_one("#search-goal").focus()
        self.update_forecast()

    @property
    def _kind(self) -> str:
        return self.query_one("#search-goal", Choice).value

    def _number(self, name: str) -> float | None:
        field = self.query_one(f"#search-{name}", Field)
        text = field.value.strip(".")
        return float(text) if text and self.query_one(f"#row-{name}").display else None

    def _plan(self) -> Plan:
        """Build the plan. Raises ConfigError."""
        goals, loss = KINDS[self._kind], self._number("loss")
        if goals == ("pdr",):
            goals = (f"pdr-{loss or 0:.6f}".rstrip("0").rstrip(".") + "%",)
        width, times, most = self._number("width"), self._number("repetitions"), self._number("max_trials")
        search = build_search(
            goals,
            trial_s=self._number("trial_s"),
            duration_sum_s=self._number("duration_sum_s"),
            width_ratio=None if width is None else width / 100,
            repetitions=None if times is None else int(times),
            max_trials=None if most is None else int(most),
        )
        return one_search(self._request.loadless(), search, self._session.inventory)

    @on(Input.Changed)
    @on(Choice.Changed)
    def changed(self) -> None:
        """Update after an input: other parameters matter, and the duration changes."""
        goals = KINDS[self._kind]
        for name, shown in (
            ("loss", goals == ("pdr",)),
            ("duration_sum_s", self._kind in LOAD),
            ("width", self._kind in LOAD),
            ("repetitions", self._kind in TIMES),
        ):
            self.query_one(f"#row-{name}").display = shown
        self.update_forecast()

    @work(exclusive=True, group="look ahead")
    async def update_forecast(self) -> None:
        """Show how long the search takes, or why it is impossible. The checks are those at its start."""
        await self._looked()

    async def _looked(self) -> Plan | None:
        takes, problem, plan = "", "", None
        try:
            plan = self._plan()
            execution = self._session.execution(plan, salt="ahead")
            await execution.look()
            if execution.refusal is not None:
                raise execution.refusal
            steps = execution.steps
            takes = f"about {format_duration(steps.left_s)}, {format_rounded(steps.reckoned_trials)} trials or more"
        except LabError as exc:
            plan, problem = None, _KEYS.sub(lambda found: _LABEL_OF_KEY[found[0]], str(exc))
        self.query_one("#search-takes", Static).update(takes)
        self.query_one("#search-problem", Static).update(f"✗ {safe(problem, 300)}" if problem else "")
        return plan

    @work(exclusive=True, group="take")
    async def action_take(self) -> None:
        plan = await self._looked()
        if plan is not None and self.is_current:
            self.dismiss(plan)
