"""A tagged commit is called as its tag says, and its changes stand under that version."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from labconsole.wire.version import __version__

ROOT = Path(__file__).resolve().parents[2]


def misnamed(tags: list[str], version: str, changes: str) -> list[str]:
    """What is wrong about the version of a commit with these tags."""
    wrong = [f"tag {tag}, and version {version}" for tag in tags if tag != f"v{version}"]
    released = ".dev" not in version
    if released and not re.search(rf"^## {re.escape(version)}\b", changes, re.MULTILINE):
        wrong.append(f"CHANGELOG.md has no heading {version}")
    return wrong


def test_this_commit_is_called_as_its_tag_says():
    asked = subprocess.run(["git", "tag", "--points-at", "HEAD", "v*"], cwd=ROOT, capture_output=True, text=True)
    assert misnamed(asked.stdout.split(), __version__, (ROOT / "CHANGELOG.md").read_text()) == []


def test_a_wrong_tag_and_a_release_without_changes_are_told():
    assert misnamed(["v0.2.0"], "0.2.0", "## 0.2.0, 2026-12-01\n") == []
    assert misnamed([], "0.2.0.dev0", "## Unreleased\n") == []
    assert misnamed(["v0.2.0"], "0.2.0.dev0", "## Unreleased\n") == ["tag v0.2.0, and version 0.2.0.dev0"]
    assert misnamed([], "0.2.0", "## Unreleased\n") == ["CHANGELOG.md has no heading 0.2.0"]
