"""Names of fields are free because formats do not come from them: ``asdict`` and ``_asdict`` write no format.

What leaves the program as JSON, as a file or as a row states its keys in a ``to_json()``, a ``to_row()`` or,
for the summary of a kind of experiment, at the end of its ``summary.py``.
"""

from __future__ import annotations

import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "labconsole"
FROM_FIELDS = re.compile(r"\b_?asdict\(")

ALLOWED: dict[str, tuple[int, str]] = {
    "cli/commands/baseline.py": (1, "fields of one named tuple become arguments of the record"),
    "comparison/changes.py": (1, "what is known of a change becomes fields of the change"),
    "store/notes.py": (1, "a row of SQLAlchemy: the names are those of the schema"),
    "store/merging.py": (1, "a row of SQLAlchemy: the names are those of the schema"),
    "store/importing.py": (1, "a row of SQLAlchemy: the names are those of the schema"),
}
"""Modules that may use it, how often, and why it is no format."""


def test_no_format_comes_from_names_of_fields() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix(): len(FROM_FIELDS.findall(path.read_text()))
        for path in sorted(PACKAGE.rglob("*.py"))
    }
    used = {name: count for name, count in found.items() if count}
    assert used == {name: count for name, (count, _) in ALLOWED.items()}, "state the keys, or add a reason above"
