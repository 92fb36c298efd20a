"""Dialogs: a question, one line of text, a new file, one of many, and the goal of a search."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from labconsole.engine.protocol import SessionLike
from labconsole.errors import LabError
from labconsole.model.design_point import DesignPoint
from labconsole.model.plan.ad_hoc import build_search, one_search
from labconsole.model.plan.plan import Plan
from labconsole.text.cells import format_duration, format_rounded, safe
from labconsole.text.sanitize import sanitize
from labconsole.tui.parts.action import Action, HasActions, dialog_keys
from labconsole.tui.parts.fields import Choice, Field, TypedText
from labconsole.tui.parts.lines import Span, set_border_titles
from labconsole.tui.parts.table import Column, LineTable

# -- confirm -----------------------------------------------------------------------------------------------------------
# One question before something irreversible. The default is no: only one key says yes.


class Confirm(HasActions, ModalScreen[bool]):
    """Dismisses with True for yes. Enter, too, means no: an operator may press it before reading the question."""

    ACTIONS = (
        Action("y", "answer(True)", "Yes", "Do it.", id="answer-yes", common=True),
        Action("n,escape,enter,q", "answer(False)", "No", "Do not do it.", id="answer-no", common=True),
    )

    def __init__(self, question: str, consequence: str) -> None:
        super().__init__()
        self._question, self._consequence = question, consequence

    def compose(self) -> ComposeResult:
        with Vertical(id="confirm-box"):
            yield Static(safe(self._question, 200), id="confirm-question", markup=False)
            yield Static(safe(self._consequence, 400), markup=False)
            yield Static(dialog_keys(self), id="confirm-keys", markup=False)

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)


def take_over_question(refusal: object) -> Confirm:
    """Build the question before taking another operator's lease. ``refusal`` says whose it is."""
    return Confirm("The testbed is in use. Take it over?", f"{refusal}. Their run is aborted and recorded so.")


# -- ask text ----------------------------------------------------------------------------------------------------------
# Dialog for one line of text: a note, a file's name. It stays open, showing why, until the text is accepted.

Take = Callable[[str], Awaitable[str]]
"""Uses the text. Returns why it could not, or ""."""


class AskText(HasActions, ModalScreen[None]):
    """Closes once ``take`` accepted the text. Esc leaves without."""

    CSS_PATH = "ask_text.tcss"
    ACTIONS = (Action("escape", "dismiss", "Cancel", "Close it without a change.", id="ask-cancel", common=True),)

    def __init__(self, question: str, value: str, explanation: str, take: Take) -> None:
        super().__init__()
        self._question, self._value, self._explanation, self._take = question, value, explanation, take

    def compose(self) -> ComposeResult:
        with Vertical(id="ask-box"):
            yield Static(safe(self._question, 200), id="ask-question", markup=False)
            yield TypedText(self._value, compact=True, id="ask-text", select_on_focus=False)
            yield Static(safe(self._explanation, 400), id="ask-words", markup=False)
            yield Static("", id="ask-problem", markup=False)
            yield Static(f"enter: accept      {dialog_keys(self)}", id="ask-keys", markup=False)

    @on(Input.Submitted)
    def submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._try(event.value)

    @work(exclusive=True)
    async def _try(self, text: str) -> None:
        problem = await self._take(text)
        if not problem:
            self.dismiss()
            return
        self.query_one("#ask-problem", Static).update(f"✗ {safe(problem, 400)}")


# -- new file ----------------------------------------------------------------------------------------------------------
# A file that is created and never overwritten: its name as typed, or a sentence why it cannot be.


def create_file(name: str, suffixes: Sequence[str]) -> tuple[Path, IO[str]]:
    """Create a file. Raises ValueError with a sentence if it exists already or cannot be created."""
    if not name.strip():
        raise ValueError("enter a file name")
    path = Path(name.strip()).expanduser().absolute()
    if path.suffix not in suffixes:
        raise ValueError(f"{path.name}: must end in {' or '.join(suffixes)}")
    try:
        return path, path.open("x", encoding="utf-8", newline="")
    except FileExistsError:
        raise ValueError(f"{path} already exists and will not be overwritten; choose another name") from None
    except (OSError, ValueError) as exc:
        raise ValueError(f"{path} cannot be written: {getattr(exc, 'strerror', None) or exc}") from None


def _write(stream: IO[str], text: str) -> None:
    with stream:
        stream.write(sanitize(text))


def ask_new_file(
    what: str, name: str, explanation: str, texts: Mapping[str, Callable[[], str]], tell: Callable[[str], None]
) -> AskText:
    """Ask for a file's name, and write one of ``texts``, by the suffix. ``what``: "the curves"."""

    async def take(typed: str) -> str:
        try:
            path, stream = await asyncio.to_thread(create_file, typed, tuple(texts))
        except ValueError as exc:
            return str(exc)
        text = texts[path.suffix]()
        try:
            await asyncio.to_thread(_write, stream, text)
        except OSError as exc:
            path.unlink(missing_ok=True)
            return f"{path} cannot be written: {exc.strerror or exc}"
        tell(f"exported {what} to {path}")
        return ""

    return AskText(f"Export {what}", name, f"{explanation} Existing files are kept.", take)


# -- pick --------------------------------------------------------------------------------------------------------------
# Choosing one of many by typing a part of its name: nodes to jump to.


class _Rows(LineTable, can_focus=False):
    EMPTY = "no name matches"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("name", "name", 16, right=False, grow_to=32),
        Column("text", "", 10, right=False, grow_to=60),
    )

    def __init__(self, choices: Mapping[str, str]) -> None:
        super().__init__(id="pick-rows")
        self._choices = choices
        self.wanted = ""

    def keys(self) -> list[str]:
        wanted = self.wanted.casefold().split()
        rows = [(key, f"{key} {description}".casefold()) for key, description in self._choices.items()]
        return [key for key, text in rows if all(word in text for word in wanted)]

    def cell_name(self, key: str, width: int) -> Span:
        return safe(key, width), ""

    def cell_text(self, key: str, width: int) -> Span:
        return safe(self._choices[key], width), "muted"


class Pick(HasActions, ModalScreen[str | None]):
    """Dismisses with a key of ``choices``, or None."""

    CSS_PATH = "pick.tcss"
    ACTIONS = (
        Action("escape", "dismiss(None)", "Cancel", "Choose nothing.", id="pick-cancel", common=True),
        Action("up", "move(-1)", "Up", "Go one line up.", id="pick-up", shown=False, common=True),
        Action("down", "move(1)", "Down", "Go one line down.", id="pick-down", shown=False, common=True),
    )

    def __init__(self, title: str, choices: Mapping[str, str]) -> None:
        super().__init__()
        self._title, self._choices = title, choices

    def compose(self) -> ComposeResult:
        with Vertical(id="pick-box") as box:
            set_border_titles(box, safe(self._title, 80))
            box.border_subtitle = f"type to filter · enter: choose · {dialog_keys(self)}"
            yield TypedText(compact=True, id="pick-text", max_length=100)
            yield _Rows(self._choices)

    def on_mount(self) -> None:
        self.call_after_refresh(self.query_one(_Rows).paint)

    def action_move(self, by: int) -> None:
        self.query_one(_Rows).action_cursor(by)

    @on(Input.Changed)
    def narrow(self, event: Input.Changed) -> None:
        event.stop()
        rows = self.query_one(_Rows)
        rows.wanted = event.value
        rows.paint()

    @on(Input.Submitted)
    def take(self, event: Input.Submitted) -> None:
        event.stop()
        rows = self.query_one(_Rows)
        if rows.cursor_key in list(rows.keys()):
            self.dismiss(rows.cursor_key)


# -- ask search --------------------------------------------------------------------------------------------------------
# Dialog for a search from the set-up of the Bench: the goal, and search parameters other than the defaults.

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
