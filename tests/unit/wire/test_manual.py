"""The protocol's manual says of messages what their classes say, and of limits what the code says."""

from __future__ import annotations

import re

from labconsole.wire.codec import MAX_LINE_BYTES
from support.message_tables import MANUAL, MARKED, renewed, tables


def test_the_manuals_tables_are_those_that_the_classes_print() -> None:
    text = MANUAL.read_text()
    assert [found[2] for found in MARKED.finditer(text)] == list(tables())
    assert text == renewed(text), "run: PYTHONPATH=tests python -m support.message_tables"


def test_the_manual_says_the_true_limit_of_a_line() -> None:
    found = re.search(r"longer\s+than (\d+) MiB", MANUAL.read_text())
    assert found is not None and int(found[1]) * 1024 * 1024 == MAX_LINE_BYTES
