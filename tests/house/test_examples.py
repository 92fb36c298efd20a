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

from labconsole.cli.commands import lab
from labconsole.cli.main import build_parser, main
from labconsole.lab.files import hosts_yaml
from labconsole.lab.platforms import GuestFiles
from labconsole.lab.spec import lay_out
from labconsole.model.inventory import load_inventory
from labconsole.model.plan.file import PLAN_FILE
from labconsole.model.plan.loader import load_plan
from labconsole.model.record.verdict_codes import WEIGHT
from labconsole.model.yaml_file import load_yaml
from labconsole.tui.app import places
from labconsole.tui.console.settings import Settings, load_settings
from labconsole.tui.keymap import check_settings
from labconsole.wire.version import __version__
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
    if {"jobs", "forwarding"} & content.keys():
        return  # a pipeline for another program
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
    """The lines of all blocks of code, continued ones as one. Of a plan: those of the comments."""
    inside, lines = False, page.read_text().splitlines()
    if page.suffix == ".yaml":
        lines = [line.lstrip()[1:].replace("  ", "    ", 1) for line in lines if line.lstrip().startswith("#")]
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
    words = ["1" if word in NUMBERS else word.rstrip("…") for word in words if word not in ("…", "...", "$@")]
    if not words or words[0].startswith("-"):
        words = ["runs", *words]  # any command
    build_parser(words[0]).parse_args(words)


PLANS = sorted((ROOT / "plans").glob("*.yaml"))
OWN_TESTBED = ROOT / "docs" / "start" / "four-machines.md"
OF_A_LAB = re.compile(r"(HOSTS|FILE|\$hosts|~/\.local/state/labconsole/labs/\w+/hosts\.yaml)$")


def shown_replays(page: Path) -> Iterator[tuple[str, str]]:
    """The replays of plans of this repository, each with the last ``lab up`` before it, or an empty text."""
    lab_up = ""
    for line in shown_lines(page):
        found = re.search(r"labconsole (lab up|replay)\b(?! \[)(?:(?! {2})[^#|;&])*", line)
        if found is not None and found[1] == "lab up":
            lab_up = found[0]
        elif found is not None and "plans/" in found[0]:
            yield found[0].strip(), lab_up


def write_testbed(name: str | None, lab_up: str, plans: list[Path], directory: Path) -> Path:
    """The file of the testbed that a replay names: the clone's if none, a lab's, or that of machines of one's own.

    The latter is the one in the manual, with the other platforms that the plans name.
    """
    if name is None:
        return ROOT / "hosts.yaml"
    path = directory / "testbed.yaml"
    if OF_A_LAB.match(name) and lab_up:
        words = shlex.split(lab_up)[1:]
        spec = lab._spec(build_parser("lab").parse_args(words))
        path.write_text(
            hosts_yaml(spec, lay_out(spec, 0), "/lab/ssh_config", GuestFiles(Path("/kernel"), Path("/initrd")))
        )
        return path
    path.write_text(next(text for _, text in fenced(OWN_TESTBED, "yaml") if text.startswith("testbed: mylab")))
    content: dict[str, Any] = load_yaml(path)
    for plan in plans:
        named: list[str] = load_yaml(plan)["platforms"]
        content["platforms"] = {**{each: {"driver": "container"} for each in named}, **content["platforms"]}
    path.write_text(json.dumps(content))
    return path


REPLAYS = [
    pytest.param(line, lab_up, id=f"{page.name}: {line}")
    for page in (*PAGES, *PLANS)
    for line, lab_up in shown_replays(page)
]


@pytest.mark.parametrize(("line", "lab_up"), REPLAYS)
def test_every_replay_that_is_shown_suits_the_testbed_that_it_names(
    line: str, lab_up: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dry_run(line, lab_up, tmp_path) == 0
    assert capsys.readouterr().err == ""


def dry_run(line: str, lab_up: str, directory: Path) -> int:
    """Print what a replay would measure on the testbed that it names, as JSON; returns the exit status."""
    words = [re.sub(r"^(\$block|B)$", "1", word) for word in shlex.split(line)[1:] if word != "--dry-run"]
    plans = [ROOT / word for word in words if word.startswith("plans/")]
    name = words[words.index("--hosts") + 1] if "--hosts" in words else None
    hosts = write_testbed(name, lab_up, plans, directory)
    words = [str(ROOT / word) if word.startswith("plans/") else word for word in words if word not in ("--hosts", name)]
    store = directory / "runs.sqlite"
    return main([*words, "--hosts", str(hosts), "--store", str(store), "--dry-run", "--json"])


def test_the_readme_says_how_long_its_replay_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = ROOT / "README.md"
    line, lab_up = next(shown_replays(page))
    said = re.search(r"# (\d+) h (\d+) min$", page.read_text(), re.MULTILINE)
    assert said is not None
    assert dry_run(line, lab_up, tmp_path) == 0
    plan = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert abs(plan["total_s"] / 60 - (60 * int(said[1]) + int(said[2]))) < 5


def test_the_driver_that_is_shown_is_the_one_that_is_tested() -> None:
    shown = next(text for _, text in fenced(ROOT / "docs" / "how-to" / "write-a-driver.md", "python"))
    assert shown in (ROOT / "tests" / "outside" / "labconsole_outside" / "mirror.py").read_text()


def test_the_citation_and_the_readme_say_what_the_program_is() -> None:
    assert load_yaml(ROOT / "CITATION.cff")["version"] == __version__
    assert f"[{len(WEIGHT)} codes]" in (ROOT / "README.md").read_text()


def test_the_manuals_show_something() -> None:
    assert len(REPLAYS) >= 30
    assert len(YAML) >= 9 and len(COMMANDS) >= 60
