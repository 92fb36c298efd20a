"""What the manuals show can be done as it stands there: settings, plans and testbeds load, command lines parse."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labconsole.cli.main import build_parser
from labconsole.model.inventory import load_inventory
from labconsole.model.plan.file import PLAN_FILE
from labconsole.model.plan.loader import load_plan
from labconsole.model.yaml_file import load_yaml
from labconsole.tui.app import places
from labconsole.tui.console.settings import Settings, load_settings
from labconsole.tui.keymap import check_settings
from support.fake_session import INVENTORY

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NUMBERS = ("N", "S", "RATIO")
PLAN = {"plan": "example", "platforms": ["raw"], "frame_sizes": [64], "targets": ["10Mbit"], "duration_s": 1}


def fenced(page: Path, language: str) -> Iterator[tuple[int, str]]:
    """(line, text) of the blocks of a language."""
    for found in re.finditer(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        yield page.read_text()[: found.start()].count("\n") + 2, found[1]


def evaluations() -> dict[str, Any]:
    """Of ``make evaluation``, by name."""
    spec = importlib.util.spec_from_file_location("evaluation", ROOT / "tools" / "evaluation.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    found: dict[str, Any] = module.EVALUATIONS
    return found


@pytest.mark.parametrize("evaluation", evaluations().values(), ids=lambda each: each.document)
def test_the_commands_of_an_evaluation_name_every_plan_that_it_is_made_of(evaluation: Any) -> None:
    lines = list(shown_lines(evaluation.path))
    for command, name in (("labconsole replay", "{}"), ("labconsole report", "--plan {}")):
        said = " ".join(line for line in lines if line.startswith(command))
        for plan in evaluation.plans:
            assert name.format(f"plans/{plan}.yaml") in said


def test_the_commands_without_the_console_need_no_file_of_a_clone(tmp_path: Path) -> None:
    block = next(text for _, text in fenced(ROOT / "README.md", "sh") if "labconsole lab up" in text)
    assert "plans/" not in block and "'." not in block
    lines = "\n".join(line.partition("#")[0] for line in block.splitlines())
    names = set(re.findall(r"[\w./-]+\.yaml", lines))
    assert {Path(name).name for name in names} == {"hosts.yaml", "quick.yaml"}
    plan = tmp_path / "quick.yaml"
    plan.write_text(block.partition("cat > quick.yaml <<END\n")[2].partition("END\n")[0])
    assert (load_plan(plan).name, load_plan(plan).set_ups) == ("quick", 3)


YAML = [pytest.param(text, id=f"{page.name}:{line}") for page in PAGES for line, text in fenced(page, "ya?ml")]


@pytest.mark.parametrize("text", YAML)
def test_every_file_that_is_shown_can_be_read(text: str, tmp_path: Path) -> None:
    path = tmp_path / "example.yaml"
    path.write_text(text)
    content: dict[str, Any] = load_yaml(path)
    if "plan" in content:
        load_plan(path)
    elif content.keys() <= PLAN_FILE.model_fields.keys() and not isinstance(content.get("platforms"), dict):
        path.write_text(json.dumps({**PLAN, **content}))  # some of a plan's keys
        load_plan(path)
    elif content.keys() <= Settings.model_fields.keys():
        check_settings(load_settings(path), places)
    else:
        path.write_text(json.dumps({**INVENTORY, **content}))  # some of a testbed's keys
        load_inventory(path)


def shown_lines(page: Path) -> Iterator[str]:
    """The lines of all blocks of code, continued ones as one."""
    inside, lines = False, page.read_text().splitlines()
    code: list[str] = []
    for line in lines:
        if line.lstrip().startswith("```"):
            inside = not inside
        elif inside or line.startswith("    "):
            code.append(line.strip())
    yield from re.sub(r"\s*\\\n\s*|\n(?=\[)", " ", "\n".join(code)).splitlines()


def variants(line: str) -> Iterator[str]:
    """A command line without its optional parts, and with one alternative of one of them at a time."""
    groups = list(re.finditer(r"\[([^\][]*)\]", line))
    bare = re.sub(r"\[[^\][]*\]", "", line)
    rows = [bare, *(bare + " " + each for group in groups for each in group[1].split(" | "))]
    for row in rows:
        before, *others = re.split(r" \| (?=--)", row)
        for each in (before, *(f"{' '.join(before.split()[:2])} {other}" for other in others)):
            words = re.split(r"(?<=\S)\|(?=\S)", each)
            yield words[0]
            head, tail = words[0].rpartition(" ")[0], words[-1].partition(" ")[2]
            yield from (f"{head} {word.partition(' ')[0]} {tail}" for word in words[1:])


def commands(page: Path) -> Iterator[str]:
    for line in shown_lines(page):
        if re.match(r"(sudo |\$ )?labconsole( |$)", line):
            command = re.split(r"\s{2,}| # | \|\| | \| (?!-)(?![^\[]*\])|;", line)[0]
            yield from variants(command)


COMMANDS = [pytest.param(line, id=f"{page.name}: {line}") for page in PAGES for line in commands(page)]


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_line_that_is_shown_is_understood(line: str) -> None:
    words = shlex.split(line.removeprefix("sudo ").removeprefix("$ "))[1:]
    words = ["1" if word in NUMBERS else word.rstrip("…") for word in words if word not in ("…", "...")]
    if not words or words[0].startswith("-"):
        words = ["runs", *words]  # any command
    build_parser(words[0]).parse_args(words)


def test_the_manuals_show_something() -> None:
    assert len(YAML) >= 9 and len(COMMANDS) >= 60
