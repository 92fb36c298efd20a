"""Text that leaves the console by another way than its screens: the clipboard, toasts, Textual's last words."""

from __future__ import annotations

from typing import Any

from rich.console import Console, ConsoleRenderable, RenderHook
from rich.segment import Segment, Segments
from textual.app import App

from labconsole.text.harmless import harmless


class HarmlessApp(App[int]):
    """An app that cleans all of it in one place, whoever asks: names and messages are other people's."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.error_console.push_render_hook(HarmlessSegments(self.error_console))

    def copy_to_clipboard(self, text: str) -> None:
        """Textual's own. What is pasted is obeyed like what is typed."""
        super().copy_to_clipboard(harmless(text))

    def notify(self, message: str, **options: Any) -> None:
        """Textual's own, without markup."""
        super().notify(harmless(message), **{**options, "markup": False})


class HarmlessSegments(RenderHook):
    """Cleans what a console prints, before it adds its own sequences: a traceback quotes its exception's words."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """The same, rendered."""
        return [
            Segments([Segment(harmless(text), style, control) for text, style, control in self._console.render(each)])
            for each in renderables
        ]
