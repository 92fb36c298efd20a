"""The documentation as a site, by Sphinx, out of the pages as they are: ``make site``.

Its navigation is the list of documents in README.md, so that a page has one place where it is announced. The tables of
docs/agent-protocol.md are printed from the classes of the messages.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from sphinx.application import Sphinx

project = "labconsole"
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = ["README.md", "CHANGELOG.md", "docs/**.md"]
exclude_patterns = [".*", "build", "dist", "labconsole", "labconsole.egg-info", "plans", "screenshots", "tests"]
myst_heading_anchors = 6
html_theme = "furo"
html_title = "labconsole"
html_copy_source = False
html_show_copyright = False

GROUP = re.compile(r"^(\w[\w ]*): +(\[[^]]+\]\(docs/[^)]+\)[^\n]*(?:\n[^\n]+)*)$", re.MULTILINE)
PAGE = re.compile(r"\[([^]]+)\]\(([^)#]+)\.md\)")


def navigation(app: Sphinx, page: str, source: list[str]) -> None:
    """The list of documents of README.md as tables of contents, next to the page; and what else a page gets."""
    if page == "README":
        source[0] = GROUP.sub(_contents, source[0])
    elif page == "docs/agent-protocol":
        source[0] = _with_tables(app.srcdir, source[0])
    elif page == "CHANGELOG":
        source[0] += "\n```{toctree}\n:hidden:\n\ndocs/develop/history\n```\n"
    elif page == "docs/decisions/README":
        source[0] += "\n```{toctree}\n:hidden:\n:glob:\n\n0*\n```\n"


def _with_tables(root: Path, text: str) -> str:
    sys.path[:0] = [str(root), str(root / "tools")]
    from message_tables import fill_in

    return fill_in(text)


def _contents(group: re.Match[str]) -> str:
    pages = "\n".join(f"{title} <{place}>" for title, place in PAGE.findall(group[2]))
    return f"```{{toctree}}\n:caption: {group[1]}\n:maxdepth: 1\n\n{pages}\n```"


def front_page(app: Sphinx, exception: Exception | None) -> None:
    """Servers and browsers look for index.html."""
    made = Path(app.outdir, f"{root_doc}.html")
    if exception is None and made.exists():
        shutil.copy(made, made.with_name("index.html"))


def setup(app: Sphinx) -> None:
    """Sphinx asks for this."""
    app.connect("source-read", navigation)
    app.connect("build-finished", front_page)
