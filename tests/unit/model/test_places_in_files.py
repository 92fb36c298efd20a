"""What is refused only when the testbed is known gets the place in the plan's file that asked for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from labconsole.errors import ConfigError
from labconsole.model.yaml_file import locate_errors


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("platforms", "{path}:2: platforms: cannot be, got 2"),
        ("guests", "{path}:4: flow.guests: cannot be, got 2"),
        ("flow.bin_s", "{path}:5: flow.bin_s: cannot be, got 2"),
        ("platforms.raw", "platforms.raw: cannot be, got 2"),
        ("nodes.uut", "nodes.uut: cannot be, got 2"),
        (None, "cannot be, got 2"),
    ],
)
def test_a_refusal_gets_the_line_of_its_key(key: str | None, told: str, tmp_path: Path):
    path = tmp_path / "plan.yaml"
    path.write_text("plan: p\nplatforms: [raw]\nflow:\n  guests: [2]\n  bin_s: 1\n")
    with pytest.raises(ConfigError) as refused, locate_errors(path):
        raise ConfigError("cannot be", key=key, value=2)
    assert str(refused.value) == told.format(path=path)


def test_what_names_its_file_keeps_it(tmp_path: Path):
    (tmp_path / "plan.yaml").write_text("plan: p\n")
    with pytest.raises(ConfigError, match=r"^hosts.yaml: plan: no$"), locate_errors(tmp_path / "plan.yaml"):
        raise ConfigError("no", file="hosts.yaml", key="plan")
