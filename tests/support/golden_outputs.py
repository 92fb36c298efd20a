"""What a command prints, as it is kept in tests/golden: laid out so that a change can be read, and without what varies.

``RENEW_GOLDEN_WORDS=1`` in the environment stores what is printed now.
"""

from __future__ import annotations

import difflib
import hashlib
import itertools
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from labconsole.cli.main import main
from labconsole.wire.version import __version__
from support.golden_sets import GOLDEN_SETS

RENEW = bool(os.environ.get("RENEW_GOLDEN_WORDS"))
WIDTH = 160
WHOLE_LINES, HEAD_LINES, TAIL_LINES = 1000, 60, 20
"""Of a longer output only both ends are kept, and a digest of all of it."""

MAX_DIFFERING_LINES = 60

VARYING = {
    r'"at": "[^"]*"': '"at": "NOW"',
    r'"set_at": "[^"]*"': '"set_at": "NOW"',
    r"(set by \S+ at) \S+Z": r"\1 NOW",
    r"\d+\.\d+ runs/min": "RATE runs/min",
    rf'(labconsole |"labconsole": "|version="){re.escape(__version__)}\b': r"\1VERSION",
    r", [^,\n]+ ago": ", AGE ago",
}


def same(path: Path, text: str) -> None:
    """The text is the stored one, or is stored now."""
    if RENEW:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    stored = path.read_text(encoding="utf-8") if path.exists() else ""
    if text != stored:
        lines = difflib.unified_diff(stored.splitlines(), text.splitlines(), "stored", "printed", n=0, lineterm="")
        meant = f"{path.relative_to(GOLDEN_SETS)}: see the first lines of {Path(__file__).name} if that is meant"
        pytest.fail("\n".join([meant, *itertools.islice(lines, MAX_DIFFERING_LINES)]), pytrace=False)


def printed(
    words: Iterable[str],
    capsys: pytest.CaptureFixture[str],
    places: Mapping[Path, str],
    *,
    whole_lines: int = WHOLE_LINES,
    clock: bool = False,
) -> str:
    """The command, its exit status, stdout and stderr; ``clock``: times of day and durations vary."""
    words = list(words)
    capsys.readouterr()
    try:
        status = main(words)
    except SystemExit as ended:
        status = int(ended.code or 0)
    out, err = capsys.readouterr()
    assert "internal error" not in err, err + " ".join(words)
    command, out, err = (
        without_varying(text, places, clock=clock) for text in (f"labconsole {' '.join(words)}", out, err)
    )
    told = f"stderr:\n{err}" if err else ""
    return f"$ {command}\nexit status {status}\n{abridged(readable(out), whole_lines)}{told}"


def fixed_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """One time, one operator, and ids that are counted, in every module that is loaded."""
    number = itertools.count(1)
    fixed: dict[str, Callable[..., str]] = {
        "new_run_id": lambda now: f"20260101T000000Z-{next(number):06x}",
        "utc_now": lambda: "2026-01-01T00:00:00.000000Z",
        "operator_name": lambda: "ann@desk",
    }
    for module in [each for name, each in sys.modules.items() if name.startswith("labconsole")]:
        for name, instead in fixed.items():
            if name in vars(module):
                monkeypatch.setattr(module, name, instead)


def without_varying(text: str, places: Mapping[Path, str], *, clock: bool = False) -> str:
    """The text without paths of this machine, the version, and the time."""
    for path, name in places.items():
        text = text.replace(str(path), name)
    for pattern, instead in VARYING.items():
        text = re.sub(pattern, instead, text)
    text = re.sub(r'("(?:left_s|took_s|connect_s)": )[\d.e-]+', r"\g<1>0.0", text) if clock else text
    return re.sub(r"(?<![\w:])\d+:\d\d:\d\d(?![\d:])", "H:MM:SS", text) if clock else text


def abridged(text: str, whole_lines: int = WHOLE_LINES) -> str:
    """The text, or its ends and a digest."""
    lines = text.splitlines()
    if len(lines) <= whole_lines:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()
    head, tail = min(HEAD_LINES, whole_lines // 2), min(TAIL_LINES, whole_lines // 3)
    between = f"[{len(lines)} lines, sha256 {digest}]"
    return "\n".join([*lines[:head], between, *lines[-tail:], ""])


def readable(text: str) -> str:
    """Lines of JSON are laid out, objects and lists that are too wide one member a line; other text stays."""
    return "".join(_laid_out_line(line) for line in text.splitlines(keepends=True))


def _laid_out_line(line: str) -> str:
    if not line.startswith("{"):
        return line
    value = json.loads(line)
    assert json.dumps(value) == line.rstrip("\n"), "what json.dumps() writes, so that nothing is lost by laying it out"
    return laid_out(value) + "\n"


def laid_out(value: Any, indent: str = "") -> str:
    """JSON over several lines where one is too wide."""
    flat = json.dumps(value)
    if len(indent) + len(flat) <= WIDTH or not isinstance(value, dict | list) or not value:
        return flat
    inner = indent + " "
    if isinstance(value, dict):
        members = [f"{inner}{json.dumps(key)}: {laid_out(each, inner)}" for key, each in value.items()]
        return "{\n" + ",\n".join(members) + f"\n{indent}}}"
    if all(isinstance(each, int | float | str | None) for each in value):
        return flat
    return "[\n" + ",\n".join(inner + laid_out(each, inner) for each in value) + f"\n{indent}]"
