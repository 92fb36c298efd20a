"""Packages that not everybody needs: what each is for, and what to type where one is missing."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Final, NamedTuple


class Extra(NamedTuple):
    """``packages``: by the module that is imported, as they are called where they are installed from."""

    packages: dict[str, str]
    purpose: str


EXTRAS: Final = {
    "report": Extra({"matplotlib": "matplotlib", "jinja2": "jinja2"}, "figure files and the page of reports"),
    "postgresql": Extra({"psycopg": "'psycopg[binary]'"}, "a run store on a server"),
    "parquet": Extra({"pyarrow": "pyarrow"}, "exports as Parquet"),
    "metrics": Extra({"prometheus_client": "prometheus-client"}, "metrics for Prometheus"),
}
"""By the name that pip takes."""


def missing(extra: str) -> list[str]:
    """The modules of it that are not installed."""
    return [module for module in EXTRAS[extra].packages if importlib.util.find_spec(module) is None]


def build_install_command(extra: str) -> str:
    """The command that installs it beside this labconsole, by whatever installed that."""
    packages = " ".join(EXTRAS[extra].packages.values())
    if (Path(sys.prefix) / "pipx_metadata.json").is_file():
        return f"pipx inject labconsole {packages}"
    if (Path(sys.prefix) / "uv-receipt.toml").is_file():
        return f"uv tool install 'labconsole[{extra}]'"
    return f"pip install 'labconsole[{extra}]'"
