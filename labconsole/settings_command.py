"""``labconsole settings``: where the console's settings file is, what it says now, what it can say."""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from typing import Any

from labconsole.tui.settings import Settings, load_settings, settings_path


def settings(args: argparse.Namespace) -> int:
    """Raises ConfigError when the file is wrong: this is also how one checks it."""
    from labconsole.tui.app import ConsoleApp
    from labconsole.tui.keymap import check_settings, effective, places

    found = load_settings()
    check_settings(found, ConsoleApp)
    rows = [
        {"place": place, "binding": binding.id, "keys": effective(binding, found.keymap), "does": binding.tooltip}
        for place, bindings in places(ConsoleApp).items()
        for binding in bindings
        if binding.id
    ]
    if args.keys:
        write = _print_json if args.json else _print_keys
        write(rows)
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
        _print_json([{"file": str(path), "exists": path.exists(), "settings": fields}])
        return 0
    state = "read" if path.exists() else "not there: everything is at its default"
    lines = [f"{path} ({state})", ""]
    for name, entry in fields.items():
        changed = "" if entry["value"] == entry["default"] else f"   (default: {json.dumps(entry['default'])})"
        lines.append(f"{name}: {json.dumps(entry['value'])}{changed}")
        lines += textwrap.wrap(str(entry["means"]), 96, initial_indent="    ", subsequent_indent="    ")
    lines += ["", "labconsole settings --keys lists the bindings; labconsole schema settings is for editors."]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def _print_json(rows: list[dict[str, Any]]) -> None:
    sys.stdout.writelines(json.dumps(row) + "\n" for row in rows)


def _print_keys(rows: list[dict[str, Any]]) -> None:
    place = None
    width = max(len(row["binding"]) for row in rows)
    for row in rows:
        if row["place"] != place:
            place = row["place"]
            sys.stdout.write(("" if row is rows[0] else "\n") + f"{place}\n")
        keys = ", ".join(row["keys"])
        sys.stdout.write(f"  {row['binding']:<{width}}  {keys:<18}  {row['does'] or ''}\n")
