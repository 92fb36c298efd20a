"""What the options of a replay leave of plans of work in guests."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

from labconsole.cli.commands.replay.plan_selection import limit_blocks, parse_points
from labconsole.cli.main import main
from labconsole.errors import ConfigError
from labconsole.experiments.flow.steps import Flows
from labconsole.experiments.job.steps import Jobs
from labconsole.model.plan.loader import load_plan
from labconsole.model.plan.plan import Plan
from support.fake_session import make_inventory

HOSTS = Path(__file__).parents[2] / "golden" / "format-1" / "hosts.yaml"
HEAD = "plan: guests\nplatforms: [raw]\nset_ups: 3\n"
KINDS = {
    "jobs": "job: {jobs: [{job: wait, size: 7}], guests: [3], working: [all], cpu: [same]}\n",
    "starts": "boot: {guests: [1, 2]}\n",
}


def plan_of(tmp_path: Path, kind: str) -> Plan:
    path = tmp_path / "plan.yaml"
    path.write_text(HEAD + KINDS[kind])
    return load_plan(path, make_inventory())


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_first_blocks_are_taken(tmp_path: Path, kind: str):
    plan = plan_of(tmp_path, kind)
    assert plan.guests is not None
    left = limit_blocks(plan, Namespace(set_ups=1)).guests
    assert left is not None
    assert {trial.block for trial in left.trials} == {1}
    assert len(left.trials) * 3 == len(plan.guests.trials)
    assert set(left.hashes) < set(plan.guests.hashes)


@pytest.mark.parametrize("kind", KINDS)
def test_more_blocks_than_there_are_and_points_are_refused(tmp_path: Path, kind: str):
    plan = plan_of(tmp_path, kind)
    with pytest.raises(ConfigError, match="has no such number of blocks"):
        limit_blocks(plan, Namespace(set_ups=4))
    with pytest.raises(ConfigError, match="--platforms"):
        parse_points(plan, Namespace(points="0", platforms=None, plan=[Path("plan.yaml")]))


@pytest.mark.parametrize("kind", KINDS)
def test_platforms_that_are_chosen_are_measured_where_the_others_are_not(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """A plan of platforms that no one testbed has is measured in parts."""

    def told(*words: str) -> tuple[int, str, str]:
        (path := tmp_path / "plan.yaml").write_text(HEAD.replace("[raw]", "[xen, container, esxi]") + KINDS[kind])
        where = ("--hosts", str(HOSTS), "--store", str(tmp_path / "none.sqlite"), "--dry-run")
        return (main(["replay", str(path), *where, *words]), *capsys.readouterr())

    status, out, _ = told("--platforms", "container")
    assert status == 0 and "container" in out and "xen" not in out and "esxi" not in out
    for words, complaint in (
        ((), "is for another testbed: it needs platforms xen, esxi"),
        (("--platforms", "container,xen"), "is for another testbed: it needs platform xen"),
        (
            ("--platforms", "conatiner"),
            "is not a platform of this plan, got 'conatiner'; allowed: xen, container, esxi",
        ),
    ):
        status, _, err = told(*words)
        assert status == 2 and complaint in err, err


GUESTS = """\
  vps: {driver: openvz, guest: "100", guests: ["101", "102"]}
  esxi: {driver: esxi, guest: fw, guests: [a, b], guest_shell: [ssh, "{guest}"]}
  box: {driver: virtualbox, guest: fw, guests: [a, b], guest_shell: [ssh, "{guest}"]}
  xen: {driver: xl, guest: fw, guests: [a, b], guest_nic: 1, guest_inbound_nic: 2, bridges: made,
        guest_shell: [ssh, "{guest}"]}
  of-libvirt: {driver: libvirt, uri: "lxc:///system", guest: fw, guests: [a, b], guest_nic: 1, guest_inbound_nic: 2,
               bridges: made}
  lxc: {driver: lxc, guest: fw, guests: [a, b], guest_nic: 1, guest_inbound_nic: 2, bridges: made}
"""
"""Guests that are installed."""

OF_CPUS = {
    "job": "job: {jobs: [{job: wait, size: 7}], guests: [2], working: [all], cpu: [any, PLACING]}\n",
    "flow": "flow: {guests: [2], cpu: [any, PLACING], offered: [line]}\n",
    "route": "route: {guests: [2], cpu: [any, PLACING]}\n",
}


def dry_run(tmp_path: Path, capsys: pytest.CaptureFixture[str], plan: str) -> tuple[int, str]:
    hosts, path = tmp_path / "hosts.yaml", tmp_path / "plan.yaml"
    hosts.write_text(HOSTS.read_text().replace("platforms:\n", f"platforms:\n{GUESTS}"))
    path.write_text(f"plan: p\nset_ups: 2\n{plan}")
    where = ("--hosts", str(hosts), "--store", str(tmp_path / "none.sqlite"))
    status = main(["replay", str(path), "--dry-run", *where])
    return status, "".join(capsys.readouterr())


@pytest.mark.parametrize("placing", ["own", "same"])
@pytest.mark.parametrize(
    ("kind", "platform"),
    [*((kind, name) for kind in ("job", "flow") for name in ("vps", "esxi", "box")), ("route", "of-libvirt")],
)
def test_guests_that_no_cpu_can_be_chosen_for_are_refused_before_anything_is_taken(
    kind: str, platform: str, placing: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Those that run on any are taken."""
    plan = f"platforms: [{platform}]\n{OF_CPUS[kind].replace('PLACING', placing)}"
    status, told = dry_run(tmp_path, capsys, plan)
    assert status == 0, told
    assert f"2 of 4 {kind}s to measure" in told and "its guests run on any CPU" in told, told
    status, told = dry_run(tmp_path, capsys, plan.replace("any, ", ""))
    assert status == 2 and "cannot pin a guest" in told, told


@pytest.mark.parametrize("kind", OF_CPUS)
def test_where_a_cpu_can_be_chosen_every_guest_is_taken(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    platforms = "xen, container" if kind == "route" else "raw, xen, container"
    plan = f"platforms: [{platforms}]\n{OF_CPUS[kind].replace('PLACING', 'same, own')}"
    status, told = dry_run(tmp_path, capsys, plan)
    many = 6 * len(platforms.split())
    assert status == 0 and f"{many} of {many} " in told, told


def test_filter_rules_for_guests_with_a_kernel_of_their_own_are_refused_before_anything_is_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Without filter rules they are routers as others."""
    plan = "platforms: [xen, container, lxc]\nroute: {guests: [1, 2], filters: [0, 20]}\n"
    status, told = dry_run(tmp_path, capsys, plan)
    assert status == 0 and "20 of 24 routes to measure" in told, told
    assert "route.filters: are possible only where a router is a network namespace of the UUT's kernel" in told
    assert not [line for line in told.splitlines() if line.startswith("route xen") and "20 filter" in line]
    status, told = dry_run(tmp_path, capsys, plan.replace(", container, lxc", "").replace("[0, 20]", "[20]"))
    assert status == 2 and "got 20; allowed: 0 on this platform" in told, told


def test_limits_that_hold_nobody_on_this_link_are_refused_before_anything_is_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """One that is no less than what the link carries would stand among guests that are held to a rate."""
    plan = "platforms: [container]\nflow: {guests: [2], offered: [line], limits: [25Mbit, [25Mbit, 1Gbit]]}\n"
    status, told = dry_run(tmp_path, capsys, plan)
    assert status == 0 and "2 of 4 flows to measure" in told, told
    status, told = dry_run(tmp_path, capsys, plan.replace("25Mbit, [25Mbit, 1Gbit]", "1Gbit"))
    assert (
        status == 2
        and "flow.limits: do not limit anything on this link, got '1Gbit'; allowed: less than 984.4 Mbit/s" in told
    )
    small = "flow: {guests: [2], limits: [700Mbit, 750Mbit, 980Mbit], payload_bytes: [18, 1472]}\n"
    status, told = dry_run(tmp_path, capsys, f"platforms: [container]\n{small}")
    assert status == 0 and "8 of 12 flows to measure" in told, told
    assert "got '750Mbit'; allowed: less than 714.3 Mbit/s, which is all that guests get of the link's 1 Gbit/s" in told
    weights = small.replace("payload_bytes: [18, 1472]", "weights: {steps: [1:1]}")
    status, told = dry_run(tmp_path, capsys, f"platforms: [container]\n{weights}")
    assert status == 0 and "4 of 6 flows to measure" in told and "less than 969.6 Mbit/s" in told, told
    ring = small.replace("payload_bytes: [18, 1472]", "pattern: [ring]").replace("750Mbit", "2Gbit")
    status, told = dry_run(tmp_path, capsys, f"platforms: [container]\n{ring}")
    assert status == 0 and "6 of 6 flows to measure" in told, told


@pytest.mark.parametrize(
    ("asked", "key"),
    [("limits: [25Mbit]", "limits"), ("weights: {steps: [3:1]}", "weights"), ("pattern: [ring]", "pattern")],
)
def test_what_needs_an_interface_of_each_guests_own_is_refused_before_anything_is_taken(
    asked: str, key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Guests of ESXi send, and nobody can hold them; those of Xen may be held."""
    plan = f"platforms: [esxi, xen, container]\nflow: {{guests: [2], {asked}}}\n"
    status, told = dry_run(tmp_path, capsys, plan)
    assert status == 0 and "4 of 6 flows to measure" in told, told
    assert f"{key}: guests of this platform have no interface of their own on the UUT, got 'esxi'" in told
    status, told = dry_run(tmp_path, capsys, plan.replace(", xen, container", ""))
    assert status == 2 and "have no interface of their own" in told, told
    status, told = dry_run(tmp_path, capsys, "platforms: [esxi]\nflow: {guests: [2]}\n")
    assert status == 0 and "2 of 2 flows to measure" in told, told


@pytest.mark.parametrize(
    ("kind", "program", "asked"),
    [("route", "iproute2", ()), ("flow", "iperf", ()), ("job", "pi", ("--jobs", "cpu-pi"))],
)
def test_guests_of_a_lab_without_the_programs_of_jobs_are_refused_before_anything_is_taken(
    kind: str, program: str, asked: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Of an image that is not the local lab's nobody knows what it has."""

    def told_of(options: str, platforms: str, image: str = "/srv/uml.cpio") -> tuple[int, str]:
        (hosts := tmp_path / "hosts.yaml").write_text(
            HOSTS.read_text().replace("platforms:\n", f"platforms:\n  uml: {{driver: uml, initrd: {image}{options}}}\n")
        )
        where = ("--hosts", str(hosts), "--store", str(tmp_path / "none.sqlite"), "--dry-run")
        return main(["experiment", kind, "--platforms", platforms, *asked, *where]), "".join(capsys.readouterr())

    why = (
        "platform uml has no `crew_root` in hosts.yaml, the directory in which its guests find programs, and the image"
    )
    status, told = told_of("", "uml")
    assert status == 2 and f"{why} of the local lab has no {program}" in told and "`labconsole lab up --jobs`" in told
    status, told = told_of("", "uml,container")
    assert status == 0 and f"1 of 2 {kind}s to measure" in told and "cannot be measured: uml: " in told, told
    assert told_of(", crew_root: /srv/root", "uml")[0] == told_of("", "uml", "/srv/i")[0] == 0
    if kind == "job":
        asked = ("--jobs", "cpu-sqrt2")
        assert told_of("", "uml")[0] == 0, "guests are made of busybox"


def test_an_experiment_measures_the_platforms_that_can_have_what_it_asks_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """As a plan does; of one platform what cannot be is mended at once."""
    hosts = tmp_path / "hosts.yaml"
    hosts.write_text(HOSTS.read_text().replace("platforms:\n", f"platforms:\n{GUESTS}"))
    asked = ("--filters", "0,20", "--hosts", str(hosts), "--store", str(tmp_path / "none.sqlite"), "--dry-run")
    assert main(["experiment", "route", "--platforms", "xen,container", *asked]) == 0
    told = capsys.readouterr().out
    assert "3 of 4 routes to measure" in told and "are possible only where a router is a network namespace" in told, (
        told
    )
    assert main(["experiment", "route", "--platforms", "xen", *asked]) == 2
    assert capsys.readouterr().err.startswith("labconsole: --filters: are possible only where")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--weights", "3:1,1:3"), "weights 3:1 to 1:3"),
        (("--weights", "3:1,1:3", "--weights-every", "6.5"), "weights 3:1 to 1:3"),
        (("--weights", "3:1,1:3", "--weights-every", "15", "--duration", "20"), "weights 3:1 to 1:3"),
        (("--weights", "3:1"), "weights 3:1"),
        (("--disk", "disk-mixed"), "disk-mixed in the last from 10 to 20 s"),
    ],
)
def test_flows_of_defaults_are_possible(words: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]):
    asked = ("--platforms", "container", "--guests", "2", "--hosts", str(HOSTS), "--dry-run")
    assert main(["experiment", "flow", *asked, *words]) == 0
    assert told in "".join(capsys.readouterr())


def test_more_limits_than_guests_are_refused(capsys: pytest.CaptureFixture[str]):
    asked = ("--platforms", "container", "--guests", "1,2", "--hosts", str(HOSTS), "--dry-run")
    assert main(["experiment", "flow", *asked, "--limits", "3Mbit,4Mbit,5Mbit"]) == 2
    told = "--limits: are more than guests, got '3Mbit, 4Mbit, 5Mbit'; allowed: one for all, one for each of 2"
    assert told in capsys.readouterr().err


def test_how_long_a_job_that_waits_takes_is_known(tmp_path: Path):
    steps = Jobs(None).steps(plan_of(tmp_path, "jobs"))  # type: ignore[arg-type]
    assert [list(step.durations_s(make_inventory())) for step in steps] == [[7.0]] * 3


def test_how_long_guests_in_a_ring_are_busy_is_reckoned_with(tmp_path: Path):
    (path := tmp_path / "plan.yaml").write_text(
        "plan: guests\nplatforms: [container]\nflow: {guests: [2], pattern: [out, ring], duration_s: 10.0}\n"
    )
    steps = Flows(None).steps(load_plan(path, make_inventory()))  # type: ignore[arg-type]
    took_s = {step.trial.point.pattern: list(step.durations_s(make_inventory())) for step in steps}
    assert took_s == {"out": [10.0], "ring": [1.0 + 10.0 + 6.0 + 2.0]}


def test_a_dry_run_says_that_set_ups_are_reckoned_and_makes_no_store(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path, store = tmp_path / "plan.yaml", tmp_path / "none.sqlite"
    path.write_text(HEAD + KINDS["jobs"])
    status = main(["replay", str(path), "--hosts", str(HOSTS), "--store", str(store), "--dry-run"])
    last = capsys.readouterr().out.splitlines()[-1]
    assert status == 0 and "3 of 3 jobs to measure (0 already stored)" in last and "with the set-ups, if each" in last
    assert list(tmp_path.iterdir()) == [path]
