"""A hosts.yaml that is made, and never written over."""

from __future__ import annotations

from pathlib import Path

from labconsole.errors import ConfigError


def write_new(path: Path, text: str, *, key: str | None = None) -> None:
    """All of the text, in a file that did not exist. Raises ConfigError, under the option ``key`` that named it."""

    def refused(why: str) -> ConfigError:
        return ConfigError(why, file=str(path)) if key is None else ConfigError(why, key=key, value=str(path))

    try:
        with path.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        raise refused("already exists, and is not overwritten; move it away, or choose another name") from None
    except (OSError, ValueError) as exc:
        raise refused(f"cannot be written: {getattr(exc, 'strerror', None) or exc}") from None
