"""What a comparison of two sets of runs says, over runs whose truth is known."""

import json
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labconsole.api.comparisons import open_side
from labconsole.cli.main import main
from labconsole.errors import ConfigError
from labconsole.store.importing import import_records
from labconsole.store.open import open_store
from support.report_runs import measured, set_ups_of

OLD, NEW = "0ld0ld0ld0ld0ld0", "4e44e44e44e44e4a"


def compared(tmp_path: Path, capsys: Any, records: Iterable[dict[str, Any]], *words: str) -> dict[str, Any]:
    place = tmp_path / "runs.sqlite"
    with open_store(str(place)) as store:
        import_records(store, map(of_its_own_set_up, records))
    assert main(["compare", "--store", str(place), "--json", *words]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def of_its_own_set_up(record: dict[str, Any]) -> dict[str, Any]:
    """Two plans have no set-up in common."""
    if record["set_up"] is not None:
        record["set_up"]["id"] += record["plan"]["hash"]
    return record


def side(values: Sequence[float], first: int, kernel: str, plan: str, **how: Any) -> list[dict[str, Any]]:
    """Set-ups of a saturated point: 100 Mbit/s are offered."""
    how = {"boot": f"boot-of-{plan}", "offered_mbps": 100.0} | how
    return [of_its_own_set_up(each) for each in set_ups_of(values, first, kernel=kernel, plan_hash=plan, **how)]


def around(mean: float, seed: int, set_ups: int = 8, sd: float = 0.004) -> list[float]:
    return list(mean * (1 + sd * np.random.default_rng(seed).standard_normal(set_ups)))


def old_and_new(old: Sequence[float], new: Sequence[float], **how: Any) -> list[dict[str, Any]]:
    return [*side(old, 0, "6.1", OLD, **how), *side(new, 100, "6.6", NEW, **how)]


def test_a_change_of_three_per_cent_between_two_kernels_is_found(tmp_path, capsys):
    found = compared(tmp_path, capsys, old_and_new(around(60, 1), around(58.2, 2)), "kernel=6.1", "kernel=6.6")
    (point,) = found["points"]
    assert point["word"] == "different"
    assert point["change_ratio"] == pytest.approx(-0.03, abs=0.006)
    assert point["change_ci_low_ratio"] < -0.03 < point["change_ci_high_ratio"]
    assert point["over"] == "set-ups"
    assert any("may be one of the boots" in sentence for sentence in found["sentences"])


def test_three_boots_a_side_are_what_is_compared(tmp_path, capsys):
    old, new = around(60, 3, 9), around(60, 4, 9)
    records = []
    for start, values, kernel, plan in ((0, old, "6.1", OLD), (100, new, "6.6", NEW)):
        for place, mbps in enumerate(values):
            records.append(
                measured(
                    start + place,
                    mbps,
                    block=place + 1,
                    kernel=kernel,
                    plan_hash=plan,
                    set_ups=9,
                    offered_mbps=100.0,
                    boot=f"{kernel}-{place // 3}",
                )
            )
    (point,) = compared(tmp_path, capsys, records, "kernel=6.1", "kernel=6.6", "--margin", "3%")["points"]
    assert (point["over"], point["before_boots"], point["after_boots"]) == ("boots", 3, 3)
    assert point["word"] == "equivalent"


@pytest.mark.parametrize(
    ("days", "reach"),
    [
        (((1, 3, 5), (2, 4, 6)), ""),
        (((1, 4, 5), (2, 3, 6)), ""),
        (((1, 2, 3), (4, 5, 6)), " between these boots"),
        (((4, 5, 6), (1, 2, 3)), " between these boots"),
        (((1, 2, 4), (3, 5, 6)), " between these boots"),
    ],
)
def test_boots_that_are_not_mixed_in_time_differ_by_the_time_too(tmp_path, capsys, days, reach):
    records = []
    for start, mean, kernel, plan, own in ((0, 60, "6.1", OLD, days[0]), (100, 50, "6.6", NEW, days[1])):
        for place, mbps in enumerate(around(mean, start, 9)):
            records.append(
                measured(
                    start + place,
                    mbps,
                    block=place + 1,
                    kernel=kernel,
                    plan_hash=plan,
                    set_ups=9,
                    offered_mbps=100.0,
                    boot=f"{kernel}-{place // 3}",
                    started=f"2026-11-{own[place // 3]:02}T0{place}:00:00",
                )
            )
    found = compared(tmp_path, capsys, records, "kernel=6.1", "kernel=6.6", "--margin", "3%")
    assert (found["points"][0]["over"], found["points"][0]["word"]) == ("boots", "different")
    assert found["sentences"][0].startswith(f"1 design point on both sides: 1 different (less){reach}.")
    assert any("not mixed in time" in each for each in found["sentences"]) is bool(reach)


def test_a_rate_that_was_merely_offered_is_no_ground_for_a_word(tmp_path, capsys):
    records = old_and_new([50.0] * 5, [50.0] * 5, offered_mbps=50.0)
    (point,) = compared(tmp_path, capsys, records, "kernel=6.1", "kernel=6.6")["points"]
    assert point["word"] == "no claim"
    assert point["why"] == "both sides forwarded all that they were offered"


def test_what_was_offered_less_than_the_other_side_forwards_is_no_change(tmp_path, capsys):
    records = [
        *side(around(60, 5), 0, "6.1", OLD),
        *side([55.0, 55.1, 54.9, 55.0, 55.2], 100, "6.6", NEW, offered_mbps=50.0),
    ]
    (point,) = compared(tmp_path, capsys, records, "kernel=6.1", "kernel=6.6")["points"]
    assert point["word"] == "no claim"
    assert point["why"] == ("one side forwarded all that it was offered, which is less than the other one forwarded")


def test_a_side_that_carries_the_whole_load_is_at_least_that_much_better(tmp_path, capsys):
    records = [*side(around(60, 6), 0, "6.1", OLD), *side([100.0] * 6, 100, "6.6", NEW)]
    (point,) = compared(tmp_path, capsys, records, "kernel=6.1", "kernel=6.6")["points"]
    assert point["word"] == "different"
    assert point["at_least"] is True


def test_platforms_of_the_same_blocks_are_compared_by_block(tmp_path, capsys):
    """What both share in a block, here a drift of 20 %, falls out."""
    drift = [1.0, 1.1, 0.9, 1.2, 1.05, 0.95]
    records = []
    for block, share in enumerate(drift, start=1):
        places = [("raw", 60.0), ("lxc", 54.0)]
        for position, (platform, mbps) in enumerate(places if block % 2 else places[::-1]):
            records.append(
                measured(
                    2 * block + position,
                    mbps * share * (1 + 0.001 * (-1) ** block * (platform == "lxc")),
                    block=block,
                    platform=platform,
                    point=position,
                    set_ups=6,
                    offered_mbps=100.0,
                )
            )
            records[-1]["plan"]["position"] = 2 * block + position
    found = compared(tmp_path, capsys, records, "platform=raw", "platform=lxc")
    (point,) = found["points"]
    assert found["factors"] == ["platform"]
    assert point["over"] == "blocks"
    assert point["change_ratio"] == pytest.approx(-0.1, abs=0.001)
    assert point["change_ci_high_ratio"] - point["change_ci_low_ratio"] < 0.01


def test_blocks_of_two_stores_are_not_taken_for_one(tmp_path, capsys):
    """The same plan on the same boot, a day apart: what lies between the two is no change of anything."""
    for name, mean in (("before", 60.0), ("after", 59.0)):
        with open_store(str(tmp_path / f"{name}.sqlite")) as store:
            records = side(around(mean, 7), 0 if name == "before" else 100, "6.1", OLD, boot="one")
            import_records(store, records)
    words = [str(tmp_path / f"{name}.sqlite") for name in ("before", "after")]
    assert main(["compare", "--json", *words]) == 0
    (point,) = json.loads(capsys.readouterr().out)["points"]
    assert point["over"] == "set-ups"


def test_runs_without_blocks_are_told_and_claim_nothing(tmp_path, capsys):
    records = [measured(n, 60.0 + n / 10, block=None, kernel="6.1", offered_mbps=100.0) for n in range(5)]
    records += [measured(n, 50.0 + n / 10, block=None, kernel="6.6", offered_mbps=100.0) for n in range(50, 55)]
    alone = [{**record, "plan": None, "set_up": None} for record in records]
    (point,) = compared(tmp_path, capsys, alone, "kernel=6.1", "kernel=6.6")["points"]
    assert point["word"] == "no claim"
    assert "without blocks" in point["why"]
    assert point["change_ratio"] is not None


def test_without_any_change_few_comparisons_find_one():
    """Of 300 comparisons of ten points each at most 8 % find any: 5 % are meant, plus what chance does to 300."""
    from labconsole.measure.statistics.effects import holm, unpaired_effect

    rng, false = np.random.default_rng(11), 0
    for _ in range(300):
        p = [unpaired_effect(*np.exp(0.01 * rng.standard_normal((2, 6))).tolist()).p for _ in range(10)]
        false += min(holm([each for each in p if each is not None])) <= 0.05
    assert false <= 24


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["platform=raw", "platform=raw"], "would be on both sides"),
        (["platform=raw", "platform=xen"], "no saved run"),
        (["loss>1%", "platform=raw"], "selects runs by outcome"),
        (["nowhere.yaml", "platform=raw"], "nowhere.yaml"),
        (["nowhere/runs.sqlite", "platform=raw"], "no such plan file, bundle or store"),
        (["platfrm=raw", "platform=raw"], "did you mean platform?"),
        (["platform=raw", "kernel=6.6", "--margin", "2"], "is not a valid margin"),
        (["platform=raw", "kernel=6.6", "--markdown"], "either --json or --markdown"),
    ],
)
def test_what_makes_no_sense_is_said(tmp_path, capsys, words, problem):
    place = tmp_path / "runs.sqlite"
    with open_store(str(place)) as store:
        import_records(store, side(around(60, 1), 0, "6.1", OLD))
    assert main(["compare", "--store", str(place), "--json", *words]) == 2
    told = capsys.readouterr()
    assert problem in told.err
    assert "Traceback" not in told.err
    assert told.out == ""


def test_people_and_pull_requests_read_the_same(tmp_path, capsys):
    place = tmp_path / "runs.sqlite"
    with open_store(str(place)) as store:
        import_records(store, old_and_new(around(60, 1), around(58.2, 2)))
    assert main(["compare", "--store", str(place), "kernel=6.1", "kernel=6.6"]) == 0
    shown = capsys.readouterr().out
    assert "1 design point on both sides: 1 different (less) between these set-ups." in shown
    assert main(["compare", "--store", str(place), "--markdown", "kernel=6.1", "kernel=6.6"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "- 1 design point on both sides: 1 different (less) between these set-ups."
    assert any(line.startswith("| raw, 1000 B") for line in lines)


def test_boots_that_both_sides_share_are_no_ground_for_a_word(tmp_path, capsys):
    """Set-ups nested in boots of which one is on both sides: neither set-ups nor boots are replicates."""
    records = []
    for start, kernel, plan, boots in ((0, "6.1", OLD, "abc"), (100, "6.6", NEW, "cde")):
        for place, mbps in enumerate(around(60, start + 1, 9)):
            records.append(
                measured(
                    start + place,
                    mbps,
                    block=place + 1,
                    kernel=kernel,
                    plan_hash=plan,
                    set_ups=9,
                    offered_mbps=100.0,
                    boot=boots[place // 3],
                )
            )
    (point,) = compared(tmp_path, capsys, records, "kernel=6.1", "kernel=6.6")["points"]
    assert (point["word"], point["why"]) == (
        "no claim",
        "some boots of the machine are on both sides, and the others may differ",
    )


def test_both_sides_without_loss_are_said_to_be_so_however_few_they_are(tmp_path, capsys):
    records = old_and_new([50.0], [50.0], offered_mbps=50.0)
    (point,) = compared(tmp_path, capsys, records, "kernel=6.1", "kernel=6.6")["points"]
    assert point["why"] == "both sides forwarded all that they were offered"


def test_only_what_differs_within_a_point_is_said_to_be_averaged(tmp_path, capsys):
    """Other kernels of other platforms are no difference: no mean holds both."""
    for name, first, kernels in (("before", 0, ("6.1", "6.6")), ("after", 200, ("6.1", "6.1"))):
        with open_store(str(tmp_path / f"{name}.sqlite")) as store:
            import_records(store, side(around(60, 1), first, "6.1", OLD))
            import_records(store, side(around(50, 2, 4), first + 100, kernels[0], NEW, platform="container"))
            import_records(store, side(around(50, 3, 4), first + 150, kernels[1], NEW + "c", platform="container"))
    words = [str(tmp_path / f"{name}.sqlite") for name in ("before", "after")]
    assert main(["compare", "--json", *words]) == 0
    told = json.loads(capsys.readouterr().out)["sentences"]
    averaged = [sentence for sentence in told if "averaged although" in sentence]
    assert averaged == ["Runs before are averaged although they differ: kernel 6.1, 6.6."]
    with open_store(str(tmp_path / "mixed.sqlite")) as store:
        import_records(store, side(around(60, 1), 500, "6.1", OLD))
        import_records(store, side(around(50, 2), 600, "6.6", NEW, platform="container"))
    assert main(["compare", "--json", str(tmp_path / "mixed.sqlite"), words[1]]) == 0
    told = json.loads(capsys.readouterr().out)["sentences"]
    assert not [sentence for sentence in told if "averaged although" in sentence]


def test_what_is_not_offered_is_not_recommended(tmp_path, capsys):
    place = tmp_path / "runs.sqlite"
    with open_store(str(place)) as store:
        import_records(store, side(around(60, 1), 0, "6.1", OLD))
    assert main(["compare", "--store", str(place), "loss>1%", "platform=raw"]) == 2
    assert "--select-by-outcome" not in capsys.readouterr().err


def test_settings_of_nodes_that_both_sides_know_are_named_and_unknown_ones_are_not(tmp_path, capsys):
    records = old_and_new(around(60, 1), around(58.2, 2))
    for record in records:
        new = record["plan"]["hash"] == NEW
        nodes = {name: dict(said) for name, said in record["environment"]["nodes"].items()}
        nodes["uut"]["settings"] = {
            "net.core.netdev_max_backlog": "2000" if new else "1000",
            "eth1 qdiscs": "tbf rate 5" if new else "noqueue",
            "net.bridge.bridge-nf-call-iptables": "1" if new else None,
            "eth1 mtu": 1500,
            **({"net.core.later": "7"} if new else {}),
        }
        if new:
            nodes["snk1"]["settings"] = {"eth1 mtu": 9000}  # of the other side it is not known
        record["environment"] = {**record["environment"], "nodes": nodes}
    found = compared(tmp_path, capsys, records, "kernel=6.1", "kernel=6.6")
    told = {each["what"]: (each["where"], each["before"], each["after"]) for each in found["differences"]}
    assert told["net.core.netdev_max_backlog"] == ("Node uut", "1000", "2000")
    assert told["eth1 qdiscs"] == ("Node uut", "noqueue", "tbf rate 5")
    assert told["net.bridge.bridge-nf-call-iptables"] == ("Node uut", "module not loaded", "1")
    assert not {"net.core.later", "eth1 mtu", "settings"} & set(told)
    out = tmp_path / "out"
    assert main(["report", "--store", str(tmp_path / "runs.sqlite"), "--out", str(out), "--formats", "html"]) == 0
    page = (out / "report.html").read_text()
    assert "net.core.netdev_max_backlog" in page and "earlier: 1000" in page


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (["1000"] * 8, ["1000"] * 8, None),
        (["2000"] * 4 + ["1000"] * 4, ["1000"] * 8, ("varies: 1000, 2000", "1000")),
        (["1000"] * 8, ["1000"] * 7 + ["2000"], ("1000", "varies: 1000, 2000")),
        (["1000", "2000"] * 4, ["2000", "1000"] * 4, None),  # alike on both sides
        ([None] * 4 + ["2000"] * 4, ["1000"] * 8, ("2000", "1000")),
        (["2000"] * 7 + [None], ["1000"] * 8, None),  # how it was in the end is not known
        (["2000"] * 7 + [{}], ["1000"] * 8, None),
        (["1000"] * 8, ["2000"] * 7 + [None], None),
    ],
)
def test_a_setting_that_varies_within_a_side_is_told_and_one_that_is_no_longer_known_is_not(
    tmp_path, capsys, old, new, told
):
    records = old_and_new(around(60, 1), around(58.2, 2))
    assert [record["plan"]["hash"] for record in records] == [OLD] * 8 + [NEW] * 8
    for record, value in zip(records, [*old, *new], strict=True):
        nodes = {name: dict(said) for name, said in record["environment"]["nodes"].items()}
        if value is not None:
            nodes["uut"]["settings"] = {} if value == {} else {"net.core.netdev_max_backlog": value}
        record["environment"] = {**record["environment"], "nodes": nodes}
    found = compared(tmp_path, capsys, records, "kernel=6.1", "kernel=6.6")
    pairs = [(each["before"], each["after"]) for each in found["differences"] if "backlog" in each["what"]]
    assert pairs == ([] if told is None else [told])


def test_a_plan_that_is_named_without_saying_so_is_refused_with_what_to_write(tmp_path, capsys):
    with open_store(str(tmp_path / "s.sqlite")):
        pass
    assert main(["compare", "--store", str(tmp_path / "s.sqlite"), "nightly@main kernel=6.1", "nightly@c1"]) == 2
    assert "write plan=nightly@main, got 'nightly@main kernel=6.1'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ('plan="my plan"', 'plan="my plan" platform=raw'),
        ('generator~"a b"', 'hypervisor="QEMU 8.2 (kvm)"'),
        ('platform="a b c=d"', "plan=old"),
    ],
)
def test_a_side_whose_values_hold_blanks_is_a_filter_like_any_other(tmp_path, words):
    with open_store(str(tmp_path / "s.sqlite")), ExitStack() as opened:
        assert [open_side(opened, word, str(tmp_path / "s.sqlite"), ()).words for word in words] == list(words)


def test_a_quoted_word_that_names_no_field_is_refused_as_it_was_typed(tmp_path):
    with ExitStack() as opened, pytest.raises(ConfigError, match='write plan="My plan", got'):
        open_side(opened, 'kernel=6.1 "My plan"', str(tmp_path / "s.sqlite"), ())


def test_points_that_differ_in_duration_alone_have_it_in_their_names(tmp_path, capsys):
    def taken(platform: str, first: int) -> list[dict[str, Any]]:
        both = ((1.0, first, first, OLD), (5.0, first + 100, first, NEW))
        return [
            each
            for seconds, number, point, plan in both
            for each in set_ups_of(
                around(60, number), number, platform=platform, duration_s=seconds, point=point, plan_hash=plan
            )
        ]

    records = [*taken("raw", 0), *taken("container", 1000)]
    place = tmp_path / "runs.sqlite"
    with open_store(str(place)) as store:
        import_records(store, map(of_its_own_set_up, records))
    assert main(["compare", "--store", str(place), "--markdown", "platform=raw", "platform=container"]) == 0
    rows = [line.split(" | ")[0] for line in capsys.readouterr().out.splitlines() if line.startswith("| raw")]
    words = "1000 B, 1 × 100 Mbit/s"
    assert rows == [f"| raw, {words}, {seconds} s → container, {words}, {seconds} s" for seconds in (1, 5)]
