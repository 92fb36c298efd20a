"""The operator's settings file, $XDG_CONFIG_HOME/labconsole/settings.yaml: looks, pace and keys of the console.

Everything in it has a default, and nothing in it changes measurements. ``keymap.check_settings`` checks the settings
that depend on the console's screens (themes, keys).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from labconsole.errors import ConfigError
from labconsole.model.yaml_file import find_line, key_text, load_yaml, register_keys, validate

LOCAL_FPS, REMOTE_FPS = 10.0, 5.0


class Settings(BaseModel):
    """What an operator may set. Every field's description is its documentation."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    theme: str = Field(
        default="labconsole-dark",
        description="Colours: labconsole-dark, labconsole-light, labconsole-high-contrast, ansi-dark, ansi-light (the "
        "terminal's own), or any of the palette's list. If not set: the theme chosen last.",
    )
    frames_per_second: float = Field(
        default=LOCAL_FPS,
        ge=0.5,
        le=30,
        description="Most frames per second on a local terminal.",
    )
    remote_frames_per_second: float = Field(
        default=REMOTE_FPS,
        ge=0.5,
        le=30,
        description="The same over SSH and in tmux, where every frame is sent over a connection.",
    )
    sort: Literal["place", "rx", "tx", "drops", "errors", "name"] = Field(
        default="place",
        description="Initial sort order of the bench's interfaces; place: as in hosts.yaml.",
    )
    sort_reversed: bool = Field(default=False, description="Reverse the initial sort order.")
    notify: Literal["auto", "bell", "off"] = Field(
        default="auto",
        description="Notify an operator who is not looking when a plan ends, a node is lost or an error occurs: auto "
        "(the bell and the terminal's notifications), bell, off.",
    )
    remember_set_up: bool = Field(default=True, description="Start with the set-up last run on the same testbed.")
    keymap: dict[str, str] = Field(
        default_factory=dict,
        description="Keys by action, such as `run: f9`, separated by commas. See `labconsole settings --keys`.",
    )
    _file: Path | None = PrivateAttr(default=None)
    _lines: Any = PrivateAttr(default=None)

    def complaint(
        self, location: tuple[str | int, ...], message: str, value: object = None, allowed: str | None = None
    ) -> ConfigError:
        """Build a ConfigError about one place of the file these settings were read from."""
        return ConfigError(
            message,
            file=str(self._file) if self._file else None,
            line=find_line(self._lines, location) if self._lines is not None else None,
            key=key_text(location),
            value=value,
            allowed=allowed,
        )


register_keys("Settings", None, Settings)


def _base(variable: str, *default: str) -> Path:
    given = Path(os.environ.get(variable, ""))
    # The XDG base directory specification: a relative path counts as unset.
    return (given if given.is_absolute() else Path.home().joinpath(*default)) / "labconsole"


def settings_path() -> Path:
    """Path of the settings file."""
    return _base("XDG_CONFIG_HOME", ".config") / "settings.yaml"


def memory_path() -> Path:
    """Path of the remembered set-ups: state, not settings, because operators do not edit it."""
    return _base("XDG_STATE_HOME", ".local", "state") / "set-ups.json"


def theme_path() -> Path:
    """Path of the remembered theme."""
    return _base("XDG_STATE_HOME", ".local", "state") / "theme"


def load_settings(path: Path | None = None) -> Settings:
    """Load the settings file, or defaults if there is none. Raises ConfigError with file, line, key and value."""
    path = path or settings_path()
    if not path.exists():
        return Settings()
    data = load_yaml(path)
    settings = validate(Settings, data, path)
    settings._file, settings._lines = path, data
    return settings
