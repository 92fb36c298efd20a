"""Foreign text made safe for a medium: a terminal, a spreadsheet, Markdown, LaTeX, a figure. The only such place.

A record may come from another site's export and a message from a node. Either may contain escape sequences, overrides
of the text's direction, half a surrogate pair, or text that the medium would run or render. Each writer calls the
function of its medium. Libraries escape HTML and XML, after ``sanitize``. JSON lines need nothing: they are ASCII, with
everything else escaped. ``tests/house/test_writers.py`` lists the writers.
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
    """Return ``text`` with a middle dot for every character other than printable ones, tabs and line feeds."""
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
    """Return a cell of a CSV file. Text that a spreadsheet would run as a formula gets a leading apostrophe.

    Platform names are the operator's and notes anyone's: an imported run may bring a note that begins with "=".
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
"""An invisible break in text that a forge would turn into a link."""

_LINKED = re.compile(
    r"(?<=:)//|(?<![\w])@|@(?=[\w-]*\.)|#(?=\d)|(?<=\bGH)-(?=\d)|(?<=\bwww)\.", re.IGNORECASE
)  # addresses, mentions (a plan's name has a letter before its @), mail, issues
_NUMBERED = "|".join(rf"(?<=^\d{{{digits}}})" for digits in range(1, 10))
_MARKDOWN = re.compile(
    r"[\\*\[\]|~$]|(?<![^\W_])_|_(?![^\W_])|<(?=[A-Za-z/!?])|&(?=#?\w+;)|^[>#]|^[-+](?=[\s-]*$|\s)"
    rf"|(?:{_NUMBERED})[.)](?=\s|$)|`(?P<code>`*)"
)
"""Text with a meaning in Markdown.

An underscore between letters has none, a ``<`` before a number begins no element, and a number of up to nine digits
numbers a list.
"""


def escape_markdown(text: str, *, code_spans: bool = False) -> str:
    """Escape foreign text so that Markdown shows it literally, in one line: no image, link, heading, list or mention.

    ``code_spans``: keep code spans in backticks, for text of ours. Markdown reads nothing else inside them.
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
    """Escape plain text so that LaTeX shows it literally, in one line. After ``\\\\`` it is not read as an argument."""
    line = "".join(LATEX_SPECIAL.get(character, character) for character in sanitize_line(text))
    return "{}" + line if line.startswith(("[", "*")) else line


# -- figures ----------------------------------------------------------------------------------------------------------


def escape_figure_text(text: str) -> str:
    """Escape text so that matplotlib draws it literally: no formula, and no label that a legend omits."""
    literal = sanitize_line(text).replace("$", r"\$")
    return f" {literal}" if literal.startswith("_") else literal


# -- terminals --------------------------------------------------------------------------------------------------------


class SanitizingStream:
    """A text stream that sanitises what it writes. Everything else is the wrapped stream's own."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write ``text``, sanitised."""
        return self.stream.write(sanitize(text))

    def writelines(self, lines: Any) -> None:
        """Write each of ``lines``, sanitised."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def sanitized_output() -> Iterator[None]:
    """Sanitise all output to stdout and stderr in this context."""
    with (
        redirect_stdout(cast(TextIO, SanitizingStream(sys.stdout))),
        redirect_stderr(cast(TextIO, SanitizingStream(sys.stderr))),
    ):
        yield


def unwrap_stream(stream: TextIO) -> TextIO:
    """Return the stream behind a sanitising one, for callers that draw with their own escape sequences."""
    return stream.stream if isinstance(stream, SanitizingStream) else stream
