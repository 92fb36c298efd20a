"""Kernels and packages that a lab boots come out of a cache that only its user can have written."""

from __future__ import annotations

from pathlib import Path

import pytest

from labconsole.errors import LabSetupError
from labconsole.lab.images import locked_cache, require_own


def test_a_cache_is_made_closed_to_others_and_used_again(tmp_path: Path) -> None:
    for _ in range(2):
        with locked_cache(tmp_path / "a" / "kernel"):
            pass
    assert (tmp_path / "a" / "kernel").stat().st_mode & 0o022 == 0


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777, 0o1777])
def test_a_cache_that_others_may_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    cache = tmp_path / "kernel"
    cache.mkdir()
    cache.chmod(mode)
    with pytest.raises(LabSetupError, match="chmod go-w"), locked_cache(cache):
        pass


def test_a_cache_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status = tmp_path.lstat()

    class Other:
        st_uid, st_mode = status.st_uid + 1, status.st_mode

    monkeypatch.setattr(Path, "lstat", lambda self: Other)
    monkeypatch.setattr("os.geteuid", lambda: status.st_uid)
    with pytest.raises(LabSetupError, match="a cache must be your own"):
        require_own(tmp_path)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(LabSetupError):
        require_own(tmp_path / "link")
