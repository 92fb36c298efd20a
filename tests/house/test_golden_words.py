"""What the program says, held to stored text: the help of every command, and all that needs no lab, as JSON and as text.

A change that is meant to change words renews them, and is looked through by ``git diff``:

    RENEW_GOLDEN_WORDS=1 python -m pytest tests/house/test_golden_words.py
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from labconsole.cli.main import main
from labconsole.wire.version import __version__

GOLDEN = Path(__file__).parents[1] / "golden"
RENEW = bool(os.environ.get("RENEW_GOLDEN_WORDS"))
SET = GOLDEN / "format-2"
STORE = ["--store", "{set}/runs.sqlite"]
TESTBED = ["--hosts", "{set}/hosts.yaml", *STORE]
PLANS = "{set}/plans"
BROKEN, OF_A_BLOCK, OF_A_LIST = "20261122T103156Z-dba0a4", "20261122T102854Z-e526b4", "20261122T102943Z-b8fb4c"
SEARCH = "20261122T102957Z-a66680"

SAID: dict[str, list[str]] = {
    "analyze": ["analyze", "{recordings}/first-500.pcap"],
    "calibrate-show": ["calibrate", "--show", *TESTBED],
    "lab-status": ["lab", "status"],
    "plan-advise": ["plan", "advise", f"{PLANS}/golden-blocks.yaml", *TESTBED],
    "replay-blocks": ["replay", f"{PLANS}/golden-half-blocks.yaml", "--dry-run", *TESTBED],
    "replay-matrix": ["replay", f"{PLANS}/golden-half-matrix.yaml", "--dry-run", *TESTBED],
    "replay-platforms": ["replay", f"{PLANS}/sanity.yaml", "--dry-run", "--platforms", "raw", *TESTBED],
    "replay-searches": ["replay", f"{PLANS}/golden-half-search.yaml", "--dry-run", *TESTBED],
    "run-container": ["run", "--platform", "container", "--background", "light", "--dry-run", *TESTBED],
    "run-raw-bridge": ["run", "--platform", "raw-bridge", "--sources", "2", "--dry-run", *TESTBED],
    "runs-import": ["runs", "import", "{set}/bundle.tar.gz", "--store", "{set}/new.sqlite"],
    "runs-list": ["runs", "list", "--limit", "3", *STORE],
    "runs-list-where": ["runs", "list", "--where", "verdict=invalid", *STORE],
    "runs-note": ["runs", "note", OF_A_BLOCK, *STORE],
    "runs-show": ["runs", "show", OF_A_LIST, *STORE],
    "search-list": ["search", "--list", *STORE],
    "search-show": ["search", "--show", SEARCH, *STORE],
    "settings": ["settings"],
    "settings-keys": ["settings", "--keys"],
    "verify": ["verify", *STORE],
}
"""Said twice: as text, and with --json."""

AS_TEXT: dict[str, list[str]] = {
    "report": ["report", "--plan", "golden-blocks", *STORE],
    "report-of-the-list": ["report", "plan=golden-list", *STORE],
    "runs-export-csv": ["runs", "export", "--format", "csv", *STORE],
    "runs-show-broken": ["runs", "show", BROKEN, *STORE],
    "verify-bundle-of-format-1": ["verify", "{golden}/format-1/bundle.tar.gz"],
    "verify-format-1": ["verify", "--store", "{golden}/format-1/runs.sqlite"],
    "version": ["--version"],
    "refused-bundle": ["verify", "{set}/hosts.yaml"],
    "refused-filter": ["report", "platform=none", *STORE],
    "refused-formats": ["report", "--formats", "docx", *STORE],
    "refused-frame-size": ["run", "--frame-size", "7", "--dry-run", *TESTBED],
    "refused-hosts": ["run", "--hosts", "{set}/none.yaml", *STORE],
    "refused-outcome": ["report", "verdict=valid", *STORE],
    "refused-plan": ["replay", "{set}/hosts.yaml", "--dry-run", *TESTBED],
    "refused-platform": ["run", "--platform", "kvm", "--dry-run", *TESTBED],
    "refused-points": ["replay", f"{PLANS}/sanity.yaml", "--points", "x", "--dry-run", *TESTBED],
    "refused-reference-map": ["report", "--reference-map", "a=b", *STORE],
    "refused-run": ["runs", "show", "20260101", *STORE],
    "refused-search": ["search", "--goals", "ndr", "--trial-duration", "0.1", *TESTBED],
    "refused-set-ups": ["replay", f"{PLANS}/sanity.yaml", "--set-ups", "2", "--dry-run", *TESTBED],
    "refused-store": ["runs", "list", "--store", "{set}/hosts.yaml"],
    "refused-target": ["run", "--target", "fast", "--dry-run", *TESTBED],
}
AS_JSON: dict[str, list[str]] = {
    "schema-hosts": ["schema", "hosts"],
    "schema-plan": ["schema", "plan"],
    "schema-settings": ["schema", "settings"],
}


@pytest.fixture(autouse=True)
def plain_surroundings(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 100 columns without colours, and nothing of the user's."""
    for name, value in {"COLUMNS": "100", "LINES": "40", "NO_COLOR": "1", "TERM": "dumb", "TZ": "UTC"}.items():
        monkeypatch.setenv(name, value)
    for name in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(own_home))
    monkeypatch.chdir(own_home)


def held(path: Path, text: str, *, laid_out: bool = True) -> None:
    """The text is what is stored, or is stored now. Not ``laid_out``: where its lines break does not matter."""
    if RENEW:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    stored = path.read_text(encoding="utf-8") if path.exists() else ""
    one, other = (text, stored) if laid_out else (text.split(), stored.split())
    assert one == other, f"{path.name}: see the first lines of {Path(__file__).name} if that is meant"


def help_of(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    assert ended.value.code == 0
    return capsys.readouterr().out


def commands_in(text: str) -> list[str]:
    """The commands that a help text lists: indented deeper than options and arguments, with what they are for."""
    return re.findall(r"^    ([a-z]+)(?: {2,}|$)", text.partition("\noptions:")[0], re.MULTILINE)


def test_every_command_is_helped_as_it_was(capsys):
    left: list[list[str]] = [[]]
    texts: dict[str, str] = {}
    while left:
        words = left.pop()
        text = help_of(words, capsys)
        texts["-".join(["labconsole", *words])] = text
        left += [[*words, name] for name in commands_in(text)]
    assert len(texts) == 36
    for name, text in texts.items():
        held(GOLDEN / "help" / f"{name}.txt", text, laid_out=False)  # versions of argparse indent differently
    assert {path.stem for path in (GOLDEN / "help").iterdir()} == set(texts)


def said(words: list[str], directory: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Exit status, stdout and stderr, without what this machine and this version are called."""
    for name in ("format-1", "format-2"):
        shutil.copytree(GOLDEN / name, directory / name)
    places = {
        "{set}": str(directory / "format-2"),
        "{golden}": str(directory),
        "{recordings}": str(GOLDEN.parent / "recordings" / "pktgen"),
    }
    for name, place in places.items():
        words = [word.replace(name, place) for word in words]
    try:
        status = main(words)
    except SystemExit as ended:
        status = int(ended.code or 0)
    out, err = capsys.readouterr()
    text = f"exit status {status}\n{out}" + (f"stderr:\n{err}" if err else "")
    for path, name in ((directory, "GOLDEN"), (GOLDEN.parent, "TESTS"), (Path.home(), "HOME")):
        text = text.replace(str(path), name)
    text = re.sub(r", [^,\n]+ ago", ", AGE ago", text)
    return re.sub(rf'(labconsole |"labconsole": "){re.escape(__version__)}\b', r"\1VERSION", text)


@pytest.mark.parametrize("name", [*SAID, *AS_TEXT])
def test_it_is_said_as_it_was(name, tmp_path, capsys):
    held(GOLDEN / "text" / f"{name}.txt", said({**SAID, **AS_TEXT}[name], tmp_path / "golden", capsys))


@pytest.mark.parametrize("name", [*SAID, *AS_JSON])
def test_it_is_said_as_it_was_to_machines(name, tmp_path, capsys):
    words = [*SAID[name], "--json"] if name in SAID else AS_JSON[name]
    held(GOLDEN / "json" / f"{name}.txt", said(words, tmp_path / "golden", capsys))


def test_nothing_is_stored_that_nobody_says():
    assert {path.stem for path in (GOLDEN / "text").iterdir()} == {*SAID, *AS_TEXT}
    assert {path.stem for path in (GOLDEN / "json").iterdir()} == {*SAID, *AS_JSON}
