"""What this machine lacks is said, with what to type, and nothing that works is called missing."""

import json
import re
import sys
from importlib.metadata import metadata

import pytest

from labconsole.cli.main import main
from labconsole.errors import ConfigError
from labconsole.report.page import require_jinja
from labconsole.text import extras
from support.plugged_in import plugged_in


def looked(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, dict[str, str]]:
    main(["doctor", "--json", *words])
    return {each["subject"]: each for each in map(json.loads, capsys.readouterr().out.splitlines())}


def test_programs_that_are_missing_are_named_with_the_command_that_installs_them(monkeypatch, capsys):
    real = "labconsole.lab.prerequisites.tool"
    monkeypatch.setattr(real, lambda name: None if name in ("nft", "qemu-system-x86_64") else "/usr/bin/" + name)
    monkeypatch.setattr("labconsole.lab.prerequisites.namespaces_refused", lambda: None)
    found = looked(capsys)
    assert found["local lab"]["status"] == "lacking"
    assert found["local lab"]["evidence"] == "lacks nft"
    assert found["local lab"]["hint"].endswith("apt-get install -y nftables")
    assert found["platform qemu-e1000"]["hint"].endswith("apt-get install -y qemu-system-x86")
    assert found["platform uml"]["status"] == "ok"


def test_namespaces_that_are_refused_are_told_with_the_remedy(monkeypatch, capsys):
    monkeypatch.setattr("labconsole.lab.prerequisites.namespaces_refused", lambda: "without root the lab needs …")
    found = looked(capsys)
    assert (found["local lab"]["status"], found["local lab"]["hint"]) == ("lacking", "without root the lab needs …")


def test_a_store_that_cannot_be_read_is_a_failure(tmp_path, capsys):
    broken = tmp_path / "runs.sqlite"
    broken.write_text("no store")
    assert main(["doctor", "--store", str(broken)]) == 1
    assert "✗ run store" in capsys.readouterr().out


def test_optional_packages_are_told_by_the_name_that_pip_takes(monkeypatch, capsys):
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pyarrow" else real(name))
    found = looked(capsys)
    assert found["for parquet"]["hint"] == "pip install 'labconsole[parquet]'"
    assert found["for report"]["status"] == "ok"


@pytest.mark.parametrize(
    ("marked", "command"),
    [
        ("pipx_metadata.json", "pipx inject labconsole matplotlib jinja2"),
        ("uv-receipt.toml", "uv tool install 'labconsole[report]'"),
    ],
)
def test_who_installed_by_pipx_or_uv_reads_their_command(tmp_path, monkeypatch, marked, command):
    (tmp_path / marked).touch()
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert extras.build_install_command("report") == command
    with pytest.raises(ConfigError, match=re.escape(f"report.html needs jinja2: {command};")):
        require_jinja()


def test_the_extras_are_those_of_the_package():
    told = metadata("labconsole")
    for name, extra in extras.EXTRAS.items():
        wanted = {
            re.split(r"[>=;<]", each)[0].strip()
            for each in told.get_all("Requires-Dist") or []
            if f'extra == "{name}"' in each
        }
        assert wanted == {package.strip("'") for package in extra.packages.values()}


def test_a_plug_in_whose_name_is_ours_is_said_not_to_be_used(tmp_path, capsys):
    with plugged_in(tmp_path, "labconsole.drivers", {"raw": ""}):
        found = looked(capsys)["plug-in raw"]
    assert found["status"] == "failed"
    assert found["evidence"] == "that of package toys is not used: labconsole has one of this name"


def test_a_format_that_cannot_be_used_is_said_without_an_option_that_nobody_typed(tmp_path, capsys):
    with plugged_in(tmp_path, "labconsole.exporters", {"broken_one": "x = 1"}):
        found = looked(capsys)["plug-in broken_one"]
    assert (found["status"], found["evidence"]) == ("failed", "cannot be used: it lacks BINARY or parts")
