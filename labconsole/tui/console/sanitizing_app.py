"""Sanitising of text that leaves the console other than by its screens: clipboard, toasts, Textual's panic text."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleRenderable, RenderHook
from rich.segment import Segment, Segments
from textual.app import App
from textual.notifications import SeverityLevel

from labconsole.text.sanitize import sanitize, single_line, unwrap_stream


class SanitizingApp(App[int]):
    """An app that sanitises all such text in one place, whatever its origin: names and messages are foreign."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.error_console.file = unwrap_stream(sys.stderr)  # to which it writes colours of its own
        self.error_console.push_render_hook(SanitizingSegments(self.error_console))

    def copy_to_clipboard(self, text: str) -> None:
        """Copy, sanitised: a terminal obeys pasted text like typed text."""
        super().copy_to_clipboard(sanitize(text))

    def copy_lines(self, lines: Iterable[str]) -> None:
        """The same without line feeds in a line: what is pasted after a line feed, a shell runs."""
        self.copy_to_clipboard("\n".join(map(single_line, lines)))

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        """Notify like Textual, but with ``markup`` off by default."""
        super().notify(sanitize(message), title=sanitize(title), severity=severity, timeout=timeout, markup=False)


class SanitizingSegments(RenderHook):
    """Sanitises what a console prints before it adds its own sequences: a traceback quotes its exception's text."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """Return the renderables as sanitised segments."""
        return [
            Segments([Segment(sanitize(text), style, control) for text, style, control in self._console.render(each)])
            for each in renderables
        ]
