"""Whatever somebody else writes is read as words by what reads our files: parsers of each medium look at what came out."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from rich.color import Color
from rich.style import Style
from ruamel.yaml import YAML

from labconsole.cli.text import check as check_text
from labconsole.cli.text import gate as gate_text
from labconsole.comparison.gate import Gate
from labconsole.contracts.report import Figure, Mark, Panel, PlottedCurve, Table
from labconsole.engine.check.result import CheckResult, CheckStatus
from labconsole.engine.discovery.hosts_file import HostsNode, hosts_text
from labconsole.engine.discovery.probing import Port
from labconsole.engine.discovery.wiring import ProposedStream
from labconsole.model.inventory import NAME
from labconsole.report.figure_drawing import draw_figure
from labconsole.report.page import inline_svg
from labconsole.report.tables import to_csv, to_latex, to_markdown
from labconsole.text.sanitize import escape_latex, format_tsv_line, sanitize_line
from labconsole.tui.console.notifications import TerminalNotifier
from labconsole.tui.screens.curves.curve_chart import svg_document
from support.foreign_words import (
    PIECES,
    UNSEEN,
    WORDS,
    check_latex,
    check_spreadsheet,
    check_tabs,
    html_elements,
    markdown_tokens,
)
from support.fuzzing import harmful, tries

TABLE_TOKENS = {
    *(
        f"{name}_{end}"
        for name in ("paragraph", "strong", "table", "thead", "tbody", "tr", "th", "td")
        for end in ("open", "close")
    ),
    "inline",
    "text",
}


def table_of(words: str, note: str = "") -> Table:
    return Table(
        name="t",
        title=f"T {words}",
        columns=("a", words),
        rows=((words, 1), (None, words)),
        headings=("h", words),
        shown=((words, "1"), ("x", words)),
        note=note,
    )


def figure_of(words: str) -> Figure:
    marks = (Mark(0, 1, None, None, 1, word=words), Mark(1, 2, 1.5, 2.5, 3, 3))
    panels = (Panel(words, (PlottedCurve(words, marks),), (0.5,), (words,), ((1.0, words),)),)
    return Figure(
        name="f",
        title=words,
        kind="curves",
        x_label=words,
        y_label=words,
        panels=panels,
        caption=words,
    )


@cache
def svg_of(words: str) -> str:
    return draw_figure(figure_of(words), ["svg"])["svg"].decode()


@tries(300)
@given(WORDS)
def test_markdown_shows_foreign_words_literally(words: str) -> None:
    tokens = markdown_tokens(to_markdown(table_of(words)))
    assert {token.type for token in tokens} <= TABLE_TOKENS
    cells = [
        tokens[place + 1].children or [] for place, token in enumerate(tokens) if token.type in ("th_open", "td_open")
    ]
    texts = ["".join(child.content for child in cell).replace(UNSEEN, "") for cell in cells]
    line = sanitize_line(words).strip()  # the reader takes any blank off a cell, no-break spaces too
    assert [text.strip() for text in texts] == ["h", line, line, "1", "x", line]


@tries(200)
@given(WORDS)
def test_a_note_in_markdown_has_code_of_ours_and_nothing_else(words: str) -> None:
    tokens = markdown_tokens(to_markdown(table_of("x", f"{words} by `labconsole report`. {words}")))
    assert {token.type for token in tokens} <= {*TABLE_TOKENS, "code_inline"}


@tries(200)
@given(WORDS, WORDS)
def test_a_gate_in_markdown_and_junit_tells_foreign_words_as_words(words: str, detail: str) -> None:
    judged: Any = [
        SimpleNamespace(point=words, outcome=outcome, detail=detail) for outcome in ("worse", "passed", "undecided")
    ]
    gate = Gate(judged=tuple(judged), margin_ratio=0.05, changes=None)
    tokens = markdown_tokens("\n".join(gate_text.format_markdown(words, words, gate)) + "\n")
    assert {token.type for token in tokens} <= {
        *(
            f"{name}_{end}"
            for name in ("heading", "bullet_list", "list_item", "paragraph", "strong")
            for end in ("open", "close")
        ),
        "inline",
        "text",
    }
    told = gate_text.format_junit(words, words, gate)
    assert not harmful(told)
    found = {each.tag for each in ET.fromstring(told.encode()).iter()}
    assert found == {"testsuites", "testsuite", "testcase", "failure", "skipped", "system-out"}


@tries(300)
@given(WORDS)
def test_latex_has_no_command_of_others(words: str) -> None:
    check_latex(escape_latex(words))
    text = to_latex(table_of(words, words))
    assert not harmful(text)
    assert text.count("\n") == to_latex(table_of("x", "x")).count("\n")


@tries(300)
@given(WORDS)
def test_no_cell_is_a_formula(words: str) -> None:
    assert len(check_spreadsheet(to_csv(table_of(words)), 2)) == 3
    check_tabs(format_tsv_line([words, None, 1.5, -2, words]), 5)


def test_numbers_stay_numbers_where_cells_are_pasted() -> None:
    assert format_tsv_line(["+1.5 %", "-2", "-2e-3", None, "=1", "-1+1"]) == "+1.5 %\t-2\t-2e-3\t\t'=1\t'-1+1"


@pytest.mark.filterwarnings("ignore:Glyph")
@tries(15)
@given(WORDS)
def test_a_figure_is_xml_without_elements_of_others(words: str) -> None:
    svg = svg_of(words)
    assert not harmful(svg)
    root = ET.fromstring(svg.encode())
    plain = ET.fromstring(svg_of("x"))
    assert {each.tag for each in root.iter()} <= {each.tag for each in plain.iter()}
    assert html_elements(inline_svg(svg, "f", words)) <= html_elements(inline_svg(svg_of("x"), "f", "x"))


@pytest.mark.filterwarnings("ignore:Glyph", "ignore:constrained_layout")
@pytest.mark.parametrize("first", range(6))
def test_every_piece_of_words_is_drawn_in_every_format(first: int) -> None:
    assert all(draw_figure(figure_of(" ".join(PIECES[first::6]))).values())


def test_words_that_look_like_parts_of_a_figure_are_drawn_as_they_are() -> None:
    texts = "".join(
        ET.fromstring(draw_figure(figure_of('$\\frac$ id="x" xmlns="y" url(#z'), ["svg"])["svg"]).itertext()
    )
    assert "$\\frac$" in texts
    shown = inline_svg(draw_figure(figure_of(' id="x" xmlns="y" url(#z'), ["svg"])["svg"].decode(), "f", "t")
    assert 'xmlns="y" url(#z' in shown and 'id="x"' in shown


@tries(100)
@given(WORDS)
def test_a_picture_of_curves_is_xml_without_elements_of_others(words: str) -> None:
    black = Color.parse("black")
    text = svg_document([[(words, "x")]], lambda _: Style(), words, _Ink(black), _Ink(black))  # type: ignore[arg-type]
    assert not harmful(text)
    names = {each.tag.partition("}")[2] for each in ET.fromstring(text.encode()).iter()}
    assert names <= {"svg", "title", "rect", "g", "text", "path"}


class _Ink:
    """What of textual's colour a picture takes."""

    hex6 = "#000000"

    def __init__(self, color: Color) -> None:
        self.color = color


@tries(200)
@given(WORDS, WORDS)
def test_a_notification_and_a_title_end_where_we_end_them(title: str, text: str) -> None:
    for environ in ({"TERM": "xterm"}, {"TERM": "xterm", "TMUX": "1"}, {"TERM": "foot"}, {"WT_SESSION": "1"}):
        told: list[str] = []
        attention = TerminalNotifier(told.append, "auto", environ)
        attention.title(title)
        attention.call(title, text)
        for sequence in told:
            inner = sequence.removeprefix("\x1bPtmux;\x1b").removesuffix("\x1b\\")
            inner = inner.removeprefix("\x1b]").removesuffix("\a")
            assert not harmful(inner) and "\n" not in inner
            assert inner.count(";") == (3 if inner.startswith("777;") else 1 if inner else 0)


@tries(100)
@given(WORDS)
def test_a_check_is_told_in_colours_of_ours_alone(words: str) -> None:
    results = [
        CheckResult(id=words, node=node, title=words, status=status, evidence=words, hint=words, fixed=True)
        for node in (None, words, "uut")
        for status in (CheckStatus.FAIL, CheckStatus.PASS)
    ]
    lines = "\n".join(check_text.report_lines(results, ["uut"], colour=True, width=80))
    for code in check_text.COLOURS.values():
        lines = lines.replace(f"\x1b[{code}m", "")
    assert not harmful(lines.replace("\x1b[0m", ""))


@tries(100)
@given(WORDS)
def test_a_proposed_hosts_file_is_the_file_that_was_meant(words: str) -> None:
    port = Port(words, words, "02:00:00:00:00:01", words, None, up=True)
    stream = ProposedStream(port, port, port, port)
    text = hosts_text(words, [HostsNode(words, words, ("uut",), user=words)], [stream], found=words, defaults={})
    assert not harmful(text)
    try:
        read: Any = YAML(typ="safe", pure=True).load(text)
    except UnicodeError:
        assert "\ud800" in words  # half a character is refused by whoever reads the file
        return
    assert set(read) == {"testbed", "nodes", "streams", "platforms", "defaults"} | ({"emulated"} & set(read))
    assert len(read["nodes"]) == len(read["streams"]) == 1 and len(read["platforms"]) == 3


def test_a_hooks_environment_holds_names_alone() -> None:
    """A plan's and a testbed's name, which hooks are told, are of these characters and one line."""
    for words in (*PIECES, "a\n", "a b", "a=b"):
        assert not NAME.match(words) or words in ("raw", "www.e.example", "GH-12", "a_b_c")
