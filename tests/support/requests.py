"""Every request that a console can make of an agent, by the word that names it on the wire."""

from __future__ import annotations

from typing import Any

from labconsole.wire.catalogue import messages
from labconsole.wire.message import Request

REQUESTS: dict[str, type[Request[Any]]] = {each.op: each for each in messages(Request)}
