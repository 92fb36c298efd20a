"""A hosts.yaml template: every key with its unit and an example."""

from __future__ import annotations

from pathlib import Path

from labconsole.engine.discovery.hosts_text import PLATFORMS

_BLANK = Path(__file__).with_name("blank.yaml")


def blank_hosts() -> str:
    """The template, with the platforms that every UUT can provide."""
    return _BLANK.read_text(encoding="utf-8").replace("# PLATFORMS\n", PLATFORMS)


def describe_next_steps(path: Path) -> list[str]:
    """The steps that follow once the file is written."""
    return [
        f"{path} is written. Fill in the blanks, then: labconsole check --hosts {path}",
        "Or discover the cables, into another file: labconsole discover uut=dut1 src1 snk1 --out FILE",
    ]
