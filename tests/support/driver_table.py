"""The manual's table of drivers, printed from what they say about themselves."""

from __future__ import annotations

import re
from typing import Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from labconsole.contracts.driver import DriverInfo
from labconsole.platforms.base.options import ManagedOptions
from labconsole.platforms.loading import known_drivers

HEAD = "| Driver | What it is | Options | Met the real thing |\n|---|---|---|---|\n"
TABLE = re.compile(re.escape(HEAD) + r"(?:\|.*\n)*")
"""Where it is in the manual."""


def table() -> str:
    """Those of guests that are installed already come last."""
    ordered = sorted(known_drivers().values(), key=lambda about: (_managed(about), about.name))
    rows = [f"| `{about.name}` | {about.summary} | {_options(about)} | {about.tried} |\n" for about in ordered]
    return HEAD + "".join(rows)


def _managed(about: DriverInfo) -> bool:
    return issubclass(about.Options, ManagedOptions)


def _options(about: DriverInfo) -> str:
    fields = about.Options.model_fields.items()
    common = ManagedOptions.model_fields if _managed(about) else {}
    own = [(name, each) for name, each in fields if name not in common or each.description != common[name].description]
    said = [_option(each.alias or name, each) for name, each in own]
    return ", ".join([*said, *(["those below"] if common else [])]) or "–"


def _option(name: str, field: FieldInfo) -> str:
    allowed = ", ".join(get_args(field.annotation)) if get_origin(field.annotation) is Literal else ""
    default = ", ".join(field.default) if isinstance(field.default, tuple) else field.default
    needed = "needed" if field.is_required() else f"default {default}" if default not in (None, "") else ""
    words = "; ".join(each for each in (field.description, allowed, needed) if each)
    return f"`{name}`" + (f" ({words})" if words else "")
