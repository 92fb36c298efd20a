"""A hosts.yaml of a local lab as it was built before is refused (operator's list 3: F1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from labconsole.api import testbed
from labconsole.api.testbed import refuse_former_lab
from labconsole.cli.commands.lab import _next_lines
from labconsole.errors import ConfigError, LabSetupError
from labconsole.lab import commands
from labconsole.model.inventory import Inventory, load_inventory

HOSTS = Path(__file__).parents[3] / "hosts.yaml"
DIGEST = "injected: 0123456789abcdef\n"


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that a lab of the clone's nodes wrote, which is up."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(commands, "find_lab", lambda addresses: "local")
    own = tmp_path / "labconsole" / "labs" / "local" / "hosts.yaml"
    own.parent.mkdir(parents=True)
    own.write_text(HOSTS.read_text())
    return own


def read(path: Path, text: str) -> Inventory:
    path.write_text(text)
    return load_inventory(path)


@pytest.mark.parametrize(
    ("own", "copied", "words"),
    [
        (DIGEST, "", "injected: the lab local that is up now loses packets on purpose, so"),
        ("", DIGEST, ":1: injected: the lab local that is up now loses no packets on purpose, so"),
        (DIGEST, DIGEST.replace("0", "f"), ":1: injected: .* loses packets on purpose, as another lab did, so"),
    ],
)
def test_loss_that_the_file_does_not_know_is_refused(lab: Path, tmp_path: Path, own: str, copied: str, words: str):
    text = HOSTS.read_text()
    lab.write_text(own + text)
    with pytest.raises(ConfigError, match=words) as caught:
        refuse_former_lab(read(tmp_path / "h.yaml", copied + text))
    assert str(caught.value).endswith(f"use or copy {lab}")


def test_the_same_lab_another_name_and_fewer_streams_are_no_other_lab(lab: Path, tmp_path: Path):
    text = HOSTS.read_text()
    refuse_former_lab(read(tmp_path / "h.yaml", text))
    fewer = text[: text.index("  - {name: s3")] + text[text.index("# What the UUT can be") :]
    refuse_former_lab(read(tmp_path / "h.yaml", fewer.replace("testbed: local", "testbed: mine")))
    lab.unlink()
    refuse_former_lab(read(tmp_path / "h.yaml", DIGEST + text))


def test_files_of_labs_that_cannot_be_read_refuse_nothing(lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """One was cut short when the disk was full, another was written by a version with other keys."""
    inventory = read(tmp_path / "h.yaml", DIGEST + HOSTS.read_text())
    lab.write_text("of_another_version: 1\n" + HOSTS.read_text())
    refuse_former_lab(inventory)
    monkeypatch.undo()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (lab.parent / "lab.json").write_text("{")
    with pytest.raises(LabSetupError, match=r"lab\.json is not valid"):
        commands.find_lab({"uut": "192.0.2.1"})
    refuse_former_lab(inventory)


def test_what_lies_here_as_hosts_yaml_does_not_make_a_lab_that_is_up_a_failure(tmp_path, monkeypatch):
    own = tmp_path / "lab" / "hosts.yaml"
    own.parent.mkdir()
    own.write_bytes(HOSTS.read_bytes())
    monkeypatch.chdir(tmp_path)
    command = f"next: labconsole check --hosts {own}"
    assert _next_lines(own) == [command, f"  or, for commands without --hosts: cp {own} ."]
    here = tmp_path / "hosts.yaml"
    here.mkdir()
    assert _next_lines(own) == [command]
    here.rmdir()
    here.write_text("# The lab local. Made by `labconsole lab up`, removed by `labconsole lab down`.\n" + DIGEST)
    assert _next_lines(own) == [command, "  hosts.yaml here is not of this lab"]
    here.write_text("testbed: mine\n")
    assert _next_lines(own) == [command]
    here.unlink()
    here.symlink_to(own)
    assert _next_lines(own) == ["next: labconsole check"]


@pytest.mark.asyncio
async def test_a_lab_that_is_rebuilt_while_a_console_is_open_is_refused_at_its_uut(
    lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    dialled: list[str] = []

    async def dial(name: str, *_: object) -> None:
        dialled.append(name)

    monkeypatch.setattr(testbed, "_imported_connect", lambda: dial)
    inventory = read(tmp_path / "h.yaml", HOSTS.read_text())
    await testbed.connect_unless_rebuilt("uut", inventory, lambda *_: None)
    lab.write_text(DIGEST + HOSTS.read_text())
    with pytest.raises(ConfigError, match="loses packets on purpose"):
        await testbed.connect_unless_rebuilt("uut", inventory, lambda *_: None)
    assert dialled == ["uut"]


def test_links_may_be_said_to_have_another_speed(lab: Path, tmp_path: Path):
    """A file that `discover` wrote has what the interfaces say."""
    refuse_former_lab(read(tmp_path / "h.yaml", HOSTS.read_text().replace("link_speed: 1Gbit", "link_speed: 10Gbit")))
