"""The plan: points, order, identity, and what is refused with which words."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from labconsole.engine.trial.setup import TrialSettings
from labconsole.errors import ConfigError, MissingOnTestbed, OtherTestbed
from labconsole.model.inventory import load_inventory
from labconsole.model.plan.estimate import TRIAL_OVERHEAD_S, estimate
from labconsole.model.plan.loader import MAX_TRIALS, check_plan, load_plan
from labconsole.model.plan.plan import Plan
from support.plan_files import BASE, INVENTORY

ROOT = Path(__file__).parents[3]


@pytest.fixture
def write(tmp_path):
    def _write(text: str) -> Path:
        path = tmp_path / "plan.yaml"
        path.write_text(text)
        return path

    return _write


@pytest.fixture
def plan(write) -> Plan:
    return load_plan(write(BASE))


def test_points_are_the_full_cross_product_with_the_target_fastest(plan):
    assert len(plan.points) == 2 * 1 * 2 * 2 * 3
    assert [p.index for p in plan.points] == list(range(24))
    seen = [(p.request.platform, p.request.sources, p.request.frame.bytes, p.request.target) for p in plan.points]
    assert seen[:4] == [
        ("raw", 1, 64, 10**7),
        ("raw", 1, 64, 10**9),
        ("raw", 1, 64, "max"),
        ("raw", 1, 1500, 10**7),
    ]
    assert seen[12][0] == "kvm"
    assert len(set(seen)) == 24


@pytest.mark.parametrize("order", ["blocked-random", "full-random", "as-listed"])
def test_every_order_measures_every_point_as_often_as_asked(write, order):
    plan = load_plan(write(BASE + f"order: {order}\n"))
    schedule = plan.schedule()
    assert sorted(schedule) == [(point, r) for point in range(24) for r in (1, 2, 3)]
    assert schedule == plan.schedule()


def test_blocked_random_switches_platforms_once_each_and_shuffles_every_pass(plan):
    schedule = plan.schedule()
    assert [plan.points[i].request.platform for i, _ in schedule] == ["raw"] * 36 + ["kvm"] * 36
    passes = [schedule[start : start + 12] for start in range(0, 72, 12)]
    assert all(len({r for _, r in one}) == 1 for one in passes)
    orders = {tuple(i % 12 for i, _ in one) for one in passes}
    assert len(orders) == 6
    assert tuple(range(12)) not in orders


def test_as_listed_goes_through_the_points_in_order(write):
    plan = load_plan(write(BASE + "order: as-listed\n"))
    assert plan.schedule()[:13] == [(i, 1) for i in range(12)] + [(0, 2)]


def test_full_random_mixes_platforms_and_repetitions(write):
    plan = load_plan(write(BASE + "order: full-random\n"))
    first = plan.schedule()[:24]
    assert len({plan.points[i].request.platform for i, _ in first}) == 2
    assert len({r for _, r in first}) == 3


def test_another_seed_gives_another_order(write):
    assert load_plan(write(BASE + "seed: 1\n")).schedule() != load_plan(write(BASE + "seed: 2\n")).schedule()


def test_the_order_for_a_seed_is_fixed_for_all_versions(plan):
    """Worked out once; a change here makes old records' seeds meaningless."""
    assert [i for i, _ in plan.schedule()[:12]] == FIRST_PASS


def test_the_order_does_not_depend_on_the_hash_seed_of_the_interpreter(plan, tmp_path):
    program = (
        "from pathlib import Path; from labconsole.model.plan.loader import load_plan;"
        f"p = load_plan(Path({str(tmp_path / 'plan.yaml')!r})); print(p.hash(), p.schedule())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert outputs == {f"{plan.hash()} {plan.schedule()}"}


@pytest.mark.parametrize("order", ["blocked-random", "full-random"])
def test_more_repetitions_keep_the_order_of_those_before(write, order):
    few = load_plan(write(BASE + f"order: {order}\n"))
    more = load_plan(write(BASE.replace("repetitions: 3", "repetitions: 9") + f"order: {order}\n"))
    assert more.hash() == few.hash()
    assert [trial for trial in more.schedule() if trial[1] <= 3] == few.schedule()


@pytest.mark.parametrize(
    "same",
    [
        BASE.replace("plan: dedicated", "plan: other"),
        "# a comment\n" + BASE + "\n\n",
        BASE.replace("10Mbit", "0.01Gbit"),
        BASE.replace("duration_s: 10", "duration_s: 10.0"),
        BASE + "backgrounds: [none]\n",
        BASE + "seed: 7\norder: full-random\n",
        BASE + "settle_s: 1\ndrain_s: 1\nmax_redo: 0\ntolerances: {offered_ratio: 0.1}\n",
        BASE + "generator: auto\nobserve: quiet\n",
        BASE + "drop_reasons: auto\npacket_times: on\n",
    ],
)
def test_the_hash_is_that_of_the_meaning(write, plan, same):
    assert load_plan(write(same)).hash() == plan.hash()


@pytest.mark.parametrize(
    "other",
    [
        BASE.replace("[raw, kvm]", "[kvm, raw]"),
        BASE.replace("[raw, kvm]", "[raw]"),
        BASE.replace("- 1500", "- 1000"),
        BASE.replace("10Mbit", "20Mbit"),
        BASE.replace("sources: [1, 2]", "sources: [1, 3]"),
        BASE.replace("duration_s: 10", "duration_s: 11"),
        BASE + "backgrounds: [idle]\n",
        BASE + "frame_size_includes_fcs: true\n",
        BASE + "generator: afpacket\n",
        BASE + "observe: live\n",
    ],
)
def test_what_changes_a_measurement_or_an_index_changes_the_hash(write, plan, other):
    assert load_plan(write(other)).hash() != plan.hash()


def test_the_testbeds_defaults_fill_what_the_file_leaves_out(write):
    plan = load_plan(write(BASE + "settle_s: 0\n"), INVENTORY)
    assert (plan.settle_s, plan.drain_s, plan.generator, plan.observe) == (0, 2, "pktgen", "live")
    assert {(p.request.generator, p.request.observe) for p in plan.points} == {("pktgen", "live")}
    assert plan.hash() != load_plan(write(BASE)).hash()


def test_what_kernels_are_asked_is_the_plans_where_it_says_so(write):
    defaults = INVENTORY.defaults.model_copy(update={"drop_reasons": "on", "packet_times": "on"})
    there = INVENTORY.model_copy(update={"defaults": defaults})

    def asked(inventory, text):
        found = TrialSettings.of(inventory, load_plan(write(BASE + text), inventory))
        return found.drop_reasons, found.packet_times

    assert asked(INVENTORY, "") == ("off", "off")
    assert asked(there, "") == ("on", "on")
    assert asked(there, "drop_reasons: auto\npacket_times: off\n") == ("auto", "off")
    assert asked(INVENTORY, "packet_times: xdp-generic\n") == ("off", "xdp-generic")
    with pytest.raises(ConfigError, match=r"plan.yaml:\d+: packet_times: .*'maybe'"):
        load_plan(write(BASE + "packet_times: maybe\n"))


def test_a_reference_names_the_place_of_a_run(plan):
    ref = plan.ref(5, 2)
    assert (ref.name, ref.hash, ref.point, ref.repetition, ref.seed) == ("dedicated", plan.hash(), 5, 2, 1)


def test_an_estimate_adds_traffic_waits_overhead_and_switches(plan):
    boots_s = {"kvm": 8.0}
    whole = estimate(plan, INVENTORY, boots_s)
    assert whole.per_trial_s == pytest.approx(10 + 2 + 5 + TRIAL_OVERHEAD_S)
    assert (whole.trials, whole.platform_switches) == (72, 2)
    assert whole.total_s == pytest.approx(72 * (17 + TRIAL_OVERHEAD_S) + 2 + 8)
    rest = estimate(plan, INVENTORY, boots_s, plan.schedule()[70:])
    assert (rest.trials, rest.platform_switches) == (2, 1)
    assert estimate(plan, INVENTORY, boots_s, []).total_s == 0


REFUSED = [
    (BASE + "colour: red\n", 10, "colour", "unknown key", "frame_sizes"),
    (BASE + "target: [max]\n", 10, "target", "unknown key (did you mean targets?)", "frame_sizes"),
    (BASE + "tolerances:\n  offered: 1\n", 11, "tolerances.offered", "unknown key", "offered_ratio"),
    (BASE.replace("duration_s: 10\n", ""), None, "duration_s", "is required", ""),
    (BASE.replace("10Mbit", "10"), 6, "targets[0]", "is not a valid target", "10Mbit"),
    (BASE.replace("10Mbit", "fast"), 6, "targets[0]", "is not a valid target", "or max"),
    (BASE.replace("10Mbit", "0Mbit"), 6, "targets[0]", "is not a valid target", "positive"),
    (BASE.replace("- 1500", "- 64"), 5, "frame_sizes[1]", "repeats frame_sizes[0]", "repetitions"),
    (BASE.replace("1Gbit", "0.01Gbit"), 6, "targets[1]", "repeats targets[0]", "'10Mbit'"),
    (BASE.replace("[raw, kvm]", "[raw, raw]"), 2, "platforms[1]", "repeats platforms[0]", "'raw'"),
    (BASE.replace("[raw, kvm]", "[]"), 2, "platforms", "has 0 entries", "1 or more"),
    (BASE.replace("[raw, kvm]", "raw"), 2, "platforms", "is not a list", "'raw'"),
    (BASE.replace("repetitions: 3", "repetitions: true"), 9, "repetitions", "integer", "True"),
    (BASE.replace("repetitions: 3", "repetitions: 0"), 9, "repetitions", "greater than or equal to 1", "0"),
    (BASE.replace("duration_s: 10", "duration_s: .inf"), 8, "duration_s", "", "inf"),
    (BASE.replace("duration_s: 10", "duration_s: -1"), 8, "duration_s", "greater than 0", "-1"),
    (BASE + "order: random\n", 10, "order", "not one of the allowed words", "blocked-random"),
    (BASE + "backgrounds: [none, busy]\n", 10, "backgrounds[1]", "not one of the known words", "forwarding-95"),
    (BASE + "generator: iperf\n", 10, "generator", "not one of the known words", "afpacket"),
]


@pytest.mark.parametrize(("text", "line", "key", "message", "detail"), REFUSED)
def test_a_wrong_file_is_refused_with_line_key_and_what_is_allowed(write, text, line, key, message, detail):
    path = write(text)
    with pytest.raises(ConfigError) as caught:
        load_plan(path)
    error = caught.value
    assert (error.file, error.line, error.key) == (str(path), line, key)
    assert message in str(error)
    assert detail in str(error)
    assert "\n" not in str(error)


def test_a_plan_of_absurd_size_is_refused_before_it_is_built(write):
    text = BASE.replace("repetitions: 3", "repetitions: 100000")
    with pytest.raises(ConfigError, match=f"too many trials, got 2400000; allowed: at most {MAX_TRIALS}"):
        load_plan(write(text))


AGAINST_TESTBED = [
    ("1Gbit", "2Gbit", 6, "targets[1]", "needs links of 2Gbit"),
    (
        "[raw, kvm]",
        "[raw, xen]",
        2,
        None,
        r"is for another testbed: it needs platform xen; this one \(hosts.yaml\) has platforms raw, kvm and 3 streams",
    ),
    ("[1, 2]", "[1, 4]", 7, "sources[1]", "is for another testbed: it needs 4 streams"),
    ("- 64", "- 59", 4, "frame_sizes[0]", "shorter than the shortest Ethernet frame"),
]


@pytest.mark.parametrize(("old", "new", "line", "key", "message"), AGAINST_TESTBED)
def test_what_a_testbed_cannot_do_is_refused_with_the_line(write, old, new, line, key, message):
    path = write(BASE.replace(old, new))
    load_plan(path)
    with pytest.raises(ConfigError, match=message) as caught:
        load_plan(path, INVENTORY)
    assert (caught.value.line, caught.value.key, caught.value.file) == (line, key, str(path))


def test_a_plan_for_another_testbed_is_not_a_broken_one(write):
    elsewhere = BASE.replace("[raw, kvm]", "[raw, xen, lxc]")
    with pytest.raises(OtherTestbed) as caught:
        load_plan(write(elsewhere), INVENTORY)
    assert caught.value.needs == ("platforms xen, lxc",)
    with pytest.raises(ConfigError) as broken:  # and one that is wrong otherwise, too, is that first
        load_plan(write(elsewhere.replace("- 64", "- 59")), INVENTORY)
    assert not isinstance(broken.value, OtherTestbed) and broken.value.key == "frame_sizes[0]"


def test_of_a_plan_only_the_platforms_that_are_asked_need_to_be_here(write):
    path = write(BASE.replace("[raw, kvm]", "[xen, raw, lxc]") + "set_ups: 2\n")
    whole, part = load_plan(path).resolved(INVENTORY), load_plan(path, INVENTORY, only=["raw"])
    assert part == whole and part.hash() == whole.hash() and part.schedule() == whole.schedule()
    with pytest.raises(OtherTestbed) as caught:
        load_plan(path, INVENTORY, only=["raw", "lxc"])
    assert caught.value.needs == ("platform lxc",)

    def refuse(request):
        if request.platform == "kvm":
            raise MissingOnTestbed("is not available", need="kvm with it", key="background", value="none", allowed="no")

    load_plan(write(BASE), INVENTORY, also=refuse, only=["raw"])
    with pytest.raises(OtherTestbed):
        load_plan(write(BASE), INVENTORY, also=refuse, only=["kvm"])


@pytest.mark.parametrize(
    ("old", "new", "need", "line"),
    [
        ("[1, 2]", "[1, 4]", "4 streams", 7),
        ("1Gbit", "2Gbit", "links of 2Gbit", 6),
    ],
)
def test_a_plan_that_asks_for_what_only_another_testbed_has_is_right(write, old, new, need, line):
    with pytest.raises(OtherTestbed, match=f"it needs {need}; this one .* of at most 1 Gbit/s") as caught:
        load_plan(write(BASE.replace(old, new)), INVENTORY)
    assert caught.value.needs == (need,) and caught.value.line == line


def test_a_load_that_a_platform_of_this_testbed_cannot_have_is_lacking_here(write):
    def refuse(request):
        raise MissingOnTestbed("is not available", need="xen with it", key="background", value="none", allowed="no")

    with pytest.raises(OtherTestbed) as caught:
        load_plan(write(BASE), INVENTORY, also=refuse)
    assert caught.value.needs == ("xen with it",)


def test_a_plan_without_a_file_is_checked_too(plan):
    assert check_plan(plan, INVENTORY).drain_s == 2


def test_the_sanity_plan_takes_less_than_two_minutes():
    plan = load_plan(ROOT / "plans" / "sanity.yaml")
    needed = INVENTORY.model_copy(update={"platforms": dict.fromkeys(plan.platforms, INVENTORY.platforms["raw"])})
    plan = check_plan(plan, needed)
    assert estimate(plan, needed, {}).total_s < 120
    assert Counter(p.request.background for p in plan.points) == {"none": 16}


FIRST_PASS = [10, 2, 11, 8, 5, 3, 6, 1, 0, 9, 7, 4]


MISTAKEN = """\
plan: quick
platfroms: [raw]
frame_sizes: [64, x]
targets: [50]
duration_s: -1
search: {goals: [ndr], foo: 1}
repetitons: 2
"""


def test_every_mistake_is_said_at_once_in_the_order_of_lines(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(MISTAKEN)
    with pytest.raises(ConfigError) as caught:
        load_plan(path)
    places = [sentence.removeprefix(f"{path}:").split(": ")[:2] for sentence in caught.value.sentences]
    assert places == [
        ["2", "platfroms"],
        ["3", "frame_sizes[1]"],
        ["4", "targets[0]"],
        ["5", "duration_s"],
        ["6", "search.foo"],
        ["7", "repetitons"],
    ]
    assert "did you mean platforms?" in caught.value.sentences[0]


def test_a_misspelt_key_within_a_list_is_said_once_and_hides_no_missing_key_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "h.yaml"
    text = (Path(__file__).parents[3] / "hosts.yaml").read_text()
    path.write_text(text.replace("uut_in: eth1", "uut_inn: eth1", 1).replace("\ntestbed: ", "\n# "))
    with pytest.raises(ConfigError) as caught:
        load_inventory(path)
    words = [sentence.removeprefix(str(path)).lstrip(":0123456789 ") for sentence in caught.value.sentences]
    assert [each.partition(";")[0] for each in words] == [
        "streams[0].uut_inn: unknown key (did you mean uut_in?)",
        "testbed: is required",
    ]
    path.write_text(text.replace("{name: s1,", "{testbet: s1,").replace("\ntestbed: ", "\n# "))
    with pytest.raises(ConfigError, match="testbet: unknown key") as caught:
        load_inventory(path)
    assert any("testbed: is required" in sentence for sentence in caught.value.sentences)


def test_so_many_mistakes_are_counted_and_not_all_shown(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("plan: q\n" + "".join(f"key{number}: 1\n" for number in range(30)))
    with pytest.raises(ConfigError) as caught:
        load_plan(path)
    assert len(caught.value.sentences) == 21
    assert caught.value.sentences[-1] == f"{path}: 10 more mistakes are not shown"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty; allowed: a mapping of keys to values"),
        (b"# a remark\n", "is empty; allowed: a mapping of keys to values"),
        ("plan: q\n".encode("utf-16"), "is UTF-16 text; save it as UTF-8"),
        ("plan: q\n".encode("utf-16-be"), "is UTF-16 text; save it as UTF-8"),
        ("plan: q\n".encode("utf-32"), "is UTF-32 text; save it as UTF-8"),
        (b"plan: q\nsd: \xe4\n", ":2: is not UTF-8 text: byte 0xe4; save it as UTF-8"),
        (b"a\0b: 1\n", ":1: is not UTF-8 text: byte 0x00; save it as UTF-8"),
        (b"testbed: t\nnodes: {}\n", "is a testbed file (hosts.yaml); expected: a plan"),
    ],
)
def test_a_file_that_is_no_plan_says_what_it_is(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "p.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_plan(path)
    assert str(caught.value).removeprefix(str(path)).removeprefix(": ") == sentence


def test_a_byte_order_mark_of_utf_8_is_none_of_the_first_key(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("\ufeffplan: q\nplatforms: [raw]\nframe_sizes: [64]\ntargets: [5Mbit]\nduration_s: 1\n")
    assert load_plan(path).name == "q"


def test_a_plan_in_the_place_of_a_testbed_file_is_called_a_plan(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("plan: q\n")
    with pytest.raises(ConfigError, match=r"is a plan; expected: a testbed file \(hosts.yaml\)"):
        load_inventory(path)
