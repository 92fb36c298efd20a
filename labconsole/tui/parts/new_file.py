"""A file that is created and never overwritten: its name as typed, or a sentence why it cannot be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from labconsole.text.sanitize import sanitize
from labconsole.tui.parts.ask_text import AskText


def create(name: str, suffixes: Sequence[str]) -> tuple[Path, IO[str]]:
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


def ask(
    what: str, name: str, explanation: str, texts: Mapping[str, Callable[[], str]], tell: Callable[[str], None]
) -> AskText:
    """Ask for a file's name, and write one of ``texts``, by the suffix. ``what``: "the curves"."""

    async def take(typed: str) -> str:
        try:
            path, stream = await asyncio.to_thread(create, typed, tuple(texts))
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
