"""The parsers on every file recorded from a real pktgen 2.75, and the in-memory stand-in against the same files."""

from __future__ import annotations

from pathlib import Path

import pytest

from labconsole.agent.sending import pktgen_files as files
from labconsole.wire.codec import WireError
from support.fake_pktgen import FakePktgen

RECORDINGS = Path(__file__).parents[2] / "recordings" / "pktgen"
THREADS = sorted(RECORDINGS.glob("*/kpktgend_*"))
DEVICES = sorted(RECORDINGS.glob("*/eth*"))


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


@pytest.mark.parametrize("path", THREADS, ids=name_of)
def test_every_recorded_thread_file_is_understood(path: Path) -> None:
    thread = files.parse_thread(path.read_text())
    assert thread.result.startswith(("OK:", "ERROR:"))
    there = {other.name for other in path.parent.glob("eth*")}
    assert set(thread.devices) <= there


@pytest.mark.parametrize("path", DEVICES, ids=name_of)
def test_every_recorded_device_file_is_understood(path: Path) -> None:
    device = files.parse_device(path.read_text())
    assert device.params["ifname"] == path.name
    assert {"count", "min_pkt_size", "max_pkt_size", "delay", "clone_skb", "udp_dst_min"} <= set(device.params)
    finished = "finished" in path.parent.name or "stopped" in path.parent.name or "03-start" in path.parent.name
    assert (device.result is not None) == (finished or path.parent.name.startswith("17"))


def test_there_are_recordings_of_all_stages() -> None:
    assert len(THREADS) == 36
    assert len(DEVICES) >= 16


def recorded(stage: str, name: str = "eth0") -> files.DeviceFile:
    return files.parse_device((RECORDINGS / stage / name).read_text())


def test_a_finished_run_gives_its_counts_and_microseconds() -> None:
    result = recorded("06-finished-60B-100000").result
    assert result == files.RunResult(elapsed_us=1_644_250, busy_us=1_637_817, idle_us=6_433, packets=100_000, errors=0)


def test_the_word_nsec_of_old_kernels_does_not_change_the_unit() -> None:
    text = (RECORDINGS / "result-60B.txt").read_text()
    assert files.parse_device(text.replace("usec", "nsec")).result == files.parse_device(text).result


def test_a_running_device_has_counts_but_no_result() -> None:
    device = recorded("05-running")
    assert (device.sent_packets, device.errors, device.result_text) == (36_795, 0, "Starting")
    assert device.result is None


def test_an_ok_without_a_packet_is_a_result_of_none_sent() -> None:
    result = recorded("03-start-link-down").result
    assert result is not None
    assert result.packets == 0


def test_empty_addresses_and_flags_are_read_as_they_stand() -> None:
    device = recorded("02-added")
    assert (device.params["dst_min"], device.params["src_max"], device.flags) == ("", "", ())
    flags = recorded("12-many-flags").flags
    assert "UDPCSUM" in flags
    assert "FLOW_RND" in flags


def test_settings_that_appear_only_when_used_are_read_too() -> None:
    params = recorded("12-many-flags").params
    assert (params["burst"], params["tos"], params["saddr"]) == ("4", "0x10", "fe80::1")


def test_the_version_is_read_in_both_spellings() -> None:
    assert files.parse_version((RECORDINGS / "06-finished-60B-100000" / "pgctrl").read_text()) == "2.75"
    assert files.parse_version("pktgen v2.68: Packet Generator") == "2.68"
    assert files.parse_version("something else") is None


@pytest.mark.parametrize("text", ["", "Params: count 5", "Result: OK", "Running: eth0"])
def test_text_of_another_kind_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not the file"):
        files.parse_device(text)
    with pytest.raises(ValueError, match="not the file"):
        files.parse_thread(text)


# -- the stand-in -----------------------------------------------------------------------------------------------------


def configured_fake() -> FakePktgen:
    fake = FakePktgen()
    fake.write("kpktgend_0", "add_device eth0")
    for line in ("count 100000", "pkt_size 60", "dst_min 10.77.1.2", "src_min 10.77.1.9", "src_max 10.77.1.9"):
        fake.write("eth0", line)
    fake.write("eth0", "dst_mac 02:00:00:00:01:02")
    return fake


def test_the_stand_in_shows_a_fresh_device_as_the_kernel_does() -> None:
    fake = FakePktgen()
    fake.write("kpktgend_0", "add_device eth0")
    for name in ("pgctrl", "kpktgend_0", "kpktgend_1", "eth0"):
        assert fake.read(name) == (RECORDINGS / "02-added" / name).read_text()


def test_the_stand_in_shows_a_finished_run_as_the_kernel_does() -> None:
    fake = configured_fake()
    device = fake.devices()["eth0"]
    device.sofar, device.seq_num, device.idle = 100_000, 100_001, 6_433
    device.started, device.stopped = 142_044_625, 143_688_875
    device.finish()
    want = (RECORDINGS / "06-finished-60B-100000" / "eth0").read_text()
    assert fake.read("eth0").splitlines()[:-1] == want.splitlines()[:-1]
    assert files.parse_device(fake.read("eth0")).result == files.parse_device(want).result


@pytest.mark.parametrize(
    "line",
    [
        "count -1",
        "count abc",
        "pkt_size 5",
        "pkt_size abc",
        "udp_dst_min 99999999",
        "delay -5",
        "burst 0",
        "flag NODE_ALLOC",
        "dst_mac zz:zz",
        "nosuchcommand 1",
        "pkt_size 70000",
    ],
)
def test_the_stand_in_answers_bad_values_as_the_kernel_does(line: str) -> None:
    fake = configured_fake()
    blocks = (RECORDINGS / "writes.txt").read_text().split("$ echo ")
    block = next(block for block in blocks if block.startswith(f"'{line}' "))
    failed = "[rc=1]" in block
    if failed:
        with pytest.raises(OSError, match="Invalid argument"):
            fake.write("eth0", line)
    else:
        fake.write("eth0", line)
    if line != "dst_mac zz:zz":  # leaves the answer to whatever was written before
        assert f"Result: {files.parse_device(fake.read('eth0')).result_text}\n" in block


# -- whose device it is -----------------------------------------------------------------------------------------------


def test_devices_of_anybody_are_refused_by_name_and_place() -> None:
    fake = FakePktgen()
    fake.write("kpktgend_1", "add_device eth0@1")
    with pytest.raises(WireError, match=r"eth0@1 on kpktgend_1") as caught:
        files.refuse_foreign(fake)
    assert caught.value.code == "pktgen_in_use"
    files.refuse_foreign(fake, ["eth0@1"])


def test_the_owner_is_read_from_the_name() -> None:
    assert files.parse_owner("eth1@lc17-0") == "lc17"
    assert files.parse_owner("veth.5@lc4194304-12") == "lc4194304"
    for name in ("eth1", "eth1@0", "eth1@lc17", "eth1@xlc17-0"):
        assert files.parse_owner(name) is None


def test_cleaning_up_removes_what_a_killed_agent_left_and_nothing_else() -> None:
    fake = FakePktgen(cpus=3)
    fake.write("kpktgend_0", "add_device eth0@lc17-0")
    fake.write("kpktgend_1", "add_device eth1@lc18-0")
    fake.write("kpktgend_2", "add_device eth0@lc17-1")
    fake.write("kpktgend_2", "add_device eth1@2")
    left = files.cleanup_ours(owner="lc17", files=fake)
    assert list(fake.devices()) == ["eth1@lc18-0", "eth0@lc17-1", "eth1@2"]
    assert len(left) == 1
    assert "eth0@lc17-1 stays on kpktgend_2" in left[0]


def test_cleaning_up_stops_a_run_that_is_only_ours() -> None:
    fake = FakePktgen()
    fake.write("kpktgend_0", "add_device eth0@lc17-0")
    fake.devices()["eth0@lc17-0"].running = True
    assert files.cleanup_ours(["/proc/net/pktgen/eth0@lc17-0"], files=fake) == []
    assert ("pgctrl", "stop") in fake.written
    assert fake.devices() == {}


def test_cleaning_up_does_not_stop_somebody_elses_run() -> None:
    fake = FakePktgen()
    for thread, device in (("kpktgend_0", "eth0@lc17-0"), ("kpktgend_1", "eth1")):
        fake.write(thread, f"add_device {device}")
        fake.devices()[device].running = True
    files.cleanup_ours(owner="lc17", files=fake)
    assert ("pgctrl", "stop") not in fake.written
    assert fake.devices()["eth1"].running


def test_cleaning_up_without_pktgen_or_without_a_name_does_nothing(tmp_path: Path) -> None:
    assert files.cleanup_ours(owner="lc17", proc_root=str(tmp_path / "none")) == []
    fake = FakePktgen()
    fake.write("kpktgend_0", "add_device eth0@lc17-0")
    assert files.cleanup_ours(files=fake) == []
    assert list(fake.devices()) == ["eth0@lc17-0"]
