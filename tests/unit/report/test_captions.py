"""Names of panels and bars: what all have in common is told once, in the figure's title."""

from __future__ import annotations

from labconsole.report.captions import split_shared_parts


def test_what_all_names_have_in_common_is_told_once_and_the_platform_stays():
    common, own = split_shared_parts(
        [("lxc", "for 5 s", "on u15", "limit 30Mbit, 40Mbit"), ("lxc", "for 6 s", "on u15", "limit 30Mbit")]
    )
    assert common == " (on u15)"
    assert own == ["lxc, for 5 s, limit 30Mbit, 40Mbit", "lxc, for 6 s, limit 30Mbit"]
    assert split_shared_parts([("lxc", "on u15")]) == ("", ["lxc, on u15"]) and split_shared_parts([]) == ("", [])
    assert split_shared_parts([("lxc",), ("uml",)]) == ("", ["lxc", "uml"])
