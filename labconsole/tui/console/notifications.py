"""Notifying an operator who is not looking: the events worth it, their texts, and the terminal's part."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from labconsole.engine.live.events import Event, NodeChanged, NodeState, Notice, TrialFinished
from labconsole.text.cells import format_duration, safe
from labconsole.tui.console import clock
from labconsole.tui.console.absence import AbsenceDigest, NotableEvent
from labconsole.tui.console.current_measurement import build_current_measurement
from labconsole.tui.console.state import ConsoleState, PlanEnd

# -- the terminal ------------------------------------------------------------------------------------------------------
# Notify an operator who is not looking: the terminal's bell, notifications, title and progress bar.
#
# All text in these escape sequences is sanitised first: names and notes come from files, nodes and other people. The
# environment says which terminal understands which sequence. If it does not, both kinds of notification are sent,
# because a terminal ignores unknown sequences. A progress bar is sent only to terminals known to have one. Others show
# its numbers as a notification.

BELL = "\a"
END = "\x1b\\"
"""Ends a progress report: some terminals do not accept a bell there."""

MOST_CHARACTERS = 200
SAVE_TITLE, RESTORE_TITLE = "\x1b[22;2t", "\x1b[23;2t"
NO_PROGRESS = (0, 0)
VTE_WITH_PROGRESS = 8000


def _clean_text(text: str) -> str:
    """Sanitise, and remove the separator of OSC 777's fields."""
    return safe(" ".join(text.split()), MOST_CHARACTERS).replace(";", ",")


class TerminalNotifier:
    """``write`` sends to the terminal. ``notify``: the channels chosen in the operator's settings."""

    def __init__(self, write: Callable[[str], None], notify: str, environ: Mapping[str, str]) -> None:
        self.write, self._notify = write, notify
        self._bare = environ.get("TERM", "") in ("", "linux", "dumb")
        self._tmux = bool(environ.get("TMUX"))
        self._kinds = _notifications(environ)
        self._has_progress = _has_progress(environ)
        self._title, self._progress = "", NO_PROGRESS

    def begin(self) -> None:
        """Save the terminal's title."""
        if not self._bare:
            self.write(SAVE_TITLE)

    def end(self) -> None:
        """Restore the title, and remove the progress bar."""
        self.progress(None)
        if not self._bare:
            self.write(RESTORE_TITLE)

    def title(self, text: str) -> None:
        """Set the title of the terminal's window or tab."""
        if text != self._title and not self._bare:
            self._title = text
            self.write(f"\x1b]2;{_clean_text(text)}{BELL}")

    def progress(self, ratio: float | None, *, halted: bool = False, failed: bool = False) -> None:
        """Show progress, or none if ``ratio`` is None."""
        percent = 0 if ratio is None else max(0, min(100, round(ratio * 100)))
        state = 2 if failed else 0 if ratio is None else 4 if halted else 1
        if self._has_progress and self._notify != "off" and (state, percent) != self._progress:
            self._progress = (state, percent)
            self.write(self._wrap_for_tmux(f"\x1b]9;4;{state};{percent}{END}"))

    def call(self, title: str, text: str) -> None:
        """Ring the bell, and have the terminal or the desktop show a notification."""
        if self._notify == "off":
            return
        if self._notify == "auto" and not self._bare:
            for kind in self._kinds:
                message = (
                    f"{_clean_text(title)}: {_clean_text(text)}"
                    if kind == 9
                    else f"notify;{_clean_text(title)};{_clean_text(text)}"
                )
                self.write(self._wrap_for_tmux(f"\x1b]{kind};{message}{BELL}"))
        self.write(BELL)

    def _wrap_for_tmux(self, sequence: str) -> str:
        """Pass a sequence through tmux to the outer terminal, if its allow-passthrough is on."""
        return f"\x1bPtmux;{sequence.replace(chr(27), chr(27) * 2)}\x1b\\" if self._tmux else sequence


def _notifications(environ: Mapping[str, str]) -> tuple[int, ...]:
    """Which of OSC 9 and OSC 777 to send."""
    program, term = environ.get("TERM_PROGRAM", ""), environ.get("TERM", "")
    if program in ("iTerm.app", "WezTerm", "ghostty") or environ.get("WT_SESSION") or term == "xterm-ghostty":
        return (9,)
    if environ.get("VTE_VERSION") or term.startswith(("rxvt", "foot")):
        return (777,)
    return (9, 777)


def _has_progress(environ: Mapping[str, str]) -> bool:
    vte = environ.get("VTE_VERSION", "")
    return (
        environ.get("TERM_PROGRAM") in ("ghostty", "WezTerm")
        or environ.get("TERM") == "xterm-ghostty"
        or bool(environ.get("WT_SESSION"))
        or environ.get("ConEmuANSI") == "ON"
        or (vte.isascii() and vte.isdigit() and int(vte) >= VTE_WITH_PROGRESS)
    )


# -- events ------------------------------------------------------------------------------------------------------------
# The events worth notifying the operator of, and their texts. ``notifications.py`` does the terminal's part.

ELSEWHERE_AFTER_S = 20.0
"""An operator who pressed a key more recently, in a terminal with focus, needs no notification."""

PAUSE_S = 10.0
"""Minimum time between two notifications, except at the end of a plan: ten lost nodes are one reason to look."""


class OperatorNotifier:
    """Keeps events for the digest, and notifies an absent operator. ``focused``: the terminal has the focus."""

    def __init__(self, state: ConsoleState, attention: TerminalNotifier, testbed: str) -> None:
        self._state, self._attention, self._testbed = state, attention, testbed
        self._connected: set[str] = set()
        self._called_s = -PAUSE_S
        self.focused = True

    def engine_event(self, event: Event) -> None:
        """Handle an event of the engine."""
        wall_s = clock.wall_s()
        if isinstance(event, NodeChanged):
            self._node(wall_s, event)
        elif isinstance(event, TrialFinished) and event.kept:
            self._state.watch.ended(wall_s, event.record, saved=event.saved)
            if not event.saved:
                self._trouble(wall_s, f"run {event.record.run_id} could not be saved")
        elif isinstance(event, Notice) and event.severity == "error":
            self._trouble(wall_s, f"{event.node}: {event.message}" if event.node else event.message)

    def _node(self, wall_s: float, event: NodeChanged) -> None:
        if event.state is NodeState.CONNECTED:
            if event.node in self._connected:
                self._state.watch.tell(NotableEvent(wall_s, "node", "information", f"{event.node} is back"))
            self._connected.add(event.node)
        elif event.state is NodeState.LOST and event.node in self._connected:
            message = f"{event.node} was lost" + (f": {event.message}" if event.message else "")
            self._state.watch.tell(NotableEvent(wall_s, "node", "error", message))
            self._call(message)

    def _trouble(self, wall_s: float, message: str) -> None:
        self._state.watch.tell(NotableEvent(wall_s, "trouble", "error", message))
        self._call(message)

    def failed(self, message: str) -> None:
        """Handle a request that ended with this error."""
        self._trouble(clock.wall_s(), message)

    def plan_over(self, over: PlanEnd) -> None:
        """Handle the end of a plan."""
        self._state.plan_over = over
        self._state.revision += 1
        self._state.watch.tell(NotableEvent(over.at_wall_s, "plan", over.severity, over.text))
        self._call(over.text, always=True)
        if over.failed:
            self._attention.progress(1.0, failed=True)

    def _call(self, message: str, *, always: bool = False) -> None:
        now_s = clock.monotonic_s()
        looks = self.focused and self._state.watch.idle_s(clock.wall_s()) < ELSEWHERE_AFTER_S
        if looks or (now_s - self._called_s < PAUSE_S and not always):
            return
        self._called_s = now_s
        self._attention.call(f"labconsole on {self._testbed}", message)

    def tick(self) -> None:
        """Update the title and the progress bar. Called periodically."""
        now = build_current_measurement(self._state, clock.monotonic_s(), clock.wall_s())
        over = self._state.plan_over
        if now is not None:
            left = f", {format_duration(now.left_s)} left" if now.left_s is not None else ""
            mark = "◌" if now.halted else "▶"
            self._attention.title(f"{mark} {now.plan[0] or now.what[0] or now.step[0]}{left}")
            self._attention.progress(now.done_ratio, halted=now.halted)
        elif over is not None:
            self._attention.title(f"{over.look[0]} {over.text}")
            self._attention.progress(1.0 if over.failed else None, failed=over.failed)
        else:
            self._attention.title(f"labconsole: {self._testbed}")
            self._attention.progress(None)

    def seen(self) -> AbsenceDigest | None:
        """Handle a key or click. Returns the digest if the operator was away and something happened, or None."""
        wall_s = clock.wall_s()
        if self._state.watch.seen(wall_s) is None:
            return None
        digest = self._state.watch.digest(wall_s)
        if digest.nothing:
            self._state.watch.read()  # there is nothing to read: the next absence is separate
            return None
        return digest

    def read(self) -> AbsenceDigest:
        """Return the digest and mark it as read. Notes kept on screen for it are no longer new."""
        self._state.plan_over = None
        self._state.watch.read()
        self._state.revision += 1
        return self._state.watch.digest(clock.wall_s())
