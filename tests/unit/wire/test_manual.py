"""The protocol's manual says of messages what their classes say, and of limits what the code says."""

from __future__ import annotations

import re
from typing import get_args, get_type_hints

from labconsole.wire.codec import MAX_LINE_BYTES
from labconsole.wire.message import field_names
from message_tables import MANUAL, MARKED, fill_in, tables
from support.requests import REQUESTS


def test_the_manual_gets_every_table_that_the_classes_print() -> None:
    text = MANUAL.read_text()
    assert [found[1] for found in MARKED.finditer(text)] == list(tables())
    filled = fill_in(text)
    assert all(table in filled for table in tables().values())
    assert [op for op in REQUESTS if f"\n| `{op}` | " not in filled] == []


def test_what_a_request_may_leave_out_need_not_be_there() -> None:
    """Null is not sent, so that an agent has to take its absence for it."""
    for request in REQUESTS.values():
        hints = get_type_hints(request, include_extras=True)
        needed = [name for name in field_names(request) if not hasattr(request, name)]
        assert [name for name in needed if type(None) in get_args(hints[name])] == [], request


def test_the_manual_says_the_true_limit_of_a_line() -> None:
    found = re.search(r"longer\s+than (\d+) MiB", MANUAL.read_text())
    assert found is not None and int(found[1]) * 1024 * 1024 == MAX_LINE_BYTES
