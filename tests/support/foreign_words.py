"""Words as somebody else may write them, for tests of writers, and readers that see what came out as others would."""

from __future__ import annotations

import csv
import io
import re
from html.parser import HTMLParser

from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from support.fuzzing import harmful

PIECES = (
    "\x1b]0;t\x07",
    "\x1b[2J",
    "\x9b31m",
    "\u202e",
    "\u2066",
    "\0",
    "\ufffe",
    "\x0b",
    "\x85",
    "\u2028",
    "\ud800",
    "\r\n",
    "\n\n",
    "\n",
    "\t",
    " ",
    "<img src=x onerror=1>",
    "<script>",
    "</text><script/>",
    "]]>",
    "<!--",
    "&lt;b&gt;",
    "&#64;me",
    "&",
    "![i](http://e.example/i)",
    "[l](javascript:x)",
    "[l]: http://e.example",
    "<http://e.example>",
    "<m@e.example>",
    "http://e.example",
    "www.e.example",
    "me@e.example",
    "@team",
    "#12",
    "GH-12",
    "# h",
    "- x",
    "1. x",
    "2026) x",
    "> q",
    "---",
    "| a | b |",
    "`",
    "``",
    "```",
    "**b**",
    "__b__",
    "a_b_c",
    "_",
    "~~s~~",
    "!",
    "\\",
    "\\|",
    "$\\frac$",
    "$x$",
    "\\input{x}",
    "\\\\[9cm]",
    "[9cm]",
    "%",
    "{",
    "}",
    "^_&",
    "*",
    "=1+1",
    "+1+1",
    "-1+1",
    "@SUM(1)",
    "\t=1",
    ";=1",
    "\n=1",
    ';"=1;',
    '\t"=1\t',
    '"=1+1"',
    "\uff1d1",
    "'",
    '"',
    ",",
    ";",
    "raw",
    "1 000",
)
"""What terminals, pages, forges, LaTeX, spreadsheets and matplotlib would obey, and what ends their quotations."""

WORDS = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), min_size=1, max_size=6).map("".join)

UNSEEN = "\u200b"
"""What writers of Markdown put in, so that a forge makes no link."""

_LINKED = re.compile(r"(?<!\w)@\w|@[\w-]*\.|://|\bwww\.|#\d|\bGH-\d", re.IGNORECASE)
_FORMULA = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]")
_TSV_NUMBER = re.compile(r"[+-]\d[\d\u2009]*(\.\d+)?([eE][+-]?\d+)?( ?%)?")


def markdown_tokens(text: str) -> list[Token]:
    """Everything that a forge would make of it. Fails for a link that only forges make, or a harmful character."""
    assert not harmful(text.replace(UNSEEN, "")), text
    reader = MarkdownIt("gfm-like", {"html": True})
    assert reader.linkify is not None
    reader.linkify.set({"fuzzy_link": False})  # a bare e.example is a link to no forge; www. is looked for below
    found = [inner for token in reader.parse(text) for inner in [token, *(token.children or [])]]
    for token in found:
        assert token.type != "text" or not _LINKED.search(token.content), token.content
    return found


def check_spreadsheet(text: str, columns: int | None = None) -> list[list[str]]:
    """The rows of a CSV file. Fails where a spreadsheet, by whatever separator it reads, would see a formula."""
    assert not harmful(text)
    rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    assert columns is None or {len(row) for row in rows} <= {columns}, rows
    for separator in ",;\t":
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator):
            for cell in row:
                for part in re.split(r"[;\t\n]", cell):
                    assert not _FORMULA.match(part) or is_number(part), cell
    return rows


def check_tabs(text: str, columns: int | None = None) -> None:
    """The same for lines with tabs, from which a spreadsheet takes quotes as from a CSV file."""
    assert not harmful(text)
    for line in text.splitlines():
        cells = next(csv.reader([line], delimiter="\t"))
        assert columns is None or len(cells) == len(line.split("\t")) == columns, line
        for cell in cells:
            assert not _FORMULA.match(cell) or _TSV_NUMBER.fullmatch(cell), cell


def is_number(text: str) -> bool:
    """Whether a spreadsheet would take it for one."""
    try:
        float(text)
    except ValueError:
        return False
    return True


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found |= {f"<{tag}>", *(name for name, _ in attrs)}

    def handle_comment(self, data: str) -> None:
        self.found.add("<!-- -->")


def html_elements(text: str) -> set[str]:
    """Each kind of element and of attribute in a page. Fails for a harmful character."""
    assert not harmful(text)
    parser = _Elements()
    parser.feed(text)
    parser.close()
    return parser.found


LATEX_OURS = re.compile(
    r"\\(textbackslash|textasciitilde|textasciicircum)\{\}|\\[&%$#_{},]|\$(\\pm|\\cdot|-|\^\{[-\d]\})\$|\A\{\}"
)


def check_latex(text: str) -> None:
    """Fails where one line of LaTeX has anything but text and the commands that stand for a character."""
    assert not harmful(text) and "\n" not in text and not text.startswith(("[", "*"))
    assert not re.search(r"[\\{}$&#^_%~]", LATEX_OURS.sub("", text)), text
