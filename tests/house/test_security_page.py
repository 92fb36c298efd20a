"""docs/security.md names tests that exist, and every module that makes a line for a shell."""

from __future__ import annotations

import re
from pathlib import Path

HOME = Path(__file__).parents[2]
PAGE = (HOME / "docs" / "security.md").read_text()
SOURCE = HOME / "labconsole"

MAKES_A_LINE = re.compile(r"\"sh\", \"-c\"|\"-c\", f\"|shlex\.join\(\[\*(?:CLIENT|\(\[)|def ssh_argv|_FED\b")
"""Where a shell is given a line, here or on a node; where words are only quoted to be shown, it is not."""


def test_the_tests_that_the_page_names_exist() -> None:
    named = re.findall(r"`(tests/[\w/.*]+\.py)(?:::(\w+))?`", PAGE)
    assert len(named) > 30
    for path, test in named:
        files = list(HOME.glob(path))
        assert files, f"docs/security.md: there is no {path}"
        assert not test or f"def {test}(" in files[0].read_text(), f"docs/security.md: there is no {path}::{test}"
    texts = {path.name: path.read_text() for path in (HOME / "tests").rglob("test_*.py")}
    by_file = [
        (file, test)
        for file, tests in re.findall(r"`(?:tests/[\w/]+/)?(test_\w+\.py)`: (?:also )?((?:`test_\w+`(?:, )?)+)", PAGE)
        for test in re.findall(r"\w+", tests)
    ]
    assert len(by_file) > 20
    for file, test in by_file:
        assert f"def {test}(" in texts.get(file, ""), f"docs/security.md: there is no {test} in {file}"


def test_every_module_that_makes_a_line_for_a_shell_is_on_the_page() -> None:
    begin = PAGE.index("## Lines for a shell")
    listed = PAGE[begin : PAGE.index("\n## ", begin + 1)]
    makers = {str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py") if MAKES_A_LINE.search(path.read_text())}
    missing = sorted(maker for maker in makers if f"`{maker}`" not in listed)
    assert not missing, f"docs/security.md, Lines for a shell, does not name {', '.join(missing)}"


def test_no_program_is_started_by_a_shell_of_its_own() -> None:
    """What would hide such a line from the test above."""
    hidden = re.compile(r"shell=True|os\.system\(|os\.popen\(|create_subprocess_shell|getoutput\(")
    found = sorted(str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py") if hidden.search(path.read_text()))
    assert not found
