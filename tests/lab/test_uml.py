"""A User-mode Linux as the unit under test: it forwards, saturates, loses where the ledger says, and goes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from labconsole.errors import LabSetupError
from labconsole.lab import commands as lab
from labconsole.lab.guests import guest_image
from labconsole.lab.spec import LabSpec
from support.live_lab import COMMAND, lab_state, labconsole, processes, records, wait_until
from support.requirements import missing, require

PLAN = """\
plan: uml
platforms: [uml]
frame_sizes: [64, 1500]
targets: [1Mbit, max]
sources: [1]
duration_s: 0.5
repetitions: 1
settle_s: 0
drain_s: 0.3
"""
FORWARD = b'echo 1 > "/proc/sys/net/ipv4/conf/$link/forwarding"'


@pytest.fixture(scope="module")
def guest_lab(lab_home: Path) -> Iterator[lab.LabStatus]:
    require(guest_image.UML_PROGRAM, "stress")
    name = f"uml{os.getpid()}"
    try:
        yield lab.up(LabSpec(name=name, sources=1, link_speed_bps=None, platforms=("raw", "uml")))
    except LabSetupError as exc:
        missing(str(exc))
    finally:
        lab.down(name)


def run(guest_lab: lab.LabStatus, store: Path, *words: str) -> list[dict]:
    return records(labconsole("run", "--platform", "uml", *words, "--json", hosts=guest_lab.hosts_file, store=store))


@pytest.mark.alone
def test_it_forwards_small_and_large_frames_without_loss_and_loses_before_itself_at_the_maximum(
    guest_lab, lab_home: Path
) -> None:
    before = lab_state(guest_lab.spec.name)
    plan = lab_home / "uml.yaml"
    plan.write_text(PLAN)
    done = labconsole("replay", str(plan), "--json", hosts=guest_lab.hosts_file, store=lab_home / "uml.sqlite")
    runs = [line["run"] for line in records(done) if "run" in line]
    found = {(run["requested"]["frame_size_bytes"], run["requested"]["target_bps"]): run for run in runs}
    for size in (64, 1500):
        low = found[size, 1_000_000]
        assert low["verdict"]["status"] != "invalid", low["verdict"]
        assert low["total"]["loss_packets"] == 0
        assert low["total"]["measured_packets"] > 30
        (stream,) = found[size, "max"]["streams"]
        assert stream["loss_ratio"] > 0.02
        lost = {hop["hop"]: hop["lost_packets"] for hop in stream["ledger"]}
        assert lost["to_guest"] > 0.9 * stream["loss_packets"]
        assert stream["unplaced_packets"] == 0
    platform = low["environment"]["platform"]
    assert platform["driver"] == "uml"
    assert platform["guest_kernel"][0].isdigit()
    assert platform["vcpus"] == 1
    assert platform["host_cpus"]
    assert "vec1:transport=tap,ifname=lcto1," in platform["command_line"]
    assert lab_state(guest_lab.spec.name) == before


@pytest.mark.alone
def test_a_second_guest_beside_it_is_loaded_and_says_so_itself(guest_lab, lab_home: Path) -> None:
    before = lab_state(guest_lab.spec.name)
    words = ("--background", "light", "--target", "0.5Mbit", "--duration", "1")
    (loaded,) = run(guest_lab, lab_home / "loaded.sqlite", *words)
    seen = loaded["background"]
    assert (seen["kind"], seen["guest"]) == ("light", "second")
    assert seen["achieved"]["demand_ratio"] == pytest.approx(1, abs=0.2)  # its clock ticks in hundredths of a second
    assert seen["achieved"]["host_cpu_s"] > 0
    assert loaded["environment"]["platform"]["guests"] == ["first", "second"]
    assert lab_state(guest_lab.spec.name) == before


def test_one_that_dies_in_mid_run_voids_the_run_and_leaves_nothing(guest_lab, lab_home: Path) -> None:
    name = guest_lab.spec.name
    before = lab_state(name)
    process = subprocess.Popen(
        [
            *COMMAND,
            "run",
            "--platform",
            "uml",
            "--target",
            "1Mbit",
            "--duration",
            "4",
            "--json",
            "--hosts",
            str(guest_lab.hosts_file),
            "--store",
            str(lab_home / "dies.sqlite"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )

    def forwarded() -> int:
        assert process.poll() is None, process.stderr and process.stderr.read()
        return int(lab.execute(name, "snk1", ["cat", "/sys/class/net/eth1/statistics/rx_packets"]).stdout)

    base = forwarded()
    wait_until(
        lambda: forwarded() > base + 1000 and "tcpdump" in processes(name, "snk1"), timeout_s=60, what="it never sent"
    )
    lab.execute(name, "uut", ["pkill", "-9", "-o", "linux.uml"])  # the kernel; its helpers are left to the agent
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1, err
    assert "Traceback" not in err
    (run,) = [json.loads(line) for line in out.splitlines()]
    assert run["verdict"]["status"] == "invalid"
    told = [reason["detail"] for reason in run["verdict"]["reasons"] if reason["code"] == "guest_changed"]
    assert told
    assert "guest" in told[0]
    wait_until(lambda: lab_state(name) == before, timeout_s=5, what="something was left on a node")


def test_nothing_of_it_is_left_by_a_console_that_is_killed(guest_lab, lab_home: Path) -> None:
    name = guest_lab.spec.name
    before = lab_state(name)
    process = subprocess.Popen(
        [
            *COMMAND,
            "run",
            "--platform",
            "uml",
            "--target",
            "1Mbit",
            "--duration",
            "30",
            "--hosts",
            str(guest_lab.hosts_file),
            "--store",
            str(lab_home / "killed.sqlite"),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_until(lambda: "umid=first" in processes(name, "uut"), timeout_s=60, what="no guest was started")
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_until(lambda: lab_state(name) == before, timeout_s=5, what="something was left on a node")


def with_platform(guest_lab: lab.LabStatus, options: str) -> Path:
    """The lab's inventory with one platform more, ``other``."""
    hosts = Path(guest_lab.hosts_file)
    shim = hosts.with_name(guest_image.SHIM_FILE)  # made where the processor has too many registers
    if shim.exists():
        options += f", preload: '{shim}'"
    text = hosts.read_text().replace("platforms:\n", f"platforms:\n  other: {{driver: uml, {options}}}\n")
    other = hosts.with_name("other.yaml")
    other.write_text(text)
    return other


def test_one_that_boots_and_does_not_forward_is_an_error_that_names_the_stream(guest_lab, lab_home: Path) -> None:
    name = guest_lab.spec.name
    before = lab_state(name)
    image = Path(guest_lab.hosts_file).with_name(guest_image.IMAGE_FILE)
    dark = image.with_name("dark.cpio")
    dark.write_bytes(image.read_bytes().replace(FORWARD, FORWARD.replace(b"1", b"0", 1)))
    hosts = with_platform(guest_lab, f"initrd: '{dark}'")
    impatient = "import sys, labconsole.engine.trial.forwarding_proof as l; l.LIMIT_S = 3; from labconsole.cli.main import main; sys.exit(main())"
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            impatient,
            "run",
            "--platform",
            "other",
            "--hosts",
            str(hosts),
            "--store",
            str(lab_home / "dark.sqlite"),
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 3, done.stderr
    assert "no test frame of stream s1 reached its sink" in done.stderr
    assert lab_state(name) == before


def test_one_that_cannot_boot_is_an_error_with_the_kernels_reason(guest_lab, lab_home: Path) -> None:
    hosts = with_platform(guest_lab, "initrd: /etc/hostname")
    done = labconsole("run", "--platform", "other", hosts=hosts, store=lab_home / "none.sqlite")
    assert done.returncode == 3
    assert "Kernel panic" in done.stderr


def test_where_the_processor_has_too_many_registers_the_shim_is_what_lets_it_boot(tmp_path: Path) -> None:
    require(guest_image.UML_PROGRAM, "cc", "unshare")
    other = tmp_path / "big_registers.so"
    source = Path(__file__).parents[1] / "support" / "big_registers.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(other), str(source)], check=True, timeout=60)
    shim = tmp_path / guest_image.SHIM_FILE
    guest_image.compile_shim(shim)
    guest_image.write_files(tmp_path)

    def console(preload: str) -> str:
        argv = [
            guest_image.UML_PROGRAM,
            "umid=x",
            f"uml_dir={tmp_path}/",
            "mem=128M",
            f"initrd={tmp_path / guest_image.IMAGE_FILE}",
            "rdinit=/init",
            "con=null",
            "con0=fd:0,fd:1",
            "ssl=null",
            "quiet",
            "panic=-1",
        ]
        process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "LD_PRELOAD": preload, "TMPDIR": "/dev/shm"},
        )
        try:
            assert process.stdout is not None
            printed = b""
            while b"GUEST-READY" not in printed and b"Kernel panic" not in printed:
                more = os.read(process.stdout.fileno(), 4096)
                if not more:
                    break
                printed += more
            return printed.decode(errors="replace")
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate(timeout=10)

    assert "set fp regs failed" in console(str(other))
    assert "GUEST-READY" in console(f"{shim}:{other}")
