"""Every module that writes for somebody outside, and why words of others do no harm there. A new one fails here."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "labconsole"

NOT_READ_BY_PEOPLE = {"agent", "network", "wire", "packets", "nodes", "lab"}
"""Rooms that write to kernels, to agents and to a lab's own machines. What they tell people goes through the others."""

FILES = {
    "write_text",
    "write_bytes",
    "write",
    "writelines",
    "writerow",
    "writerows",
    "savefig",
    "to_csv",
    "write_table",
}
OUTWARD = {"copy_to_clipboard", "notify", "fdopen", "create_subprocess_exec", "Popen", "check_output"}
NAMES = {"print", "Console", "unwrap_stream"}
STREAMS = ("sys.stdout", "sys.stderr")
"""What is written there is cleaned by the stream (cli/main.py)."""

WORDS = "tests/unit/text/test_foreign_words.py"
WRITTEN = "tests/unit/cli/test_untrusted_written.py"
TERMINAL = "tests/unit/cli/test_untrusted_terminal.py"
JSON = "JSON, in which all but ASCII is escaped"
BYTES = "bytes of others, as they are, for the program that reads them"
OURS = "words of ours, and names of files that the operator gave"

WRITERS = {
    "bundle/archive.py": BYTES,
    "bundle/pack.py": JSON,
    "bundle/reproduction.py": BYTES,
    "cli/commands/calibrate.py": WRITTEN,
    "cli/commands/check/checks.py": WORDS,
    "cli/commands/gate.py": WORDS,
    "cli/commands/replay/execution.py": JSON,
    "cli/output.py": TERMINAL,
    "cli/text/tables.py": WRITTEN,
    "cli/text/replay.py": WRITTEN,
    "cli/text/report.py": "trends: " + WRITTEN + "; reports: " + TERMINAL,
    "engine/discovery/hosts_file.py": WORDS,
    "engine/execution/hooks.py": WORDS,
    "model/plan/writer.py": "names of this testbed (NAME), and remarks that are harmless",
    "report/figure_drawing.py": WORDS,
    "report/files.py": WRITTEN,
    "report/tables.py": WORDS,
    "store/importing.py": JSON,
    "store/exporters/__init__.py": WRITTEN,
    "store/exporters/csv.py": WRITTEN,
    "store/exporters/parquet.py": WRITTEN,
    "store/series.py": BYTES,
    "store/sql/sqlite.py": BYTES,
    "testing/contracts.py": BYTES,
    "text/sanitize.py": TERMINAL,
    "tui/app.py": "tests/unit/tui/test_outward_text.py",
    "tui/console/notifications.py": WORDS,
    "tui/console/memory.py": JSON,
    "tui/console/runtime.py": "tests/unit/tui/test_outward_text.py",
    "tui/parts/dialogs.py": "tests/unit/tui/test_outward_text.py",
    "tui/parts/away_notifier.py": "tests/unit/tui/test_outward_text.py",
    "tui/parts/records.py": "tests/unit/tui/test_outward_text.py",
    "tui/screens/curves/screen.py": "tests/unit/tui/test_outward_text.py",
    "tui/screens/first/screen.py": OURS,
    "tui/screens/log/screen.py": "tests/unit/tui/test_outward_text.py",
    "tui/screens/nodes/screen.py": "the operator's own ssh, and a node's name (NAME)",
    "tui/screens/plans/screen.py": "a note, into the store",
    "tui/screens/runs/list_actions.py": "tests/unit/tui/test_outward_text.py",
    "tui/screens/runs/screen.py": "tests/unit/tui/test_outward_text.py",
}
"""By module: the test that feeds it words of others, or what else is written there."""

BY_MARKDOWN = {
    "cli/commands/compare.py",
    "cli/commands/gate.py",
    "cli/commands/trend.py",
}
"""Commands that print Markdown: WORDS and WRITTEN read it with a parser."""


def writes(tree: ast.Module) -> Iterator[str]:
    """What a module calls that takes words out of the program."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Name) and called.id in NAMES:
            yield called.id
        elif isinstance(called, ast.Attribute):
            owner = ast.unparse(called.value)
            opens = called.attr == "open" and any(
                isinstance(mode, ast.Constant) and isinstance(mode.value, str) and set(mode.value) & set("wxa")
                for mode in node.args[:2]
            )
            runs = owner == "subprocess" and called.attr == "run"
            if owner not in STREAMS and (called.attr in FILES | OUTWARD or opens or runs):
                yield f"{owner}.{called.attr}"


def modules() -> Iterator[tuple[str, str]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name.partition("/")[0] not in NOT_READ_BY_PEOPLE:
            yield name, path.read_text(encoding="utf-8")


def test_every_writer_is_listed_with_what_keeps_words_of_others_from_doing_harm():
    found = {name: set(writes(ast.parse(text))) for name, text in modules()}
    found = {name: calls for name, calls in found.items() if calls}
    new = {name: sorted(calls) for name, calls in found.items() if name not in WRITERS}
    assert not new, f"writers that are not listed; use text/sanitize.py, test them, and list them: {new}"
    assert not set(WRITERS) - set(found), "no longer writers; take them off the list"


def test_the_tests_that_are_named_are_there():
    for words in WRITERS.values():
        if words.startswith("tests/"):
            assert (PACKAGE.parent / words).is_file(), words


def test_every_command_that_prints_markdown_is_known():
    assert {name for name, text in modules() if '"--markdown"' in text and "add_argument" in text} == BY_MARKDOWN


FIELDS = {"Input", "MaskedInput", "TextArea"}
"""Of Textual, which paints what is in them as it is."""


def test_every_field_of_the_console_is_one_that_keeps_words_alone():
    found = [
        f"{name}: {ast.unparse(each)}"
        for name, text in modules()
        if name != "tui/parts/fields.py"
        for node in ast.walk(ast.parse(text))
        for each in (
            [node.func] if isinstance(node, ast.Call) else node.bases if isinstance(node, ast.ClassDef) else []
        )
        if ast.unparse(each).rpartition(".")[2] in FIELDS
    ]
    assert not found, f"use TypedText of tui/parts/fields.py: {found}"
