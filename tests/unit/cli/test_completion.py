"""Options whose values are known complete them, in real shells; platforms are those of the hosts.yaml that is there."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from labconsole.cli.commands.completion import completions
from labconsole.cli.main import build_parser

HOSTS = """\
testbed: t
nodes:
  src1: {address: a}
platforms:
  raw: {driver: raw}   # the bare host
  my-guests:
    driver: lxc
streams: []
"""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where one types, with the scripts and a testbed."""
    found = tmp_path_factory.mktemp("here")
    for shell in ("bash", "zsh"):
        (found / shell).write_text(completions(build_parser(), shell))
    (found / "hosts.yaml").write_text(HOSTS)
    return found


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("run --platform ''", "raw my-guests"),
        ("replay --platforms my", "my-guests"),
        ("run --background forw", "forwarding-50 forwarding-95"),
        ("search --goals n", "ndr"),
        ("experiment boot --start c", "cold"),
        ("experiment job --working one-", "one-two"),
        ("report --formats s", "svg"),
        ("report --reference m", "mattos"),
        ("lab up --platforms k", "kvm"),
        ("runs export --format pa", "parquet"),
        ("run --observe q", "quiet"),
        ("trend --store host", "hosts.yaml"),
    ],
)
def test_bash_completes_the_values_of_an_option(directory: Path, line: str, expected: str) -> None:
    words = f"labconsole {line}".split()
    script = (
        f"cd {directory}; source ./bash; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; "
        f'_shtab_labconsole; echo "${{COMPREPLY[@]}}"'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == expected.split(), done.stderr


def test_zsh_names_the_platforms_of_the_testbed(directory: Path) -> None:
    script = "compadd() { shift; print -r -- $@ }; source ./zsh 2>/dev/null; _labconsole_platforms"
    done = subprocess.run(["zsh", "-fc", script], cwd=directory, capture_output=True, text=True)
    assert done.stdout.split()[-2:] == ["raw", "my-guests"], done.stdout + done.stderr


def test_a_directory_without_a_testbed_offers_no_platform_and_complains_of_nothing(directory: Path, tmp_path: Path):
    script = f"cd {tmp_path}; source {directory}/bash; _labconsole_platforms r"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("", "")
