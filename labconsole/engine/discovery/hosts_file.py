"""Writing a new hosts.yaml, without ever overwriting a file."""

from __future__ import annotations

from pathlib import Path

from labconsole.errors import ConfigError


def write_new(path: Path, text: str, *, key: str | None = None) -> None:
    """Write all of the text to a new file. Raises ConfigError, naming the option ``key`` or the file."""

    def refused(why: str) -> ConfigError:
        return ConfigError(why, file=str(path)) if key is None else ConfigError(why, key=key, value=str(path))

    try:
        with path.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        raise refused("already exists, and is not overwritten; move it away, or choose another name") from None
    except (OSError, ValueError) as exc:
        raise refused(f"cannot be written: {getattr(exc, 'strerror', None) or exc}") from None
