"""Outputs of hypervisors' tools over their versions: each right value has its source, each unknown one is named."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from labconsole.contracts.ports import AgentLink
from labconsole.errors import CapabilityMissing, NodeError
from labconsole.platforms.base.guest import State
from labconsole.platforms.base.guest_program import _VERSION
from labconsole.platforms.base.shell import Answer, Shell
from labconsole.platforms.drivers import lxc, openvz, virtualbox, vserver
from labconsole.platforms.drivers.command import CommandDriver


class Named:
    name = "uut"


class ScriptedShell(Shell):
    """Answers by the whole command line: (exit status, output) or output."""

    def __init__(self, **answers: str | tuple[int, str]) -> None:
        super().__init__(cast("AgentLink", Named()), "p")
        self.answers: dict[str, str | tuple[int, str]] = dict(answers)
        self.asked: list[str] = []

    async def run(self, argv: Sequence[str], *, limit_s: float = 30.0) -> Answer:
        line = " ".join(argv)
        self.asked.append(line)
        said = next(said for command, said in self.answers.items() if line.startswith(command))
        status, text = said if isinstance(said, tuple) else (0, said)
        return Answer(tuple(argv), status, text if status == 0 else "", "" if status == 0 else text)


def shell(answers: dict[str, str | tuple[int, str]]) -> ScriptedShell:
    return ScriptedShell(**answers)


def run(coroutine: Any) -> Any:
    return asyncio.run(coroutine)


# VirtualBox ---------------------------------------------------------------------------------------------------------

VBOX = virtualbox.VirtualBoxDriver("p", {"guest": "fw"})

NOT_LOADED = [
    # Oracle's wrapper, 4.x: the module is not loaded.
    "WARNING: The vboxdrv kernel module is not loaded. Either there is no module\n         available for the current "
    "kernel (3.16.0-49-generic) or it failed to\n         load. Please recompile the kernel module and install it by\n\n"
    "           sudo /etc/init.d/vboxdrv setup\n\n         You will not be able to start VMs until this problem is fixed.\n"
    "4.3.36r105129\n",
    # Oracle's wrapper, 6.1 and 7.x, with Secure Boot.
    "WARNING: The vboxdrv kernel module is not loaded. Either there is no module available for the current kernel\n"
    "         (4.18.0-193.el8.x86_64) or it failed to load. If your system is using EFI Secure Boot you may need to\n"
    "         sign the kernel modules (vboxdrv, vboxnetflt, vboxnetadp, vboxpci).\n7.1.4r165100\n",
    # Debian's and Ubuntu's wrapper.
    "WARNING: The character device /dev/vboxdrv does not exist.\n\t Please install the virtualbox-dkms package and the "
    "appropriate\n\t headers, most likely linux-headers-amd64.\n\n\t You will not be able to start VMs until this "
    "problem is fixed.\n5.1.6_Debianr110634\n",
    # Oracle's wrapper, the installation could not compile it.
    "WARNING: The compilation of the vboxdrv.ko kernel module failed during the\n         installation for some reason. "
    "Starting a VM will not be possible.\n         Please consult the User Manual for build instructions.\n6.0.24r139119\n",
    # RPM Fusion's wrapper.
    "WARNING: The vboxdrv kernel module is not loaded. Please try load the kernel module by executing as root\n\n"
    "  dnf install akmod-VirtualBox\n6.1.38_rpmfusionr153438\n",
    # SUPLib's messages of other versions and systems.
    "VBoxManage: error: The VirtualBox kernel modules do not match this version of VirtualBox\n7.0.10r158379\n",
    "WARNING: VirtualBox support driver version mismatch (VERR_VM_DRIVER_VERSION_MISMATCH)\n7.0.10r158379\n",
    "Kernel driver not installed (rc=-1908)\nMake sure the kernel module has been loaded successfully.\n5.2.44r139111\n",
]


@pytest.mark.parametrize("text", NOT_LOADED)
def test_virtualbox_without_its_kernel_driver_is_refused_in_every_wording(text: str) -> None:
    with pytest.raises(CapabilityMissing, match=r"the kernel driver is not loaded.*VBoxManage says: \S"):
        run(VBOX.probe(shell({"VBoxManage --version": text})))


@pytest.mark.parametrize(
    "text",
    [
        # Wrappers of 1.5 to 2.x.
        'WARNING: You are not a member of the "vboxusers" group.  Please add yourself\n         to this group before '
        "starting VirtualBox.\n\n         You will not be able to start VMs until this problem is fixed.\n2.0.2_OSEr0\n",
        "WARNING: /dev/vboxdrv not writable for some reason. If you recently added the\n current user to the "
        "vboxusers group then you have to logout and re-login.\n2.1.4r42893\n",
        "Kernel driver not accessible (VERR_VM_DRIVER_NOT_ACCESSIBLE)\n6.1.50r161033\n",
    ],
)
def test_virtualbox_whose_driver_this_user_may_not_use_is_refused_for_that(text: str) -> None:
    with pytest.raises(CapabilityMissing, match="no permission to use the kernel driver of VirtualBox"):
        run(VBOX.probe(shell({"VBoxManage --version": text})))


@pytest.mark.parametrize(
    ("text", "versions"),
    [
        ("7.2.22r171234\n", {"virtualbox": "7.2.22r171234"}),
        ("7.0.16_Ubuntur162802\n", {"virtualbox": "7.0.16_Ubuntur162802"}),
        ("7.1.0_BETA1r164000\n", {"virtualbox": "7.1.0_BETA1r164000"}),
        ("1.6.6\n", {"virtualbox": "1.6.6"}),
        (
            "perl: warning: Setting locale failed.\n7.2.22r171234\n",
            {"virtualbox": "7.2.22r171234", "virtualbox_warning": "perl: warning: Setting locale failed."},
        ),
    ],
)
def test_the_version_of_virtualbox_is_read_and_another_warning_is_recorded(text: str, versions: dict[str, str]) -> None:
    assert run(VBOX.probe(shell({"VBoxManage --version": text}))) == versions


def test_a_kernel_in_a_warning_is_no_version_of_virtualbox() -> None:
    with pytest.raises(NodeError, match="does not report a version"):
        run(VBOX.probe(shell({"VBoxManage --version": "5.10.0-30-amd64\nsomething else\n"})))


SAVED, TRANSIENT = State.PAUSED, State.CHANGING


@pytest.mark.parametrize(
    ("word", "state"),
    [
        # machineStateToName() in VBoxManageInfo.cpp of 7.2; faulttolerantsyncing is of 4.0 to 6.0.
        ("poweroff", State.STOPPED),
        ("saved", SAVED),
        ("teleported", State.STOPPED),
        ("aborted", State.STOPPED),
        ("aborted-saved", SAVED),
        ("running", State.RUNNING),
        ("paused", State.PAUSED),
        ("gurumeditation", State.FAILED),
        ("teleporting", TRANSIENT),
        ("livesnapshotting", TRANSIENT),
        ("starting", TRANSIENT),
        ("stopping", TRANSIENT),
        ("saving", TRANSIENT),
        ("restoring", TRANSIENT),
        ("teleportingpausedvm", TRANSIENT),
        ("teleportingin", TRANSIENT),
        ("deletingsnapshotlive", TRANSIENT),
        ("deletingsnapshotlivepaused", State.PAUSED),
        ("onlinesnapshotting", TRANSIENT),
        ("restoringsnapshot", TRANSIENT),
        ("deletingsnapshot", TRANSIENT),
        ("settingup", TRANSIENT),
        ("snapshotting", TRANSIENT),
        ("faulttolerantsyncing", TRANSIENT),
    ],
)
def test_every_state_of_virtualbox_is_known(word: str, state: State) -> None:
    found = run(VBOX.state(shell({"VBoxManage showvminfo": f'name="fw"\nVMState="{word}"\n'}), "fw"))
    assert (found.state, found.said) == (state, word)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('VMState="unknown"\n', "is 'unknown'; expected: poweroff"),
        # What 7.x prints of a machine whose settings file cannot be read.
        ('name="<inaccessible>"\nUUID="922b151f-4555-4a00-a444-e56b5669efe7"\n', "reports no VMState of machine fw"),
    ],
)
def test_another_state_of_virtualbox_is_named(text: str, said: str) -> None:
    with pytest.raises(NodeError, match=said):
        run(VBOX.state(shell({"VBoxManage showvminfo": text}), "fw"))


@pytest.mark.parametrize(
    ("lines", "attached"),
    [
        # showVMInfo() in VBoxManageInfo.cpp, 2.2 to 7.2: the key that comes before nicN, and nicN itself.
        ('nic1="none"', None),
        ('nic1="null"', "null"),
        ('natnet1="nat"\nnic1="nat"', "nat"),
        ('natnet1="10.0.9.0/24"\nnic1="nat"', "nat 10.0.9.0/24"),
        ('nat-network1="lab nat"\nnic1="natnetwork"', "natnetwork lab nat"),
        ('bridgeadapter1="en0: Wi-Fi (AirPort)"\nnic1="bridged"', "bridged en0: Wi-Fi (AirPort)"),
        ('intnet1="DMZ "inner" C:\\net"\nnic1="intnet"', 'intnet DMZ "inner" C:\\net'),
        ('hostonlyadapter1="vboxnet0"\nnic1="hostonly"', "hostonly vboxnet0"),
        ('hostonly-network1="lab-net"\nnic1="hostonlynetwork"', "hostonlynetwork lab-net"),
        ('generic1="UDPTunnel"\nnic1="Generic"', "generic UDPTunnel"),
        ('cloud-network1="oci"\nnic1="cloudnetwork"', "cloudnetwork oci"),
        ('bridgeadapter1="eth9"\nnic1="null"', "null"),
        ('bridgeadapter1="eth9"\nnic1="unknown"', "unknown attachment 'unknown'"),
        ('vhub1="x"\nnic1="vhub"', "unknown attachment 'vhub'"),
    ],
)
def test_what_a_nic_of_virtualbox_is_plugged_into(lines: str, attached: str | None) -> None:
    text = f'{lines}\nmacaddress1="080027000001"\ncableconnected1="on"\nnictype1="82540EM"\n'
    nics = run(VBOX.nics(shell({"VBoxManage showvminfo": text}), "fw"))
    assert [nic.attached_to for nic in nics] == ([] if attached is None else [attached])


def test_values_of_virtualbox_end_where_their_quotes_end() -> None:
    text = (
        'name="a \\"b\\" C:\\\\x"\nEncryption:     disabled\nVMState="poweroff"\ncpus=2\nnic1="nat"\n'
        'description="first\nVMState="running"\nnic2="bridged"\nlast \\"\n"\nafter="x"\n"SATA-0-0"="/a=b.vdi"\n'
        'SnapshotDescription="two\ncpus=9"\n'
    )
    told = virtualbox.values(text)
    assert (told["VMState"], told["cpus"], told["nic1"]) == ("poweroff", "2", "nat")
    assert told["SATA-0-0"] == "/a=b.vdi"
    assert "description" not in told


UUIDS = [f"922b151f-4555-4a00-a444-e56b5669efe{digit}" for digit in range(4)]


def test_machines_of_virtualbox_that_share_a_name_are_refused_only_where_one_is_meant() -> None:
    listed = "".join(
        f'"{name}" {{{uuid}}}\n'
        for name, uuid in zip(("fw", 'web "x" {y}', "<inaccessible>", "<inaccessible>"), UUIDS, strict=True)
    )
    answers: dict[str, str | tuple[int, str]] = {
        "VBoxManage list vms": listed,
        "VBoxManage list runningvms": f'"web "x" {{y}}" {{{UUIDS[1]}}}\n',
        "VBoxManage showvminfo fw": 'VMState="poweroff"\n',
    }
    found = run(VBOX.guests(shell(answers)))
    assert {name: guest.said for name, guest in found.items()} == {
        "fw": "poweroff",
        'web "x" {y}': "running",
        f"<inaccessible> {UUIDS[2]}": "inaccessible",
        f"<inaccessible> {UUIDS[3]}": "inaccessible",
    }
    twice = {**answers, "VBoxManage list vms": f'{listed}"fw" {{{UUIDS[3]}}}\n'}
    with pytest.raises(NodeError, match="has 2 machines named fw"):
        run(VBOX.guests(shell(twice)))
    with pytest.raises(NodeError, match=r"list vms` printed a row that is not understood: '\"cut"):
        run(VBOX.guests(shell({**answers, "VBoxManage list vms": '"cut\n'})))


# OpenVZ -------------------------------------------------------------------------------------------------------------

VZCTL = openvz.OpenVzDriver("p", {"guest": 101})
PRLCTL = openvz.OpenVzDriver("p", {"guest": "my VM CT", "tool": "prlctl"})


@pytest.mark.parametrize(
    ("line", "state", "said"),
    [
        # vzctl 3.0 (VEID) and 4.x (CTID): print_status().
        ("VEID 101 exist mounted running", State.RUNNING, "running"),
        ("CTID 101 exist unmounted down", State.STOPPED, "down"),
        ("CTID 101 exist mounted down", State.STOPPED, "down"),
        ("CTID 101 exist unmounted down suspended", State.PAUSED, "down suspended"),
        # vzctl 7 to 9, Show() in vzctl.c.
        ("VEID 101 exist mounted paused", State.PAUSED, "paused"),
        ("VEID 101 exist unmounted suspended", State.PAUSED, "suspended"),
    ],
)
def test_a_container_of_openvz_has_the_state_that_vzctl_says(line: str, state: State, said: str) -> None:
    found = run(VZCTL.state(shell({"vzctl status": f"Warning: quota is off\n{line}\n"}), "101"))
    assert (found.state, found.said) == (state, said)


@pytest.mark.parametrize("line", ["CTID 101 exist mounted hibernated", "CTID 102 exist mounted running", "CTID 101"])
def test_another_status_of_a_container_is_refused(line: str) -> None:
    with pytest.raises(NodeError, match="expected: CTID 101, exist or deleted"):
        run(VZCTL.state(shell({"vzctl status": f"{line}\n"}), "101"))


def test_rows_of_vzlist_are_read_whole_or_refused() -> None:
    # `veid` is a column of vzctl 3.0 to 9; `vpsid` ended with 4.x.
    listed = "       101 running\n3d32522a-80af-4773-b9fa-ea4915dee4b3 suspended\n       103 unknown\n"
    found = run(VZCTL.guests(shell({"vzlist -a -H -o veid,status": listed})))
    assert [(guest.name, guest.state) for guest in found.values()] == [
        ("101", State.RUNNING),
        ("3d32522a-80af-4773-b9fa-ea4915dee4b3", State.PAUSED),
        ("103", State.CHANGING),
    ]
    with pytest.raises(NodeError, match="guest 101 is 'unknown'; expected: running, stopped"):
        run(VZCTL.guests(shell({"vzlist": "101 unknown\n"})))
    with pytest.raises(NodeError, match="a row that is not understood: 'CTID NPROC STATUS'"):
        run(VZCTL.guests(shell({"vzlist": "CTID NPROC STATUS\n"})))


def test_names_in_prlctl_may_hold_blanks_and_the_words_of_its_columns() -> None:
    # prlctl 7: the widths of PrlList.cpp, the name last.
    rows = [
        ("{3d32522a-80af-4773-b9fa-ea4915dee4b3}", "running", "CT", "my VM CT"),
        ("{a8f45c91-7a27-4a3b-8a3e-000000000001}", "del_snapshot", "VM", "stopped -"),
    ]
    text = "".join(f"{uuid:<39} {status:<12} {kind:<2} {name}\n" for uuid, status, kind, name in rows)
    argv = "prlctl list -a -H -o uuid,status,type,name"
    found = run(PRLCTL.guests(shell({argv: text})))
    assert {name: (guest.state, guest.ident[:4]) for name, guest in found.items()} == {
        "my VM CT": (State.RUNNING, "3d32"),
        "stopped -": (State.CHANGING, "a8f4"),
    }
    again = "{a8f45c91-7a27-4a3b-8a3e-000000000002}  stopped  VM my VM CT\n"
    with pytest.raises(NodeError, match="two containers are named my VM CT"):
        run(PRLCTL.guests(shell({argv: text + again})))


@pytest.mark.parametrize(
    "word",
    # vmstate2str() in Utils.cpp of prlctl 7.
    [
        "stopped",
        "starting",
        "restoring",
        "running",
        "paused",
        "resetting",
        "pausing",
        "suspending",
        "stopping",
        "compacting",
        "suspended",
        "snapshoting",
        "continuing",
        "migrating",
        "del_snapshot",
        "resuming",
        "syncing",
        "invalid",
        "reconnecting",
        "mounted",
    ],
)
def test_every_state_of_prlctl_is_known(word: str) -> None:
    assert word in openvz.STATES


# Linux-VServer ------------------------------------------------------------------------------------------------------

HEADER = "CTX   PROC    VSZ    RSS  userTIME   sysTIME    UPTIME NAME\n"
ROW = "{:<6}{:>4} {:>6} {:>6} {:>9} {:>9} {:>9} {}\n"


def stat(*rows: tuple[int, str]) -> str:
    """Rows as showContexts() in vserver-stat.c pads them (util-vserver 0.30.216)."""
    return HEADER + "".join(
        ROW.format(context, 2, "14.8M", "1.4M", "0m00s00", "0m00s00", "4y12d05", name[:20]) for context, name in rows
    )


STOPPED = (3, "")
LONG = ["production-router-east-1", "production-router-east-2"]


def guests_of(rows: str, names: list[str], running: dict[str, int], guest: str = "uut") -> dict[str, tuple[State, str]]:
    driver = vserver.VserverDriver("p", {"guest": guest})
    answers: dict[str, str | tuple[int, str]] = {"ls": "".join(f"{name}\n" for name in names), "vserver-stat": rows}
    asked = shell(answers)

    async def status(argv: Sequence[str], *, limit_s: float = 30.0) -> Answer:
        name = argv[1].removeprefix("/etc/vservers/") if argv[0] == "vserver" else ""
        if not name:
            return await ScriptedShell.run(asked, argv, limit_s=limit_s)
        if name in running:
            return Answer(tuple(argv), 0, f"Vserver '{argv[1]}' is running at context '{running[name]}'\n", "")
        return Answer(tuple(argv), 3, f"Vserver '{argv[1]}' is stopped\n", "")

    asked.run = status  # type: ignore[method-assign]
    return {name: (guest.state, guest.ident) for name, guest in run(driver.guests(asked)).items()}


def test_a_name_that_vserver_stat_cuts_is_found_by_its_context() -> None:
    names = ["uut", *LONG, "a name with blanks, cut"]
    rows = stat((0, "root server"), (1, "monitoring server"), (131, LONG[1]), (132, names[3]))
    assert guests_of(rows, names, {LONG[1]: 131, names[3]: 132}) == {
        "uut": (State.STOPPED, ""),
        LONG[0]: (State.STOPPED, ""),
        LONG[1]: (State.RUNNING, "131"),
        names[3]: (State.RUNNING, "132"),
    }
    assert guests_of(rows, names, {LONG[1]: 131}, guest=LONG[1])[LONG[0]] == (State.STOPPED, "")


def test_a_running_guest_without_a_configuration_is_not_overlooked() -> None:
    found = guests_of(stat((49152, ""), (40, "[legacy]")), ["uut"], {})
    assert {name for name, (state, _) in found.items() if state is State.RUNNING} == {"context 49152", "[legacy]"}


def test_a_planned_guest_whose_name_file_says_another_is_not_taken_for_two() -> None:
    # getRecentName() in getvservername.c shows what /etc/vservers/NAME/name holds.
    assert guests_of(stat((131, "shown")), ["uut"], {"uut": 131}) == {"uut": (State.RUNNING, "131")}


@pytest.mark.parametrize("text", ["", "CTX# PROC QTY\n", HEADER + "131 what is this\n"])
def test_a_table_of_vserver_stat_that_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(NodeError, match="vserver-stat` printed a line that is not understood"):
        guests_of(text, ["uut"], {})


def test_vserver_is_given_no_bare_number_as_a_name() -> None:
    # scripts/vserver takes a number for a context, of whichever guest.
    driver = vserver.VserverDriver("p", {"guest": 131})
    asked = shell({"vserver": "Vserver '/etc/vservers/131' is running at context '40'\n"})
    assert run(driver.state(asked, "131")).ident == "40"
    assert asked.asked == ["vserver /etc/vservers/131 status"]


# LXC ----------------------------------------------------------------------------------------------------------------

LXC = lxc.LxcDriver("p", {"guest": "fw"})


def test_names_of_containers_may_hold_blanks_and_what_is_not_stopped_runs() -> None:
    # LXC 5.0.2: `lxc-ls --active` leaves out a running container with a blank in its name.
    answers: dict[str, str | tuple[int, str]] = {
        "lxc-ls -1 --stopped": "fw\n",
        "lxc-ls -1": "fw\nweb server\n",
        "lxc-info -n fw -sH": "STOPPED\n",
    }
    found = run(LXC.guests(shell(answers)))
    assert {name: guest.state for name, guest in found.items()} == {"fw": State.STOPPED, "web server": State.RUNNING}


@pytest.mark.parametrize("word", ["FREEZE", "INVALID STATE", "(null)", ""])
def test_another_state_of_lxc_is_named(word: str) -> None:
    # The eight words of lxc_state2str() are the same in LXC 1.0 to 6.0.
    assert len(lxc.STATES) == 8
    with pytest.raises(NodeError, match="expected: RUNNING, STOPPED"):
        run(LXC.state(shell({"lxc-info": f"{word}\n"}), "fw"))


def test_lxc_that_may_not_control_a_container_says_so() -> None:
    # All tools of LXC 1.0 to 6.0 spell it like this.
    with pytest.raises(CapabilityMissing, match="no permission to use lxc-info"):
        run(LXC.state(shell({"lxc-info": (1, "Insufficent privileges to control fw\n")}), "fw"))


@pytest.mark.parametrize("prefix", ["lxc.net", "lxc.network"])
def test_networks_are_read_in_the_words_of_lxc_1_and_of_lxc_3(prefix: str) -> None:
    settings = (
        f"{prefix}.0.type = macvlan\n{prefix}.0.link = eth7\n{prefix}.1.type = veth\n"
        f"{prefix}.1.hwaddr = 02:00:00:00:0a:01\n{prefix}.1.veth.pair =\n"
    )
    # print_net_stats() of lxc_info.c: a line for each network, of whatever type.
    shown = "Name:           fw\nState:          RUNNING\nLink:           eth7\n TX bytes: 1\nLink:           vethAB\n"
    nics = run(LXC.nics(shell({"lxc-info -n fw -c": settings, "lxc-info -n fw": shown}), "fw"))
    assert [(nic.model, nic.host_interface) for nic in nics] == [("macvlan", None), ("veth", "vethAB")]


def test_ends_of_networks_behind_one_without_an_interface_are_not_guessed() -> None:
    # LXC 5.0.2 ends its list there; findings/lxc-info-stops-at-empty-network.sh.
    types = ("veth", "empty", "veth")
    settings = "".join(f"lxc.net.{n}.type = {kind}\nlxc.net.{n}.veth.pair = pair{n}\n" for n, kind in enumerate(types))
    for shown in ("Link:           vethA\n", "Link:           vethA\nLink:           vethC\n"):
        nics = run(LXC.nics(shell({"lxc-info -n fw -c": settings, "lxc-info -n fw": shown}), "fw"))
        assert [nic.host_interface for nic in nics] == ["vethA", "pair2"]


# Programs and templates ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)", "7.2.22"),
        ("QEMU emulator version 8.2.0 (qemu-kvm-8.2.0-11.el9)", "8.2.0"),
        ("6.1.176", "6.1.176"),
        ("ERROR: ld.so: object '/usr/lib/libx.so.1.2' cannot be preloaded: ignored.", None),
    ],
)
def test_the_version_of_a_program_is_what_it_calls_one(line: str, version: str | None) -> None:
    found = _VERSION.search(line)
    assert (found and found[1]) == version


def test_a_list_by_a_template_names_what_is_missing_or_ambiguous() -> None:
    options = {
        "guest": "fw",
        "list": {"argv": ["hv", "ls"], "json": {"each": "*", "guest": "n", "state": "s"}},
        "state": {"argv": ["hv", "st", "{guest}"], "regex": "(?P<state>.+)"},
        "start": ["hv"],
        "kill": ["hv"],
        "nics_of": {"argv": ["hv"], "regex": "(?P<mac>.+)"},
    }
    driver = CommandDriver("p", options)
    with pytest.raises(NodeError, match="reports no `guest` in row 2"):
        run(driver.guests(shell({"hv ls": '[{"n": "fw"}, {"s": "running"}]'})))
    with pytest.raises(NodeError, match="lists two guests named fw"):
        run(driver.guests(shell({"hv ls": '[{"n": "fw"}, {"n": "fw"}]'})))
    many = run(driver.guests(shell({"hv ls": str([{"n": str(n)} for n in range(2000)]).replace("'", '"')})))
    assert len(many) == 1001, "so that more than 1000 are refused, and not cut"
