"""``labconsole settings``: the location, values and possible keys of the console's settings file."""

from __future__ import annotations

import argparse
import textwrap
from typing import Any

from labconsole.cli.commands import About
from labconsole.cli.options import add_common
from labconsole.cli.output import print_json_line, print_lines

about = About(140, "show where the console's settings file is and what it can contain")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_common(parser, "--json")
    parser.add_argument("--keys", action="store_true", help="list every key with the name used in a keymap")


def run(args: argparse.Namespace) -> int:
    """Show the settings. Raises ConfigError if the file is wrong, so the command also checks it."""
    import json

    from labconsole.tui.app import places
    from labconsole.tui.console.settings import Settings, load_settings, settings_path
    from labconsole.tui.keymap import check_settings

    found = load_settings()
    check_settings(found, places)
    if args.keys:
        rows = [
            {"place": place, "binding": action.id, "keys": action.keys_now(found.keymap), "does": action.sentence}
            for place, actions in places().listed().items()
            for action in actions
            if action.id
        ]
        if args.json:
            for row in rows:
                print_json_line(row)
        else:
            print_lines(*_key_lines(rows))
        return 0
    path = settings_path()
    fields = {
        name: {
            "value": getattr(found, name),
            "default": field.get_default(call_default_factory=True),
            "means": field.description,
        }
        for name, field in Settings.model_fields.items()
    }
    if args.json:
        print_json_line({"file": str(path), "exists": path.exists(), "settings": fields})
        return 0
    state = "read" if path.exists() else "does not exist; every setting has its default"
    lines = [f"{path} ({state})", ""]
    for name, entry in fields.items():
        changed = "" if entry["value"] == entry["default"] else f"   (default: {json.dumps(entry['default'])})"
        lines.append(f"{name}: {json.dumps(entry['value'])}{changed}")
        lines += textwrap.wrap(str(entry["means"]), 96, initial_indent="    ", subsequent_indent="    ")
    lines += [
        "",
        "`labconsole settings --keys` lists the key bindings; `labconsole schema settings` prints a schema "
        "for editors.",
    ]
    print_lines(*lines)
    return 0


def _typed(key: str) -> str:
    """A key as a keymap spells it, or its label on the keyboard if a keymap accepts that."""
    from labconsole.tui.parts.action import display_key

    word = display_key(key)
    return word if len(word) == 1 and word != "," and word.isascii() else key


def _key_lines(rows: list[dict[str, Any]]) -> list[str]:
    lines: list[str] = []
    place = None
    width = max(len(row["binding"]) for row in rows)
    for row in rows:
        if row["place"] != place:
            place = row["place"]
            lines += ["", place] if lines else [place]
        keys = ", ".join(_typed(key) for key in row["keys"])
        lines.append(f"  {row['binding']:<{width}}  {keys:<18}  {row['does'] or ''}")
    return lines
