"""Foreign words as text for a medium: a terminal, a spreadsheet, Markdown, LaTeX, a figure. The only such place.

A record may come from somebody else's export and a message from a node: either may hold escape sequences, overrides
of the text's direction, half a surrogate pair, or what the medium would run or render. Each writer calls the function
of its medium; HTML and XML are escaped by their libraries, of text that is ``harmless``. JSON lines need nothing: they
are ASCII, with everything else escaped. ``tests/house/test_writers.py`` lists the writers.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO, TypeVar, cast

REPLACEMENT = "·"
_UNUSUAL = re.compile(r"[^\t\n -~]")
_BLANKS = re.compile(r"[\t\n ]+")
_HARMFUL = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})

CellT = TypeVar("CellT")


def sanitize(text: str) -> str:
    """``text`` with a middle dot for every character that is not a printable one, a tab or a line feed."""
    return _UNUSUAL.sub(_replace_harmful, text)


def single_line(text: str) -> str:
    """The same with a blank for each line feed: nobody's words make a line that reads as one of ours."""
    return sanitize(text).replace("\n", " ")


def sanitize_line(text: str) -> str:
    """The same as one line without tabs, with single blanks and none at its ends."""
    return _BLANKS.sub(" ", sanitize(text)).strip(" ")


def _replace_harmful(found: re.Match[str]) -> str:
    char = found[0]
    return REPLACEMENT if unicodedata.category(char) in _HARMFUL else char


# -- spreadsheets -----------------------------------------------------------------------------------------------------

_FORMULA = re.compile(r"(^|[;\t\n])(?=[\s\"]*[=+\-@＝＋－＠])")
"""Where a spreadsheet may begin to read a formula: also behind what some locales take for a separator of cells, and
behind quotes, which it takes off.
"""

_NUMBER = re.compile(r"[+-]?\d[\d\u2009]*(\.\d+)?([eE][+-]?\d+)?( ?%)?")


def sanitize_cell(cell: CellT) -> CellT | str:
    """A cell of a CSV file: text that a spreadsheet would run as a formula gets an apostrophe before it.

    Platform names are the operator's and notes anybody's: an imported run may bring a note that begins with "=".
    """
    return _FORMULA.sub(r"\1'", sanitize(cell)) if isinstance(cell, str) else cell


def format_tsv_line(cells: Iterable[object]) -> str:
    """Cells with tabs between them, as spreadsheets paste them; None is an empty cell, and numbers stay numbers.

    Text that begins with a quote gets an apostrophe before it, too.
    """
    texts = ["" if cell is None else sanitize_line(str(cell)) for cell in cells]
    return "\t".join(text if _NUMBER.fullmatch(text) else _pasted_cell(text) for text in texts)


def _pasted_cell(text: str) -> str:
    cell = sanitize_cell(text)
    return f"'{cell}" if cell.startswith('"') else cell


# -- Markdown ---------------------------------------------------------------------------------------------------------

_INVISIBLE = "\u200b"
"""Breaks what a forge would make a link of, and is not seen."""

_LINKED = re.compile(
    r"(?<=:)//|(?<![\w])@|@(?=[\w-]*\.)|#(?=\d)|(?<=\bGH)-(?=\d)|(?<=\bwww)\.", re.IGNORECASE
)  # addresses, mentions (a plan's name has a letter before its @), mail, issues
_NUMBERED = "|".join(rf"(?<=^\d{{{digits}}})" for digits in range(1, 10))
_MARKDOWN = re.compile(
    r"[\\*\[\]|~$]|(?<![^\W_])_|_(?![^\W_])|<(?=[A-Za-z/!?])|&(?=#?\w+;)|^[>#]|^[-+](?=[\s-]*$|\s)"
    rf"|(?:{_NUMBERED})[.)](?=\s|$)|`(?P<code>`*)"
)
"""What Markdown reads. An underscore between letters is none, a ``<`` before a number begins no element, and a number
of up to nine digits numbers a list.
"""


def escape_markdown(text: str, *, code_spans: bool = False) -> str:
    """Foreign text as Markdown shows it literally, in one line: no image, link, heading or list, nobody mentioned.

    ``code_spans``: words of ours may stand between backticks. In them nothing else is read, either.
    """

    def escaped(found: re.Match[str]) -> str:
        if found["code"] is None:
            return "\\" + found[0]
        return found[0] if code_spans and not found["code"] else "\\`" * len(found[0])

    broken = _LINKED.sub(lambda found: _INVISIBLE.join(["", *found[0], ""]), sanitize_line(text))
    return _MARKDOWN.sub(escaped, broken)


# -- LaTeX ------------------------------------------------------------------------------------------------------------

LATEX_SPECIAL = {
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\\": r"\textbackslash{}",
    "±": r"$\pm$",
    "–": "--",
    "\u2009": r"\,",
    "−": "$-$",
    "·": r"$\cdot$",
    "⁻": "$^{-}$",
    **{digit: f"$^{{{place}}}$" for place, digit in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")},
}


def escape_latex(text: str) -> str:
    """Plain text as LaTeX shows it literally, in one line. It may follow ``\\\\``: it is not taken for its argument."""
    line = "".join(LATEX_SPECIAL.get(character, character) for character in sanitize_line(text))
    return "{}" + line if line.startswith(("[", "*")) else line


# -- figures ----------------------------------------------------------------------------------------------------------


def escape_figure_text(text: str) -> str:
    """Text as matplotlib draws it literally: no formula, and no label that a legend leaves out."""
    literal = sanitize_line(text).replace("$", r"\$")
    return f" {literal}" if literal.startswith("_") else literal


# -- terminals --------------------------------------------------------------------------------------------------------


class SanitizingStream:
    """A text stream that writes only what is harmless; everything else about it is the stream's own."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write ``text``, cleaned."""
        return self.stream.write(sanitize(text))

    def writelines(self, lines: Any) -> None:
        """Write each of ``lines``, cleaned."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def sanitized_output() -> Iterator[None]:
    """All that is written to stdout and stderr inside is harmless."""
    with (
        redirect_stdout(cast(TextIO, SanitizingStream(sys.stdout))),
        redirect_stderr(cast(TextIO, SanitizingStream(sys.stderr))),
    ):
        yield


def unwrap_stream(stream: TextIO) -> TextIO:
    """The stream behind a harmless one, for who draws with escape sequences of its own."""
    return stream.stream if isinstance(stream, SanitizingStream) else stream
