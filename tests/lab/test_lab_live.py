"""Labs that are really brought up: processes, namespaces, SSH, injected loss, and what is left when they end."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from labconsole.errors import LabSetupError
from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec
from labconsole.lab.state import LabFile, ProcessIdentity
from support.live_lab import lab_state, wait_until
from support.requirements import missing, require, require_namespaces

SEND = """
import socket, struct, sys
interface, mac = sys.argv[1], bytes.fromhex(sys.argv[2].replace(":", ""))
count, size = int(sys.argv[3]), int(sys.argv[4])
def checksum(header):
    total = sum(struct.unpack("!10H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
ends = (bytes([198, 18, 1, 1]), bytes([198, 19, 1, 1]))
header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, size - 14, 0, 0, 32, 17, 0, *ends)
header = header[:10] + struct.pack("!H", checksum(header)) + header[12:]
udp = struct.pack("!HHHH", 9, 9, size - 34, 0)
frame = mac + bytes(6) + b"\\x08\\x00" + header + udp + bytes(size - 42)
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
link.bind((interface, 0))
for _ in range(count):
    link.send(frame)
print(count)
"""

FORWARD = """
sysctl -qw net.ipv4.conf.eth1.forwarding=1 net.ipv4.conf.eth5.forwarding=1
ip route replace 198.18.1.1 dev eth1
ip route replace 198.19.1.1 dev eth5
"""


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state directory of this test's own, and no lab left in it whatever the test did."""
    require("ip", "tc", "nft", "tcpdump")
    require_namespaces()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    yield tmp_path
    for name in lab.names():
        lab.down(name)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A lab's name that no other test, and no other run of the tests, uses."""
    return f"t{os.getpid()}-{abs(hash(request.node.nodeid)) % 10**6}"


def shell(name: str, node: str, script: str) -> str:
    result = lab.execute(name, node, ["sh", "-ec", script])
    assert result.status == 0, result.stderr
    return result.stdout


def ssh(status: lab.LabStatus, node: str, command: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    require("ssh")
    argv = ["ssh", "-F", str(status.ssh_config), f"{status.spec.name}-{node}", command]
    return subprocess.run(argv, input=stdin, capture_output=True, timeout=20)


def processes_of(directory: Path) -> list[int]:
    """Every process of the machine whose command line names the lab's directory, zombies left out."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if str(directory).encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
    return found


def count_received(name: str, node: str) -> int:
    links = json.loads(shell(name, node, "ip -s -j link show dev eth1"))
    return int(links[0]["stats64"]["rx"]["packets"])


def test_a_lab_comes_up_says_what_it_is_and_goes_without_a_trace(state: Path, name: str) -> None:
    assert lab.status(name) is None
    status = lab.up(LabSpec(name=name, sources=2))
    assert not status.already_up
    assert status.running
    assert [node.name for node in status.nodes] == ["src1", "src2", "uut", "snk1", "snk2"]
    assert all(node.alive for node in status.nodes)
    assert json.loads(json.dumps(status.to_json()))["name"] == name
    assert lab.names() == [name]
    assert processes_of(status.directory)
    assert lab.down(name)
    assert lab.status(name) is None
    assert lab.names() == []
    assert processes_of(status.directory) == []
    assert list(state.iterdir()) == []


def test_up_twice_finds_the_lab_and_other_options_are_refused_by_name(state: Path, name: str) -> None:
    first = lab.up(LabSpec(name=name, sources=1))
    second = lab.up(LabSpec(name=name, sources=1))
    assert second.already_up
    assert second.supervisor_pid == first.supervisor_pid
    with pytest.raises(LabSetupError, match=r"sources: 1, not 2.*lab down --name"):
        lab.up(LabSpec(name=name, sources=2))
    assert lab.down(name)
    assert not lab.down(name)


def test_two_ups_at_once_build_one_lab(state: Path, name: str) -> None:
    results: list[lab.LabStatus] = []
    threads = [threading.Thread(target=lambda: results.append(lab.up(LabSpec(name=name, sources=1)))) for _ in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(status.already_up for status in results) == [False, True]
    assert results[0].supervisor_pid == results[1].supervisor_pid


def test_two_labs_stand_side_by_side_on_their_own_addresses(state: Path, name: str) -> None:
    one, two = lab.up(LabSpec(name=f"{name}a", sources=1)), lab.up(LabSpec(name=f"{name}b", sources=1))
    addresses = {node.address for status in (one, two) for node in status.nodes}
    assert len(addresses) == 6
    lab.execute(f"{name}a", "src1", ["touch", "/tmp/mine"])
    assert "mine" not in shell(f"{name}b", "src1", "ls /tmp")
    assert lab.down(f"{name}a")
    assert lab.status(f"{name}b").running
    assert ssh(two, "src1", "hostname").stdout == b"src1\n"


@pytest.mark.parametrize("victim", ["supervisor", "init"])
def test_kill_9_of_the_lab_leaves_nothing_and_up_works_again(state: Path, name: str, victim: str) -> None:
    status = lab.up(LabSpec(name=name, sources=1))
    known = LabFile.read(status.directory)
    assert known is not None
    inside = [ProcessIdentity.of(pid) for pid in processes_of(status.directory)]
    assert len(inside) == 6, "the supervisor, process 1 and the one that stayed outside, and a process for each node"
    os.kill(getattr(known, victim).pid, signal.SIGKILL)
    assert all(process.signal_and_wait(0, 10.0) for process in inside)
    assert lab.status(name).running is False
    with pytest.raises(LabSetupError, match="is not up"):
        lab.execute(name, "src1", ["true"])
    again = lab.up(LabSpec(name=name, sources=1))
    assert not again.already_up
    assert again.running
    assert [node.address for node in again.nodes] != []


def test_a_crashed_lab_can_be_taken_down(state: Path, name: str) -> None:
    status = lab.up(LabSpec(name=name, sources=1))
    os.kill(status.supervisor_pid, signal.SIGKILL)
    assert lab.down(name)
    assert not status.directory.exists()
    assert processes_of(status.directory) == []


def test_a_node_sees_only_itself(state: Path, name: str) -> None:
    lab.up(LabSpec(name=name, sources=1))
    assert shell(name, "uut", "hostname") == "uut\n"
    # Process 1 is the node's own init; the others are this command.
    assert "node-uut" in shell(name, "uut", "cat /proc/1/comm")
    assert int(shell(name, "uut", "ls -d /proc/[0-9]* | wc -l")) <= 5
    assert shell(name, "uut", "ls /sys/class/net").split() == ["eth1", "eth5", "lo"]
    assert shell(name, "uut", "cat /sys/class/net/eth*/operstate /proc/sys/net/ipv4/ip_forward").split() == [
        "up",
        "up",
        "0",
    ]
    assert "inet6" not in shell(name, "uut", "ip address")
    assert "198.1" not in shell(name, "snk1", "ip address")
    assert "198.19.1.1 dev eth5" in shell(name, "uut", "ip neighbour")
    shell(name, "uut", "touch /tmp/private /run/private")
    assert not Path("/run/private").exists()
    assert "private" not in shell(name, "src1", "ls /tmp /run")


def test_orphans_in_a_node_are_reaped(state: Path, name: str) -> None:
    lab.up(LabSpec(name=name, sources=1))
    shell(name, "src1", "(sh -c 'exec true' & exec true) </dev/null >/dev/null 2>&1")
    # The one that ends in this instant may be seen before its parent has waited for it; none stays.
    wait_until(lambda: " Z" not in shell(name, "src1", "ps -eo comm,stat"), timeout_s=5, what="a zombie stays")


def test_a_dead_node_is_reported_and_the_others_live(state: Path, name: str) -> None:
    lab.up(LabSpec(name=name, sources=1))
    lab.kill_node(name, "snk1")
    deadline = time.monotonic() + 10
    while True:
        alive = {node.name: node.alive for node in lab.status(name).nodes}
        if not alive["snk1"] or time.monotonic() > deadline:
            break
    assert alive == {"src1": True, "uut": True, "snk1": False}
    with pytest.raises(LabSetupError, match="has ended"):
        lab.execute(name, "snk1", ["true"])
    with pytest.raises(LabSetupError, match="src1, uut, snk1"):
        lab.execute(name, "nosuch", ["true"])


@pytest.mark.parametrize("node", ["src1", "uut"])
def test_a_dead_node_comes_back_as_after_a_reboot(state: Path, name: str, node: str) -> None:
    status = lab.up(LabSpec(name=name, sources=1))
    before = lab_state(name)
    shell(name, node, "touch /tmp/lost")
    lab.kill_node(name, node)
    wait_until(lambda: not all(n.alive for n in lab.status(name).nodes), timeout_s=10, what="the node lives")
    lab.revive_node(name, node)
    assert lab_state(name) == before
    assert ssh(status, node, "hostname").stdout.decode() == f"{node}\n"
    with pytest.raises(LabSetupError, match="is alive"):
        lab.revive_node(name, node)


def test_openssh_client_gets_streams_status_and_signals(state: Path, name: str) -> None:
    status = lab.up(LabSpec(name=name, sources=1))
    assert ssh(status, "src1", "hostname").stdout == b"src1\n"
    assert ssh(status, "snk1", "hostname").stdout == b"snk1\n"
    result = ssh(status, "src1", "echo out; echo err >&2; exit 7")
    assert (result.returncode, result.stdout, result.stderr) == (7, b"out\n", b"err\n")
    noise = os.urandom(3_000_000)
    assert ssh(status, "src1", "cat", noise).stdout == noise
    assert ssh(status, "src1", "kill -9 $$").returncode == 255
    assert ssh(status, "src1", "readlink -f $(command -v python3)").stdout.strip().decode() == os.path.realpath(
        sys.executable
    )
    refused = subprocess.run(
        ["ssh", "-F", "/dev/null", "-o", "BatchMode=yes", "-o", "IdentityFile=none", "-o", "IdentitiesOnly=yes"]
        + ["-o", f"UserKnownHostsFile={status.directory}/known_hosts", "-p", "2222", status.nodes[0].address, "true"],
        capture_output=True,
        timeout=20,
    )
    assert refused.returncode == 255
    assert b"Permission denied" in refused.stderr


def test_a_shell_and_a_terminal_work(state: Path, name: str) -> None:
    require("ssh")
    status = lab.up(LabSpec(name=name, sources=1))
    base = ["ssh", "-F", str(status.ssh_config)]
    plain = subprocess.run([*base, f"{name}-src1"], input=b"hostname\n", capture_output=True, timeout=20)
    assert b"src1" in plain.stdout
    terminal = subprocess.run(
        [*base, "-tt", f"{name}-src1", "tty"], stdin=subprocess.DEVNULL, capture_output=True, timeout=20
    )
    assert terminal.stdout.startswith(b"/dev/pts/")
    assert terminal.returncode == 0


def test_a_client_that_vanishes_ends_the_commands_input_and_kills_nothing(state: Path, name: str) -> None:
    require("ssh")
    status = lab.up(LabSpec(name=name, sources=1))
    command = "echo started; cat > /dev/null; echo ended > /tmp/ended"
    client = subprocess.Popen(
        ["ssh", "-F", str(status.ssh_config), f"{name}-src1", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert client.stdin is not None and client.stdout is not None
    with client:
        assert client.stdout.readline() == b"started\n"
        client.kill()
    assert (
        shell(name, "src1", "timeout 8 sh -c 'until [ -s /tmp/ended ]; do sleep 0.02; done'; cat /tmp/ended")
        == "ended\n"
    )


def test_sshd_of_openssh_serves_the_nodes(state: Path, name: str) -> None:
    require("sshd", "ssh")
    if os.geteuid() != 0:
        missing("sshd in a node needs root")
    status = lab.up(LabSpec(name=name, sources=1, ssh_server="openssh"))
    result = ssh(status, "uut", "hostname; exit 5")
    assert (result.returncode, result.stdout) == (5, b"uut\n")
    assert "sshd" in shell(name, "uut", "cat /run/labconsole-sshd/config; echo sshd")


@pytest.mark.parametrize("ratio", [0.0, 0.07, 1.0])
def test_injected_loss_is_counted_to_the_packet(state: Path, name: str, ratio: float) -> None:
    sent = 2000
    lab.up(LabSpec(name=name, sources=1, loss={"uut/out": ratio}))
    shell(name, "uut", FORWARD)
    mac = shell(name, "uut", "cat /sys/class/net/eth1/address").strip()
    before = count_received(name, "snk1")
    result = lab.execute(name, "src1", ["python3", "-c", SEND, "eth1", mac, str(sent), "64"])
    assert result.stdout.strip() == str(sent), result.stderr
    truth = lab.read_loss_counts(name)["uut/eth5"]
    assert truth["seen_packets"] == sent
    # Nothing but test frames runs here: IPv6 is off and neighbours are static.
    assert count_received(name, "snk1") - before == sent - truth["dropped_packets"]
    assert truth["dropped_packets"] in {0.0: range(1), 1.0: range(sent, sent + 1)}.get(ratio, range(60, 240))
    assert lab.status(name).truth == lab.read_loss_counts(name)


def test_loss_on_the_way_in_is_counted_where_it_happens(state: Path, name: str) -> None:
    lab.up(LabSpec(name=name, sources=1, loss={"uut/in": 0.5}))
    mac = shell(name, "uut", "cat /sys/class/net/eth1/address").strip()
    lab.execute(name, "src1", ["python3", "-c", SEND, "eth1", mac, "1000", "1486"])
    truth = lab.read_loss_counts(name)["uut/eth1"]
    assert truth["seen_packets"] == 1000
    assert 350 < truth["dropped_packets"] < 650


def test_a_burst_larger_than_the_shapers_is_delayed_and_not_dropped(state: Path, name: str) -> None:
    sent = 3000
    lab.up(LabSpec(name=name, sources=1, link_speed_bps=200_000_000))
    shell(name, "uut", FORWARD)
    mac = shell(name, "uut", "cat /sys/class/net/eth1/address").strip()
    before = count_received(name, "snk1")
    lab.execute(name, "src1", ["python3", "-c", SEND, "eth1", mac, str(sent), "1486"])
    deadline = time.monotonic() + 10
    while count_received(name, "snk1") - before < sent and time.monotonic() < deadline:
        pass
    assert count_received(name, "snk1") - before == sent
    assert '"drops":0' in shell(name, "src1", "tc -s -j qdisc show dev eth1").replace(" ", "")


def test_an_unshaped_lab_has_no_shaper(state: Path, name: str) -> None:
    lab.up(LabSpec(name=name, sources=1, link_speed_bps=None, mtu=9000))
    assert "tbf" not in shell(name, "src1", "tc qdisc show dev eth1")
    assert "mtu 9000" in shell(name, "uut", "ip link show dev eth5")


def test_an_address_in_use_is_refused_and_nothing_stays(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocker = socket.socket()
    try:
        blocker.bind(("127.18.0.254", 2222))
        blocker.listen(1)
    except OSError:
        blocker.close()
        blocker = None  # somebody's lab `local` is up: just as good
    try:
        with pytest.raises(LabSetupError, match=r"127\.18\.0\.0/24 port 2222 is in use"):
            lab.up(LabSpec(name="local", sources=1))
    finally:
        if blocker is not None:
            blocker.close()
    assert list(state.iterdir()) == []


def test_missing_tools_are_named_with_the_command_that_installs_them(
    state: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labconsole.lab.prerequisites.tool", lambda tool: None if tool in ("tc", "nft") else "/bin/x")
    with pytest.raises(LabSetupError, match=r"needs tc, nft; run `.*apt-get install -y iproute2 nftables"):
        lab.up(LabSpec(name=name))
    assert list(state.iterdir()) == []


def test_a_lab_that_fails_while_it_is_built_leaves_nothing(
    state: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Below the home: a node has a /tmp of its own, and the failing program must be found inside it.
    with tempfile.TemporaryDirectory(dir=Path.home()) as directory:
        broken = Path(directory) / "tc"
        broken.write_text("#!/bin/sh\necho no such qdisc >&2\nexit 2\n")
        broken.chmod(0o755)
        monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")
        with pytest.raises(LabSetupError, match="src1: tc refused: no such qdisc"):
            lab.up(LabSpec(name=name, sources=1))
    assert lab.names() == []
    assert processes_of(state) == []
    assert list(state.iterdir()) == []


def test_without_root_the_lab_is_the_same(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    require("setpriv", "unshare", "ssh", "ip", "tc", "nft", "tcpdump")
    interpreter = Path("/usr/bin/python3")
    if os.geteuid() != 0:
        missing("only root can become nobody; as another user every test here runs without root anyway")
    nobody = 65534
    home = Path(subprocess.check_output(["mktemp", "-d", "/tmp/labconsole-nobody-XXXXXX"], text=True).strip())
    os.chown(home, nobody, nobody)
    packages = next(p for p in sys.path if p.endswith("site-packages"))
    script = (
        "import sys, subprocess\n"
        "from labconsole.lab import commands as lab\n"
        "from labconsole.lab.spec import LabSpec\n"
        f"status = lab.up(LabSpec(name={name!r}, sources=1, loss={{'uut/out': 1.0}}))\n"
        "try:\n"
        f"    r = lab.execute({name!r}, 'snk1', ['sh', '-c', 'id -u; timeout 0.3 tcpdump -n -i eth1 -c 1'])\n"
        "    print(r.stdout.strip(), 'listening' in r.stderr)\n"
        f"    done = subprocess.run(['ssh', '-F', str(status.ssh_config), '{name}-uut', 'hostname;"
        " sysctl -w net.ipv4.conf.eth1.forwarding=1; unshare -n true && echo nested'], capture_output=True)\n"
        "    print(done.stdout.decode().split())\n"
        f"    print(sorted(lab.read_loss_counts({name!r})))\n"
        "finally:\n"
        f"    print(lab.down({name!r}))\n"
    )
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "USER": "nobody",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": f"{home}/project:{home}/packages",
    }
    # A view of both that nobody may enter: the project may well lie in a home of root's.
    view = (
        f"mkdir {home}/project {home}/packages && mount --bind '{Path(lab.__file__).parents[2]}' {home}/project "
        f"&& mount --bind '{packages}' {home}/packages && exec \"$@\""
    )
    become = ["setpriv", f"--reuid={nobody}", f"--regid={nobody}", "--clear-groups"]
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", view, "view", *become, str(interpreter), "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    subprocess.run(["rm", "-r", str(home)], check=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == f"{nobody} True"
    assert lines[1] == "['uut', 'net.ipv4.conf.eth1.forwarding', '=', '1', 'nested']"
    assert lines[2:] == ["['uut/eth5']", "True"]
