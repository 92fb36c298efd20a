"""Which part of a table's line a bundle's verification shows: the one that differs."""

import pytest

from labconsole.bundle.reproduction import _first_difference


@pytest.mark.parametrize("place", [3, 250, 4000])
def test_what_differs_in_a_long_line_is_shown(tmp_path, place):
    line = "x" * 5000
    packed, made = tmp_path / "a.csv", tmp_path / "b.csv"
    packed.write_text(f"head\n{line}\n")
    made.write_text(f"head\n{line[:place]}7{line[place + 1 :]}\n")
    told = _first_difference(packed, made)
    assert told.startswith("line 2")
    assert "7" in told.rpartition("the runs give")[2]
    assert ("from character" in told) is (place > 60)
