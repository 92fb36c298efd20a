"""The documentation builds as a site without a warning, every page is reached from its front, and a broken link fails it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def build(source: Path, out: Path) -> subprocess.CompletedProcess[str]:
    words = "-m", "sphinx", "-q", "-W", "--keep-going", "-n", "-d", str(out / "doctrees"), "-c", str(source / "docs")
    return subprocess.run([sys.executable, *words, str(source), str(out / "site")], capture_output=True, text=True)


def test_every_page_is_in_the_navigation(tmp_path):
    made = build(ROOT, tmp_path)
    assert made.returncode == 0, made.stderr
    front = (tmp_path / "site/index.html").read_text()
    pages = [path.relative_to(ROOT).with_suffix(".html") for path in (ROOT / "docs").glob("*.md")]
    assert [str(page) for page in pages if f'href="{page}"' not in front] == []
    assert 'href="CHANGELOG.html"' in front
    assert [str(page) for page in pages if not (tmp_path / "site" / page).exists()] == []
    protocol = (tmp_path / "site/docs/agent-protocol.html").read_text()
    assert "printed:" not in protocol and "capture.drain" in protocol and "NodeFacts" in protocol


def test_a_link_that_leads_nowhere_is_told(tmp_path):
    (tmp_path / "source/docs").mkdir(parents=True)
    shutil.copy(ROOT / "docs/conf.py", tmp_path / "source/docs")
    (tmp_path / "source/README.md").write_text("# Here\n\n[there](docs/gone.md) and [a heading](#gone)\n")
    made = build(tmp_path / "source", tmp_path)
    assert made.returncode == 1
    assert "docs/gone.md" in made.stderr and "'gone'" in made.stderr
