"""Optional packages: what each is for, and the command that installs a missing one."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Final, NamedTuple


class Extra(NamedTuple):
    """``packages``: distribution names by the module that is imported."""

    packages: dict[str, str]
    purpose: str


EXTRAS: Final = {
    "report": Extra({"matplotlib": "matplotlib", "jinja2": "jinja2"}, "figure files and the page of reports"),
    "postgresql": Extra({"psycopg": "'psycopg[binary]'"}, "a run store on a server"),
    "parquet": Extra({"pyarrow": "pyarrow"}, "exports as Parquet"),
    "metrics": Extra({"prometheus_client": "prometheus-client"}, "metrics for Prometheus"),
}
"""Extras by the name that pip takes."""


def missing(extra: str) -> list[str]:
    """List the modules of an extra that are not installed."""
    return [module for module in EXTRAS[extra].packages if importlib.util.find_spec(module) is None]


def build_install_command(extra: str) -> str:
    """Return the command that adds the extra to this labconsole, for the tool that installed it."""
    packages = " ".join(EXTRAS[extra].packages.values())
    if (Path(sys.prefix) / "pipx_metadata.json").is_file():
        return f"pipx inject labconsole {packages}"
    if (Path(sys.prefix) / "uv-receipt.toml").is_file():
        return f"uv tool install 'labconsole[{extra}]'"
    return f"pip install 'labconsole[{extra}]'"
