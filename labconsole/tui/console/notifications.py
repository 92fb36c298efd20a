"""Notify an operator who is not looking: the terminal's bell, notifications, title and progress bar.

All text in these escape sequences is sanitised first: names and notes come from files, nodes and other people. The
environment says which terminal understands which sequence. If it does not, both kinds of notification are sent, because
a terminal ignores unknown sequences. A progress bar is sent only to terminals known to have one. Others show its
numbers as a notification.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from labconsole.text.cells import safe

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
