"""The engine's contract with installed hypervisors, each driver against its recorded shell.

LXC, virsh, xl and VBoxManage were recorded from the real programs; ESXi, OpenVZ and VServer are shapes from public
material (tests/recordings/platforms/ says which).
"""

from __future__ import annotations

import asyncio
import shlex
import subprocess
from types import SimpleNamespace
from typing import Any

import pytest

from labconsole.engine.trial.platform import UutPlatform
from labconsole.errors import CapabilityMissing, ConfigError, NodeError, NodeLost
from labconsole.platforms.base.guest_shell import DONE, LOOP, READY
from labconsole.platforms.base.installed_guests import InstalledGuestDriver
from support.asking import Asking
from support.hypervisor_cases import BY_DRIVER, CASES, ESXI, LXC, QEMU, Case
from support.replayed_node import ReplayedNode, hurried, wiring

every = pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.driver}-{case.guest}")


def prepare(driver: InstalledGuestDriver, node: ReplayedNode, streams: int = 1) -> Any:
    return asyncio.run(driver.prepare(node, [wiring(f"s{n}", n) for n in range(1, streams + 1)]))  # type: ignore[arg-type]


def restore(driver: InstalledGuestDriver, node: ReplayedNode) -> None:
    asyncio.run(driver.restore(node))  # type: ignore[arg-type]


def refused(driver: InstalledGuestDriver, node: ReplayedNode) -> str:
    with pytest.raises(NodeError) as raised:
        prepare(driver, node)
    assert raised.value.node == "uut"
    return raised.value.message


@every
def test_a_guest_that_is_off_is_started_attested_and_stopped_again(case: Case, monkeypatch) -> None:
    driver, node = case.make(), case.node("stopped")
    hurried(driver, monkeypatch)
    prepared = prepare(driver, node)
    assert node.phase == "running"
    path = prepared.paths["s1"]
    assert path.destination_mac == case.in_mac
    inside = [(p.hop, p.interface, p.statistic) for p in path.points]
    assert (inside[0], inside[-1]) == (("uut_in", "eth1", "rx_packets"), ("uut_out", "eth5", "tx_packets"))
    assert inside[1:-1] == (
        [("to_guest", case.ends[0], "tx_packets"), ("from_guest", case.ends[1], "rx_packets")] if case.ends else []
    )
    assert (prepared.attestation["driver"], prepared.attestation["guests"]) == (case.driver, [case.guest])
    assert prepared.attestation["versions"]
    assert asyncio.run(prepared.attest(node)) == prepared.attestation
    restore(driver, node)
    assert node.phase == "stopped"
    restore(driver, node)


@every
def test_that_a_guest_is_stopped_is_promised_before_it_is_started_and_until_it_is(case: Case, monkeypatch) -> None:
    driver, node = case.make(graceful_s=3600), case.node("stopped")
    hurried(driver, monkeypatch)
    prepare(driver, node)
    (promised,) = node.promised.values()
    assert case.start not in node.commands[: promised["commands"]]
    assert case.start in node.commands[promised["commands"] :]
    assert promised["limit_s"] == 3600
    assert ("runs" in promised) == (case.driver not in ("vserver", "openvz")), "these wait until it is off"
    ask, kill = shlex.join(promised["ask"]), shlex.join(promised["kill"])
    if case.driver == "esxi":  # its tools end with status 0 whatever comes of it
        assert "! vim-cmd vmsvc/power.shutdown 40 2>&1 | grep -q " in promised["ask"][-1]
    else:
        assert ask == case.ask
    assert kill == (case.ask if case.driver == "vserver" else case.kill)
    restore(driver, node)
    assert node.promised == {}


@pytest.mark.parametrize("driver", ["libvirt", "lxc", "xl"])
def test_a_guest_that_cannot_be_stopped_is_left_to_the_keeper(driver: str, monkeypatch) -> None:
    case = BY_DRIVER[driver]
    made, node = case.make(graceful_s=0), case.node("stopped", moves={case.kill: "running"})
    hurried(made, monkeypatch)
    prepare(made, node)
    with pytest.raises(NodeError, match="expected: stopped"):
        restore(made, node)
    assert "ask" not in node.promised[case.guest]
    assert shlex.join(node.promised[case.guest]["kill"]) == case.kill


@every
def test_a_guest_that_was_started_before_its_node_was_lost_is_stopped_when_the_node_is_back(case, monkeypatch) -> None:
    driver, node = case.make(), case.node("stopped")
    hurried(driver, monkeypatch)
    prepare(driver, node)
    node.lost = True
    with pytest.raises(NodeLost):
        restore(driver, node)
    node.lost = False
    assert node.phase == "running"

    def no_driver(*_: Any) -> Any:
        raise AssertionError

    inventory, pool = SimpleNamespace(uut="uut"), SimpleNamespace(links={})
    standing = UutPlatform(inventory, None, pool, driver_for=no_driver, emit=pytest.fail, stopping=bool)  # type: ignore[arg-type]
    standing._current = (None, None, driver)  # type: ignore[assignment]
    standing.forget()
    asyncio.run(standing.restore())
    assert node.phase == "running", "there was no link to stop it by"
    pool.links["uut"] = node
    asyncio.run(standing.restore())
    assert node.phase == "stopped"


@every
def test_a_guest_that_runs_already_is_left_running(case: Case, monkeypatch) -> None:
    driver, node = case.make(), case.node("running")
    hurried(driver, monkeypatch)
    assert prepare(driver, node).paths["s1"].destination_mac == case.in_mac
    restore(driver, node)
    assert not {case.start, case.ask, case.kill} & set(node.commands)
    assert node.phase == "running"


@every
def test_a_guest_that_is_not_there_is_named_with_those_that_are(case: Case) -> None:
    driver, node = case.make(**({"config": None} if case.driver == "xl" else {}), guest="nosuch"), case.node("running")
    said = refused(driver, node)
    assert f"no guest nosuch; the guests of {case.driver} are " in said
    assert case.guest in said
    assert case.start not in node.commands


@every
def test_a_missing_tool_is_said_before_anything_is_changed(case: Case) -> None:
    tools = frozenset({"virsh", "lxc-start", "xl", "VBoxManage", "env", "vzctl", "prlctl", "vserver"})
    with pytest.raises(CapabilityMissing, match="platform p: .* is not installed"):
        prepare(case.make(), case.node("stopped", missing=tools))


@every
def test_a_guest_that_does_not_come_up_in_time_is_stopped_and_both_are_said(case: Case, monkeypatch) -> None:
    driver = case.make(start_s=5)
    node = case.node("stopped", moves={case.start: "stopped"})
    pauses = hurried(driver, monkeypatch)
    said = refused(driver, node)
    assert "5 s after" in said
    assert "expected: running" in said
    assert sum(pauses) >= 5
    assert node.phase == "stopped"


@every
def test_a_start_that_never_ends_is_judged_by_the_state(case: Case, monkeypatch) -> None:
    driver, node = case.make(), case.node("stopped", hanging=frozenset({case.start}))
    hurried(driver, monkeypatch)
    assert prepare(driver, node).attestation["guests"] == [case.guest]


@pytest.mark.parametrize("case", [c for c in CASES if c.driver not in ("esxi", "openvz")], ids=lambda case: case.driver)
def test_a_guest_that_does_not_listen_loses_its_power_after_the_time_it_had(case: Case, monkeypatch) -> None:
    driver, node = case.make(graceful_s=7), case.node("stopped", moves={case.ask: "running"})
    pauses = hurried(driver, monkeypatch)
    prepare(driver, node)
    pauses.clear()
    restore(driver, node)
    assert sum(pauses) >= 7
    assert node.commands.index(case.ask) < node.commands.index(case.kill)
    assert node.phase == "stopped"


@every
def test_a_guest_that_cannot_be_stopped_is_reported(case: Case, monkeypatch) -> None:
    stays = {case.ask: "running", case.kill: "running"}
    driver, node = case.make(graceful_s=1), case.node("stopped", moves=stays)
    hurried(driver, monkeypatch)
    prepare(driver, node)
    if case.driver == "openvz" and "tool" in case.options:
        node.answers("prlctl stop ct1 --kill", "The CT has been forcibly stopped.\n")
    with pytest.raises(NodeError, match=r"guest .* is .* 60 s after .*expected: stopped"):
        restore(driver, node)


@every
def test_a_guest_that_takes_its_time_is_waited_for(case: Case, monkeypatch) -> None:
    driver, node = case.make(), case.node("stopped", moves={case.start: ("running", 6), case.kill: ("stopped", 6)})
    pauses = hurried(driver, monkeypatch)
    prepare(driver, node)
    assert pauses
    restore(driver, node)
    assert node.phase == "stopped"


@every
def test_garbage_is_not_taken_for_a_state(case: Case) -> None:
    node = case.node("stopped")
    kept = {"version", "--version", "info", "-v", "-r"}
    for answers in node.phases.values():
        for command, reply in answers.items():
            if not kept & set(command.split()):
                reply["stdout"] = "\x1b]0;garbage\x07 <html>502</html>\n"
    assert "platform p: " in refused(case.make(), node)
    assert case.start not in node.commands


@pytest.mark.parametrize("filler", [" ", "\n \n", "\t", "1 a ", '"', "[a] b.vmx ", "x,=;", "lxc.net.0.type = "])
@every
def test_a_megabyte_that_is_meant_to_stall_a_parser_does_not(case: Case, filler: str) -> None:
    node = case.node("running")
    for answers in node.phases.values():
        for command, reply in answers.items():
            if not {"version", "--version", "info", "-v"} & set(command.split()):
                reply["stdout"] = (reply["stdout"] + filler * (300_000 // len(filler)))[:300_000]
    try:
        prepare(case.make(), node)
    except NodeError as exc:
        assert len(exc.message) < 1000


@pytest.mark.parametrize(
    ("driver", "phase", "shown"),
    [
        ("libvirt", "paused", "guest hvtest-uut is paused; expected: running or stopped"),
        ("lxc", "frozen", "guest fw is FROZEN"),
        ("xl", "paused", "guest hvtest-domu is -bp---"),
        ("esxi", "suspended", "guest packer-vmware-iso is Suspended"),
        ("openvz", "suspended", "guest 101 is suspended"),
    ],
)
def test_a_guest_that_neither_runs_nor_is_off_is_refused(driver: str, phase: str, shown: str) -> None:
    case = BY_DRIVER[driver]
    node = case.node(phase)
    assert shown in refused(case.make(), node)
    assert not {case.start, case.ask, case.kill} & set(node.commands)


@pytest.mark.parametrize(("driver", "other"), [("libvirt", "web server"), ("vserver", "deb vserv2")])
def test_another_guest_is_refused_unless_it_is_allowed_and_then_attested(driver: str, other: str) -> None:
    case = BY_DRIVER[driver]
    assert f"{other} runs beside {case.guest}: stop it, or set `others: allow`" in refused(
        case.make(), case.node("beside")
    )
    node = case.node("beside")
    for answers in (node.phases["running"],):
        for command, reply in answers.items():
            node.phases["beside"].setdefault(command, reply)
    assert prepare(case.make(others="allow"), node).attestation["other_guests"] == [other]


@pytest.mark.parametrize("driver", ["lxc", "xl", "virtualbox", "vserver"])
def test_already_running_is_no_success_and_what_somebody_else_started_is_not_stopped(driver: str, monkeypatch) -> None:
    case = BY_DRIVER[driver]
    node = case.node("raced", moves={case.start: "raced"})
    made = case.make()
    hurried(made, monkeypatch)
    said = refused(made, node)
    assert "was listed as stopped, but" in said
    assert not {case.ask, case.kill} & set(node.commands)
    assert node.promised == {}, "not by the keeper either"


def test_a_fault_that_esxi_prints_with_status_0_is_a_failure(monkeypatch) -> None:
    case = BY_DRIVER["esxi"]
    driver = case.make()
    pauses = hurried(driver, monkeypatch)
    said = refused(driver, case.node("refusing", moves={case.start: "refusing"}))
    assert "guest packer-vmware-iso is Powered off after" in said
    assert pauses == []
    assert "fault NotFound: Unable to find a VM corresponding to" in refused(case.make(), case.node("gone"))


def test_esxi_without_tools_in_the_guest_takes_its_power_at_once(monkeypatch) -> None:
    case = BY_DRIVER["esxi"]
    driver, node = case.make(), case.node("stopped")
    pauses = hurried(driver, monkeypatch)
    prepare(driver, node)
    restore(driver, node)
    assert pauses == []
    assert (ESXI + "vim-cmd vmsvc/power.shutdown 40") in node.commands
    assert node.commands.count(ESXI + "vim-cmd vmsvc/get.summary 40") == 1, "once is enough, and starts are timed"
    assert node.phase == "stopped"


def test_esxi_that_leaves_a_machine_out_of_a_list_is_asked_again() -> None:
    case = BY_DRIVER["esxi"]
    node = case.node("running")
    node.answers(ESXI + "esxcli --formatter=csv network vm list", "Name,Networks,NumPorts,WorldID,\n")
    assert "does not show machine packer-vmware-iso" in refused(case.make(), node)
    assert node.commands.count(ESXI + "esxcli --formatter=csv network vm list") == 3


def test_esxi_without_a_format_for_programs_is_read_from_its_table() -> None:
    case = BY_DRIVER["esxi"]
    node = case.node("running")
    node.answers(ESXI + "esxcli --formatter=csv network vm list", "Error: Unknown formatter option\n", exit_status=1)
    assert prepare(case.make(), node).paths["s1"].destination_mac == case.in_mac
    assert ESXI + "esxcli network vm list" in node.commands


@pytest.mark.parametrize(
    ("said", "reported"),
    [
        ("vm = 'vim.VirtualMachine:40',", "Vmid 40, name '\"other\"'"),
        ("vm = 'vim.VirtualMachine:41',", "Vmid 41, name 'packer-vmware-iso'"),
        ("", "no machine"),
    ],
)
def test_esxi_changes_no_machine_that_does_not_say_its_own_name(said: str, reported: str, monkeypatch) -> None:
    """A table's row may be misread; a machine's summary names only that machine."""
    case = BY_DRIVER["esxi"]
    driver, node = case.make(), case.node("stopped")
    hurried(driver, monkeypatch)
    command = ESXI + "vim-cmd vmsvc/get.summary 40"
    name = "packer-vmware-iso" if ":41" in said else '"other"'
    config = f'   config = (vim.vm.Summary.ConfigSummary) {{\n      name = "{name}", \n   }},\n'
    node.answers(command, f"Listsummary:\n\n(vim.vm.Summary) {{\n   {said}\n{config}}}\n")
    assert f"reports {reported}; expected: Vmid 40, name 'packer-vmware-iso'" in refused(driver, node)
    assert not {case.start, case.kill} & set(node.commands)


def test_virtualbox_that_says_a_machine_started_which_ended_at_once_is_not_believed(monkeypatch) -> None:
    case = BY_DRIVER["virtualbox"]
    driver = case.make()
    hurried(driver, monkeypatch)
    said = refused(driver, case.node("no driver", moves={case.start: "no driver"}))
    assert "is poweroff after" in said


def test_virtualbox_without_its_kernel_driver_is_refused() -> None:
    node = BY_DRIVER["virtualbox"].node("stopped")
    warning = "WARNING: The character device /dev/vboxdrv does not exist.\n"
    node.answers("VBoxManage --version", f"{warning}7.2.22_Debianr175245\n")
    with pytest.raises(CapabilityMissing, match="/dev/vboxdrv does not exist"):
        prepare(BY_DRIVER["virtualbox"].make(), node)


def test_vserver_whose_status_and_text_contradict_each_other_is_refused() -> None:
    assert "ends with 0 and says: Vserver 'uut' is stopped" in refused(
        BY_DRIVER["vserver"].make(), BY_DRIVER["vserver"].node("contradicting")
    )


def test_vserver_routes_on_the_host_and_puts_that_back(monkeypatch) -> None:
    driver, node = BY_DRIVER["vserver"].make(), BY_DRIVER["vserver"].node("running")
    prepared = prepare(driver, node)
    assert prepared.attestation["interfaces"] == {"eth1": {"forwarding": "1"}, "eth5": {"forwarding": "1"}}
    restore(driver, node)
    assert [op for op, _ in node.changes] == ["net.apply", "net.undo"]


def test_a_container_of_openvz_with_only_a_venet_is_refused() -> None:
    assert "guest 100 has 0 NICs" in refused(BY_DRIVER["openvz"].make(guest=100), BY_DRIVER["openvz"].node("venet"))


def test_a_container_of_openvz_whose_init_does_not_start_is_stopped_again(monkeypatch) -> None:
    driver, node = (
        BY_DRIVER["openvz"].make(),
        BY_DRIVER["openvz"].node("broken", moves={"vzctl start 101 --wait": "broken"}),
    )
    hurried(driver, monkeypatch)
    assert "Container start failed" in refused(driver, node)


@pytest.mark.parametrize(
    ("driver", "pin", "unpin"),
    [
        (
            "libvirt",
            [QEMU + "vcpupin hvtest-uut 0 0 --live", QEMU + "vcpupin hvtest-uut 1 0 --live"],
            [QEMU + "vcpupin hvtest-uut 0 1 --live", QEMU + "vcpupin hvtest-uut 1 1 --live"],
        ),
        ("lxc", [f"lxc-cgroup{LXC} cpuset.cpus 1"], [f"lxc-cgroup{LXC} cpuset.cpus 0-1"]),
        ("xl", ["xl vcpu-pin hvtest-domu 0 0"], ["xl vcpu-pin hvtest-domu 0 all"]),
    ],
)
def test_pinning_is_read_back_attested_and_put_back(driver: str, pin: list[str], unpin: list[str]) -> None:
    case, cpu = BY_DRIVER[driver], 1 if driver == "lxc" else 0
    made, node = case.make(cpu=cpu), case.node("running", moves={pin[-1]: "pinned", unpin[-1]: "running"})
    if driver == "libvirt":
        vcpus = {"running": "1", "pinned": "0"}
        for phase, cpus in vcpus.items():
            table = f" VCPU   CPU Affinity\n----------------------\n 0      {cpus}\n 1      {cpus}\n"
            reply = {"exit_status": 0, "stdout": table, "stderr": "", "truncated": False}
            node.phases[phase][QEMU + "vcpupin hvtest-uut"] = reply
    for command in [*pin, *unpin]:
        node.answers(command)
    prepared = prepare(made, node)
    assert set(prepared.attestation["machines"][case.guest]["pinning"].values()) == {str(cpu)}
    restore(made, node)
    assert [c for c in node.commands if c in {*pin, *unpin}] == [*pin, *unpin]
    assert node.phase == "running"


@pytest.mark.parametrize("nics", ["7", '{"a": 1}', "[7, null]", '[{"devid": [], "ifname": {}, "bridge": 7}]'])
def test_a_description_of_xl_that_is_not_as_expected_tells_less(nics: str) -> None:
    case = BY_DRIVER["xl"]
    node = case.node("running")
    node.answers(
        "xl list -l hvtest-domu",
        f'[{{"config": {{"c_info": {{"name": "hvtest-domu", "type": {nics}}}, "nics": {nics}}}}}]',
    )
    machine = prepare(case.make(), node).attestation["machines"]["hvtest-domu"]
    assert machine["kind"] is None
    assert [nic["host_interface"] for nic in machine["nics"]] == ["vif1.0", "vif1.1"]


def test_pinning_that_was_not_done_is_refused_and_nothing_stays(monkeypatch) -> None:
    case = BY_DRIVER["xl"]
    driver, node = case.make(cpu=9), case.node("stopped")
    hurried(driver, monkeypatch)
    said = refused(driver, node)
    assert "pinned to {'0': 'all'}; expected: {'0': '9'}. It said: vcpu hard affinity map is empty" in said
    assert node.phase == "stopped"


def test_nics_are_matched_by_what_the_operator_says_and_a_wrong_one_is_named() -> None:
    case = BY_DRIVER["libvirt"]
    nics = [{"stream": "s1", "in_mac": "02-00-00-00-06-09", "out_mac": "020000000601"}]
    prepared = prepare(case.make(nics=nics), case.node("running"))
    assert prepared.paths["s1"].destination_mac == "02:00:00:00:06:09"
    nics[0]["out_mac"] = "02:00:00:00:06:77"
    assert "guest hvtest-uut has no NIC 02:00:00:00:06:77; it has: 02:00:00:00:06:01, " in refused(
        case.make(nics=nics), case.node("running")
    )
    with pytest.raises(ConfigError, match=r"platforms\.p\.nics: names no NICs for this stream, got 's2'"):
        prepare(case.make(nics=[{**nics[0], "out_mac": "02:00:00:00:06:01"}]), case.node("running"), streams=2)


def test_a_nic_without_an_interface_on_this_node_has_no_hop() -> None:
    case = BY_DRIVER["libvirt"]
    node = case.node("running")
    node.interfaces = ("eth1", "eth5", "lv-in")
    assert [point.hop for point in prepare(case.make(), node).paths["s1"].points] == ["uut_in", "uut_out"]


def test_too_few_nics_for_the_streams_are_refused_before_the_guest_is_started() -> None:
    case = BY_DRIVER["libvirt"]
    node = case.node("stopped")
    with pytest.raises(NodeError, match="has 3 NICs .*expected: two for each of 2 streams"):
        prepare(case.make(), node, streams=2)
    assert case.start not in node.commands


def test_a_guest_with_the_mac_of_the_port_is_refused() -> None:
    node = BY_DRIVER["openvz"].node("running")
    told = node.phases[""]["cat /etc/vz/conf/101.conf"]
    told["stdout"] = told["stdout"].replace("00:18:51:A1:C6:35", "52:54:00:00:01:01")
    assert "has the MAC of eth1 (52:54:00:00:01:01): such frames end at the host" in refused(
        BY_DRIVER["openvz"].make(), node
    )


def test_a_guest_that_is_gone_after_the_trial_is_not_what_was_attested() -> None:
    case = BY_DRIVER["libvirt"]
    node = case.node("running")
    prepared = prepare(case.make(), node)
    node.phase = "stopped"
    with pytest.raises(NodeError, match="guest hvtest-uut is shut off; expected: running"):
        asyncio.run(prepared.attest(node))


def test_permission_that_is_missing_is_said_with_what_to_do() -> None:
    node = BY_DRIVER["libvirt"].node("stopped")
    node.answers(
        QEMU + "version",
        exit_status=1,
        stderr="error: failed to connect to the hypervisor\nerror: authentication unavailable: no polkit agent\n",
    )
    with pytest.raises(CapabilityMissing, match=r"no permission to use virsh .*polkit.*become:"):
        prepare(BY_DRIVER["libvirt"].make(), node)


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("vbox:///session", "unable to initialize VirtualBox driver API"),
        ("openvz:///system", "OpenVZ control file /proc/vz does not exist"),
        ("vmwarews:///session", "vmrun utility is missing"),
        ("hyperv://127.0.0.1", "built without the 'hyperv' driver"),
        ("bhyve:///system", "no connection driver available"),
    ],
)
def test_a_connection_that_libvirt_does_not_have_is_said_in_its_words(uri: str, words: str) -> None:
    case = BY_DRIVER["libvirt"]
    node = ReplayedNode("libvirt-others")
    with pytest.raises(CapabilityMissing, match=f"virsh cannot connect to {uri}: .*{words}"):
        prepare(case.make(uri=uri), node)


def test_libvirt_under_lxc_and_xen_declare_what_they_can() -> None:
    case = BY_DRIVER["libvirt"]
    lxc = ReplayedNode("libvirt-others", interfaces=("eth1", "eth5", "ll-in", "ll-out"))
    inside = prepare(case.make(uri="lxc:///system", guest="hvtest-lvlxc"), lxc).attestation
    assert inside["guest_kernel"] == "6.18.44"
    assert inside["machines"]["hvtest-lvlxc"]["pinning"] is None
    xen = ReplayedNode("libvirt-others", interfaces=("eth1", "eth5", "vif1.0", "vif1.1"))
    prepared = prepare(case.make(uri="xen:///system", guest="hvtest-lvxen"), xen)
    assert prepared.attestation["machines"]["hvtest-lvxen"]["kind"] == "xen"
    assert [point.interface for point in prepared.paths["s1"].points] == ["eth1", "vif1.0", "vif1.1", "eth5"]
    with pytest.raises(
        ConfigError, match=r"platforms\.p\.cpu: is not possible: .* cannot pin a guest of lxc:///system"
    ):
        case.make(uri="lxc:///system", cpu=1)


@pytest.mark.parametrize(
    ("driver", "options", "key", "words"),
    [
        ("libvirt", {"guest": None}, "guest", "text"),
        ("libvirt", {"guest": "--all"}, "guest", "is not the name of a guest"),
        ("libvirt", {"uri": "-c"}, "uri", "cannot be used on a command line"),
        ("libvirt", {"disk": "x"}, "disk", "unknown option of driver libvirt"),
        ("libvirt", {"others": "kill"}, "others", "allowed: refuse, allow"),
        ("libvirt", {"cpu": "one"}, "cpu", "is not a list of CPUs"),
        ("libvirt", {"second_cpu": 1}, "second_cpu", "needs a second_guest"),
        ("libvirt", {"second_guest": "hvtest-uut"}, "second_guest", "is the first guest"),
        (
            "libvirt",
            {"nics": [{"stream": "s1", "in_mac": "01:00:5e:00:00:01", "out_mac": "x"}]},
            "nics[0].in_mac",
            "MAC",
        ),
        ("libvirt", {"start_s": 0}, "start_s", "greater than 0"),
        ("virtualbox", {"cpu": 1}, "cpu", "cannot pin a guest"),
        ("openvz", {"tool": "podman"}, "tool", "allowed: vzctl, prlctl"),
        ("vserver", {"ssh": "root@x"}, "ssh", "share the network stack"),
        ("esxi", {"ssh": "-oProxyCommand=x"}, "ssh", "is not a valid ssh destination"),
    ],
)
def test_an_option_that_cannot_be_is_refused(driver: str, options: dict[str, Any], key: str, words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        BY_DRIVER[driver].make(**options)
    assert f"platforms.p.{key}: " in str(raised.value)
    assert words in str(raised.value)


def two_containers(**options: Any) -> tuple[InstalledGuestDriver, ReplayedNode]:
    """OpenVZ with container 101 running and 102 off: "both" is the phase in which it runs, too."""
    case = BY_DRIVER["openvz"]
    driver, node = (
        case.make(second_guest=102, **options),
        case.node("running", moves={"vzctl start 102 --wait": "both"}),
    )
    node.phases["both"] = dict(node.phases["running"])
    for phase, status in (("running", "unmounted down"), ("both", "mounted running")):
        reply = {"exit_status": 0, "stdout": f"CTID 102 exist {status}\n", "stderr": "", "truncated": False}
        node.phases[phase]["vzctl status 102"] = reply
    listed = node.phases["running"]["vzlist -a -H -o veid,status"]
    node.phases["both"]["vzlist -a -H -o veid,status"] = {**listed, "stdout": "101 running\n102 running\n"}
    for command in ("vzctl start 102 --wait", "vzctl stop 102", "vzctl exec2 102 /bin/uname -r"):
        node.answers(command)
    nics = (f"ifname=eth{n},mac=00:18:51:A1:C6:9{n},host_ifname=veth102.{n}" for n in (0, 1))
    node.answers("cat /etc/vz/conf/102.conf", f'NETIF="{";".join(nics)}"\n')
    node.moves["vzctl stop 102"] = "running"
    return driver, node


def test_a_second_guest_runs_only_beside_a_load_has_its_own_streams_and_is_stopped_again(monkeypatch) -> None:
    driver, node = two_containers()
    hurried(driver, monkeypatch)
    assert prepare(driver, node).attestation["guests"] == ["101"]
    assert "vzctl start 102 --wait" not in node.commands
    restore(driver, node)
    prepared = asyncio.run(driver.prepare(node, [wiring()], second=[wiring("s2", 2)]))  # type: ignore[arg-type]
    assert prepared.attestation["guests"] == ["101", "102"]
    assert prepared.attestation["other_guests"] == []
    macs = {name: path.destination_mac for name, path in prepared.paths.items()}
    assert macs == {"s1": "00:18:51:a1:c6:35", "s2": "00:18:51:a1:c6:90"}
    assert prepared.second is not None
    assert (prepared.second.name, prepared.second.cpus, prepared.second.cannot) == ("102", None, "")
    assert prepared.second.ask is not None
    (_, argv) = node.shells[0]
    assert "vzctl exec2 102 sh" in argv[2]
    restore(driver, node)
    assert node.shells[-1][0] == "guest.stop"
    assert "vzctl stop 101" not in node.commands
    assert node.phase == "running"


def test_a_second_guest_that_runs_where_there_is_to_be_none_is_refused(monkeypatch) -> None:
    driver, node = two_containers()
    node.phase = "both"
    assert refused(driver, node) == (
        "platform p: 102 runs beside 101, and 102 may run only with a background load: stop it, or set `others: allow` in hosts.yaml"
    )


def test_a_background_load_that_cannot_be_is_refused_by_what_is_missing() -> None:
    xl = BY_DRIVER["xl"]
    assert [xl.make().refusal(kind) for kind in ("none", "idle")] == [
        None,
        "platform p has no second_guest in hosts.yaml, so nothing can run next to its guest",
    ]
    beside = xl.make(second_guest="idle")
    assert [beside.refusal(kind) for kind in ("none", "idle", "forwarding-50")] == [None, None, None]
    assert "driver xl cannot run a program inside a guest" in (beside.refusal("light") or "")
    assert "second_shell: [ssh, " in (beside.refusal("heavy") or "")
    led = xl.make(second_guest="idle", second_shell=["ssh", "root@guest2"])
    assert led.refusal("heavy") is None
    assert BY_DRIVER["lxc"].make(second_guest="idle").refusal("light") is None


def test_the_shell_of_a_guest_is_fed_its_loop_through_whatever_leads_there(tmp_path) -> None:
    """``ssh`` makes one line for a shell of its words; here a script does as it does."""
    lead = tmp_path / "lead"
    lead.write_text('#!/bin/sh\nexec sh -c "$*"\n')
    lead.chmod(0o755)
    driver = BY_DRIVER["xl"].make(second_guest="idle", second_shell=[str(lead)])
    argv = driver._lead()
    assert argv is not None
    with subprocess.Popen([*argv, "sh", "-c", LOOP], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdin is not None
        assert shell.stdout is not None
        assert shell.stdout.readline() == f"{READY}\n"  # lines are given to a shell that is ready, as the agent does
        shell.stdin.write("echo told $((1 + 1)) 'a  b'\n")
        shell.stdin.close()
        assert shell.stdout.read() == f"told 2 a  b\n{DONE} 0\n"


def test_bridges_are_made_on_request_and_taken_away_before_the_guest_is_stopped(monkeypatch) -> None:
    case = BY_DRIVER["lxc"]
    driver, node = case.make(bridges="made"), case.node("stopped")
    node.bridged = False
    hurried(driver, monkeypatch)
    prepare(driver, node)
    (_, applied) = node.changes[0]
    assert applied["changes"] == [
        {"do": "bridge", "name": "lcbi1", "ports": ["eth1", "vc-in"]},
        {"do": "bridge", "name": "lcbo1", "ports": ["eth5", "vethpOzyt6"]},
    ]
    restore(driver, node)
    assert [op for op, _ in node.changes] == ["net.apply", "net.undo"]
    node.bridged = True
    assert "eth1 is a port of br-eth1, which something else has set up" in refused(case.make(bridges="made"), node)


def test_a_dry_run_tells_what_would_be_run_and_asks_nobody() -> None:
    nics = [{"stream": "s1", "in_mac": "02:00:00:00:0a:01", "out_mac": "02:00:00:00:0a:02"}]
    lxc = BY_DRIVER["lxc"].make(second_guest="idle", cpu=0, second_cpu=1, bridges="made", nics=nics)
    lines = lxc.commands([wiring()], [])
    assert lines[:4] == [
        "lxc-start -P /srv/lxc -n fw -d",
        "lxc-start -P /srv/lxc -n idle -d",
        "lxc-cgroup -P /srv/lxc -n fw cpuset.cpus 0",
        "lxc-cgroup -P /srv/lxc -n idle cpuset.cpus 1",
    ]
    assert "ip link set fw:NIC-02:00:00:00:0a:02 master lcbo1 up" in lines
    assert "vcpupin hvtest-uut EACH-VCPU 1 --live" in BY_DRIVER["libvirt"].make(cpu=1).commands([wiring()])[1]
    assert BY_DRIVER["esxi"].make().commands([wiring()])[-1].startswith("# … and what follows")


def test_what_a_driver_does_not_have_is_refused_with_a_reason() -> None:
    driver, node = BY_DRIVER["virtualbox"].make(), BY_DRIVER["virtualbox"].node("running")
    shell = driver.shell(node)  # type: ignore[arg-type]
    with pytest.raises(CapabilityMissing, match="driver virtualbox cannot pin a guest"):
        asyncio.run(driver.pin(shell, "hvtest-vb", {"0": "1"}))
    with pytest.raises(CapabilityMissing, match="driver virtualbox cannot run a program inside a guest"):
        asyncio.run(driver.execute(shell, "hvtest-vb", ["true"]))


def test_commands_for_a_hypervisor_elsewhere_go_through_ssh_quoted_for_its_shell() -> None:
    case = BY_DRIVER["esxi"]
    node = case.node("running")
    seen: list[list[str]] = []

    class Elsewhere(Asking):
        name = "uut"

        async def request(self, op: str, args: dict[str, Any], *, timeout_s: float = 30.0) -> dict[str, Any]:
            assert op == "exec", "the node's own interfaces are the guest's"
            seen.append(args["argv"])
            assert args["argv"][:-1] == [
                "ssh",
                "-k",
                "-o",
                "BatchMode=yes",
                "-o",
                "ConnectTimeout=10",
                "-o",
                "StrictHostKeyChecking=yes",
                "-o",
                "UpdateHostKeys=no",
                "-o",
                "VerifyHostKeyDNS=no",
                "-o",
                "NoHostAuthenticationForLocalhost=no",
                "-o",
                "ForwardAgent=no",
                "-o",
                "ForwardX11=no",
                "-o",
                "ClearAllForwardings=yes",
                "--",
                "root@esxi1",
            ]
            return node._run(shlex.split(args["argv"][-1])[2:])

    driver = case.make(ssh="root@esxi1")
    wired = wiring()
    prepared = asyncio.run(driver.prepare(Elsewhere(), [wired]))  # type: ignore[arg-type]
    assert prepared.attestation["ssh"] == "root@esxi1"
    assert prepared.attestation["machines"][case.guest]["nics"][0]["model"] == "vmxnet3"
    assert prepared.attestation["machines"][case.guest]["nics"][1]["model"] == "e1000"
    assert seen
