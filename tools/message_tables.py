"""The tables of messages in docs/agent-protocol.md, printed from their classes when ``make site`` builds the page.

``.venv/bin/python tools/message_tables.py`` prints the page with them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from labconsole.network.change import load_all
from labconsole.wire.catalogue import EVENTS, messages
from labconsole.wire.changes import AnyChange
from labconsole.wire.message import Done, Message, Request, field_names

MANUAL = Path(__file__).parents[1] / "docs" / "agent-protocol.md"
MARKED = re.compile(r"<!-- printed: (\w+) -->\n")
REQUESTS: dict[str, type[Request[Any]]] = {each.op: each for each in messages(Request)}
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


def fill_in(text: str) -> str:
    """The manual with a table in place of each comment that names one."""
    printed = tables()
    return MARKED.sub(lambda found: printed[found[1]], text)


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
    described = []
    for name in field_names(cls):
        optional = "optional " if hasattr(cls, name) else ""
        described.append(f"`{name}`: {optional}{_kind(hints[name], optional=bool(optional))}")
    return ", ".join(described)


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
    print(fill_in(MANUAL.read_text()), end="")
