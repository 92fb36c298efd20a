"""The blank hosts.yaml: complained of only where nothing was filled in, and it names every key that there is."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from labconsole.cli.main import main
from labconsole.errors import ConfigError
from labconsole.lab.spec import LabSpec
from labconsole.lab.state import LabFile, ProcessIdentity
from labconsole.model.inventory import Defaults, Inventory, Node, Stream, load_inventory

FILLED = {
    "testbed": "lab",
    "nodes.uut.address": "dut1",
    "nodes.src1.address": "10.0.0.1",
    "nodes.snk1.address": "10.0.0.2",
    "streams[0].source": "src1/eth1",
    "streams[0].uut_in": "eth1",
    "streams[0].uut_out": "eth2",
    "streams[0].sink": "snk1/eth1",
}
LEFT_OUT = {"injected"}
"""``injected``: a local lab writes it into its own hosts.yaml."""


@pytest.fixture
def blank(tmp_path: Path) -> Path:
    path = tmp_path / "hosts.yaml"
    assert main(["init", str(path)]) == 0
    return path


def test_only_blanks_are_complained_of_and_once_filled_in_it_is_a_testbed(blank):
    left = dict(FILLED)
    while left:
        with pytest.raises(ConfigError, match="is empty") as refused:
            load_inventory(blank)
        key, line = str(refused.value.key), refused.value.line
        assert line is not None
        lines = blank.read_text().splitlines()
        before, colon, after = lines[line - 1].partition(":")
        assert re.fullmatch(r" *(- )?[a-z_]+", before)
        assert not after.partition("#")[0].strip()  # a blank, and not something that was filled in
        lines[line - 1] = f"{before}{colon} {left.pop(key)}{after}"
        blank.write_text("\n".join(lines) + "\n")
    inventory = load_inventory(blank)
    assert inventory.uut == "uut"
    assert inventory.defaults == Defaults()
    assert inventory.platforms.keys() == {"raw", "raw-bridge", "container"}


def test_every_key_is_in_it_and_what_is_optional_shows_what_is_assumed(blank):
    text = blank.read_text()
    for model in (Inventory, Node, Stream, Defaults):
        for name, field in model.model_fields.items():
            found = re.search(rf"^ *(?:# |- )?{name}:(?: ([^\n#]*?))?(?: *#[^\n]*)?$", text, re.MULTILINE)
            assert (found is None) == (name in LEFT_OUT), name
            assumed = field.default
            if found is not None and model is Defaults and assumed is not None:
                said = str(assumed).lower() if isinstance(assumed, bool) else assumed
                assert found[1] == (f"{said:g}" if isinstance(said, float) else str(said)), name


def test_optional_lines_are_read_as_well_without_their_mark(blank):
    """But for a second guest's default stream, the jump host and a UUT's host, which are of testbeds that have them."""
    text = blank.read_text()
    for key, value in FILLED.items():
        name = key.rpartition(".")[2]
        text = re.sub(rf"^( *(?:- )?{name}:)(?= *(?:#[^\n]*)?$)", rf"\1 {value}", text, count=1, flags=re.MULTILINE)
    marked = re.compile(r"^( *)# ([a-z_]+: (?!labconsole)\S[^\n]*)$", re.MULTILINE)
    keys = {name for model in (Inventory, Node, Stream, Defaults) for name in model.model_fields}
    text = marked.sub(
        lambda each: (
            f"{each[1]}{each[2]}" if each[2].partition(":")[0] in keys - {"background_stream", "carries"} else each[0]
        ),
        text,
    )
    blank.write_text(text)
    read = load_inventory(blank)
    assert read.nodes["uut"].become == "sudo"
    assert read.nodes["src1"].generator_cpus == (2, 3)
    assert read.streams[0].link_speed_bps == 10**9


def test_a_file_that_exists_is_kept_and_what_to_do_next_is_said(blank, capsys, tmp_path, monkeypatch):
    before = blank.read_text()
    assert main(["init", str(blank)]) == 2
    assert "already exists, and is not overwritten" in capsys.readouterr().err
    assert blank.read_text() == before
    assert main(["init", str(tmp_path / "none" / "hosts.yaml")]) == 2
    assert "cannot be written: No such file or directory" in capsys.readouterr().err
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert main(["init"]) == 0
    out = capsys.readouterr().out
    assert "labconsole check --hosts hosts.yaml" in out
    assert "labconsole discover" in out


def test_without_a_file_those_of_labs_that_are_up_are_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert main(["check"]) == 2
    assert "hosts.yaml: no such file; use --hosts FILE, or run `labconsole discover`" in capsys.readouterr().err
    running = ProcessIdentity.of(os.getpid())
    ended = replace(running, start_ticks=running.start_ticks + 1)
    for name, supervisor in (("mine", running), ("gone", ended)):
        (tmp_path / "labconsole" / "labs" / name).mkdir(parents=True)
        lab = LabFile(LabSpec(name=name), 1, supervisor, supervisor, "o", "2026-01-01T00:00:00Z", "6.1")
        (tmp_path / "labconsole" / "labs" / name / "lab.json").write_text(json.dumps(lab.to_json()))
    assert main(["check"]) == 2
    said = capsys.readouterr().err
    assert f"use --hosts FILE ({tmp_path}/labconsole/labs/mine/hosts.yaml of the lab that is up)" in said
    assert "gone" not in said


def test_an_ssh_configuration_that_is_not_there_is_bad_usage_and_said_once(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["discover", "uut=dut1", "src1", "snk1", "--yes", "--ssh-config", "nothere"]) == 2
    assert capsys.readouterr().err == "labconsole: --ssh-config: no such file, got 'nothere'\n"
