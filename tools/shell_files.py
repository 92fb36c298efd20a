"""Makes docs/shell/ anew: the man page and the completions that a wheel ships, from the parser.

python tools/shell_files.py
"""

from __future__ import annotations

from pathlib import Path

from argparse_manpage.manpage import Manpage

from labconsole.cli.commands.completion import completions
from labconsole.cli.main import build_parser

SHELL = Path(__file__).parents[1] / "docs" / "shell"


def shell_files() -> dict[str, str]:
    """Every file by its name."""
    return {
        "labconsole.1": man_page(),
        "bash/labconsole": completions(build_parser(), "bash"),
        "_labconsole": completions(build_parser(), "zsh"),
    }


def man_page() -> str:
    """Without a date and a version: it changes when a word of the help does."""
    about = {"manual_title": "User commands", "project_name": "labconsole", "date": "labconsole"}
    about["description"] = "measure how well a machine forwards packets when it is virtualized"
    return str(Manpage(build_parser(), about)).rstrip() + "\n"


if __name__ == "__main__":
    for name, text in shell_files().items():
        (SHELL / name).parent.mkdir(parents=True, exist_ok=True)
        (SHELL / name).write_text(text)
