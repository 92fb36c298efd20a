"""Traffic generators of other packages: a distribution with some, in a directory of its own on the search path."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from labconsole.nodes import archive
from support.plugged_in import forget

ABOUT = """\
from labconsole.model.generator import GeneratorInfo

GENERATOR = GeneratorInfo(name="{name}", summary="a toy", node="{package}.{name}_node")
"""
HONEST = """\
import socket

VERSION = "7"


def prepare(job):
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    opened.bind((job.interface, 0))
    return opened


def send(job, opened):
    while job.more():
        if not job.due():
            job.sleep()
            continue
        opened.send(job.frame())
        job.sent(1)
"""
"""Node code that does what it promises."""


@contextmanager
def plugged_generators(directory: Path, nodes: dict[str, str], package: str = "toys") -> Iterator[None]:
    """Meanwhile generators with this node code, name to source, are there as after ``pip install PACKAGE``."""
    info = directory / f"{package}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    points = "".join(f"{name} = {package}.{name}\n" for name in nodes)
    (info / "entry_points.txt").write_text(f"[labconsole.generators]\n{points}")
    (directory / package).mkdir()
    (directory / package / "__init__.py").touch()
    for name, source in nodes.items():
        (directory / package / f"{name}.py").write_text(ABOUT.format(name=name, package=package))
        (directory / package / f"{name}_node.py").write_text(source)
    sys.path.insert(0, str(directory))
    _forget()
    try:
        yield
    finally:
        sys.path.remove(str(directory))
        for name in [name for name in sys.modules if name.partition(".")[0] == package]:
            del sys.modules[name]
        _forget()


def _forget() -> None:
    forget()
    archive.payload.cache_clear()
