"""The protocol manual's tables of messages, printed from their classes.

PYTHONPATH=tests python -m support.message_tables      # renews docs/agent-protocol.md
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from labconsole.network.change import load_all
from labconsole.wire.catalogue import EVENTS
from labconsole.wire.changes import AnyChange
from labconsole.wire.message import Done, Message, field_names
from support.requests import REQUESTS

MANUAL = Path(__file__).parents[2] / "docs" / "agent-protocol.md"
MARKED = re.compile(r"(<!-- printed: (\w+) -->\n).*?(<!-- end -->\n)", re.DOTALL)
WORDS = {int: "integer", float: "number", str: "text", bool: "bool"}


def tables() -> dict[str, str]:
    """Each table by its name in the manual."""
    requests = "".join(
        f"| `{op}` | {_fields(each)} | {_words(each)} | {_reply(each.reply)} |\n" for op, each in REQUESTS.items()
    )
    load_all()
    changes = "".join(
        f"| `{do}` | {_fields(each)} | {_words(each)} |\n" for do, each in sorted(AnyChange.known.items())
    )
    events = "".join(f"| `{kind}` | {_fields(each)} | {_words(each)} |\n" for kind, each in EVENTS.items())
    parts = "".join(f"| {each.__name__} | {_fields(each)} | {_words(each)} |\n" for each in _parts())
    return {
        "requests": "| op | args | what it does | ok |\n|---|---|---|---|\n" + requests,
        "changes": "| do | fields | what it does |\n|---|---|---|\n" + changes,
        "events": "| event | fields | when |\n|---|---|---|\n" + events,
        "objects": "| object | fields | what it is |\n|---|---|---|\n" + parts,
    }


def renewed(text: str) -> str:
    """The manual with its tables as they should be."""
    printed = tables()
    return MARKED.sub(lambda found: f"{found[1]}\n{printed[found[2]]}\n{found[3]}", text)


def _parts() -> list[type[Message]]:
    """Every reply and every object inside a message, in the order in which they are met."""
    met: dict[type[Message], None] = {}

    def meet(cls: Any) -> None:
        hints = get_type_hints(cls, include_extras=True)
        for name in field_names(cls):
            look(hints[name])

    def look(hint: Any) -> None:
        if isinstance(hint, type) and issubclass(hint, Message):
            if hint not in met:
                met[hint] = None
                meet(hint)
            return
        for inner in get_args(hint):
            look(inner)

    for each in REQUESTS.values():
        meet(each)
        look(each.reply)
    for event in EVENTS.values():
        meet(event)
    met.pop(Done, None)
    return list(met)


def _reply(cls: type[Message]) -> str:
    return "" if cls is Done else cls.__name__


def _fields(cls: type[Message]) -> str:
    hints = get_type_hints(cls, include_extras=True)
    told = []
    for name in field_names(cls):
        optional = "optional " if hasattr(cls, name) else ""
        told.append(f"`{name}`: {optional}{_kind(hints[name], optional=bool(optional))}")
    return ", ".join(told)


def _kind(hint: Any, *, optional: bool = False) -> str:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Union:
        return _kind(inner[0]) + ("" if optional else " or null")
    if origin is Annotated:
        return _kind(inner[0])
    if origin is list:
        return f"[{_kind(inner[0])}]"
    if origin is dict:
        return f"{{name: {_kind(inner[1])}}}"
    return WORDS[hint] if hint in WORDS else "any" if hint is Any else str(hint.__name__)


def _words(cls: type[Message]) -> str:
    return " ".join((cls.__doc__ or "").replace("``", "`").replace("|", "\\|").split())


if __name__ == "__main__":
    MANUAL.write_text(renewed(MANUAL.read_text()))
