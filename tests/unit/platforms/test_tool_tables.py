"""Tables of vim-cmd, esxcli, xl and virsh over their versions: which row is whose, and what is refused.

Layouts are those of Xen's source (tools/libxl/xl_cmdimpl.c, tools/xl), of libvirt's source (tools/virsh-*.c) and, for
ESXi, of public transcripts of 5.x to 9.0. Names and numbers are made up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from labconsole.errors import CapabilityMissing, ConfigError, NodeError
from labconsole.network.control_groups import Limits
from labconsole.platforms.base.guest import State, UnknownLine
from labconsole.platforms.base.shell import Answer, Shell, collapsed
from labconsole.platforms.drivers import esxi, libvirt
from labconsole.platforms.drivers.esxi import EsxiDriver
from labconsole.platforms.drivers.libvirt import LibvirtDriver
from labconsole.platforms.drivers.xl import XlDriver


class Said(Shell):
    """Answers commands that contain a text."""

    def __init__(self, answers: Mapping[str, str]) -> None:
        super().__init__(SimpleNamespace(name="uut"), "p")
        self.answers, self.argvs = answers, list[str]()

    async def run(self, argv: Any, *, limit_s: float = 30.0) -> Answer:
        line = " ".join(argv)
        self.argvs.append(line)
        text = next((text for part, text in self.answers.items() if part in line), None)
        return Answer(tuple(argv), 0 if text is not None else 1, collapsed(text or ""), "")


def on_esxi(**options: Any) -> EsxiDriver:
    return EsxiDriver("e", {"guest": "fw", "ssh": "root@esxi", **options})


def on_xen(**options: Any) -> XlDriver:
    return XlDriver("x", {"guest": "fw", "config": "/etc/xen/fw.cfg", **options})


def on_libvirt(**options: Any) -> LibvirtDriver:
    return LibvirtDriver("l", {"guest": "fw", **options})


# vim-cmd vmsvc/getallvms ------------------------------------------------------------------------------------------

Rows = list[tuple[str, str, str, str]]


def getallvms(rows: Rows, *, width: Callable[[str], int] = len) -> str:
    """The table as ESXi lays it out: columns as wide as their longest value and three blanks; titles are centred."""
    cells = [(vmid, name, file, "other6xLinux64Guest", "vmx-19", note) for vmid, name, file, note in rows]
    widths = [max(width(cell) for cell in column) for column in zip(*cells, strict=True)]
    lines = [
        "   ".join(cell + " " * (wide - width(cell)) for cell, wide in zip(row, widths, strict=True)) for row in cells
    ]
    titles = ("Vmid", "Name", "File", "Guest OS", "Version", "Annotation")
    return "\n".join(["   ".join(t.center(w) for t, w in zip(titles, widths, strict=True)), *lines]) + "\n"


FW = ("22", "fw", "[datastore1] fw/fw.vmx", "")


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("fw [old]", "[datastore1] fw-old/fw-old.vmx"),
        ("[old] fw", "[datastore1] [old] fw/[old] fw.vmx"),
        ("fw [a] b", "[datastore1] fw [a] b/fw [a] b.vmx"),
        ("fw   [a]   b", "[local ds (1)] fw   [a]   b/x.vmx"),
        ("fw  2", "[nas:a] fw  2/fw  2.vmx"),
        ("7 10", "[datastore1] 7 10/7 10.vmx"),
        ("fw.vmx", "[datastore1] fw.vmx/fw.vmx.vmx"),
        ("fw%2fold", "[datastore1] fw_old/fw_old.vmx"),
        ("x" * 80, "[datastore1] x/x.vmx"),
        ("rôle [ü]", "[datastore1] a/a.vmx"),
    ],
)
@pytest.mark.parametrize("width", [len, lambda cell: len(cell.encode())], ids=["characters", "bytes"])
@pytest.mark.parametrize("alone", [True, False])
def test_a_machine_of_any_name_is_found_by_it(name: str, file: str, width: Any, alone: bool) -> None:
    rows = [("18", name, file, ""), *([] if alone else [FW, ("3", "web", "[datastore1] web/web.vmx", "")])]
    found = esxi.machines(collapsed(getallvms(rows, width=width)))
    store, _, path = file[1:].partition("] ")
    assert found[name] == ("18", f"/vmfs/volumes/{store}/{path}")
    assert len(found) == len(rows)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        # ESXi 8.0: centred titles, machines in the order of their numbers as words.
        (
            "Vmid        Name                  File              Guest OS          Version   Annotation\n"
            "10     _sol 11.4   [10.0.0.3_nfs] sol/sol.vmx   solaris11_64Guest    vmx-19              \n"
            "5      a delay     [local_ds] a delay/d.vmx     otherLinuxGuest      vmx-20              \n",
            {"_sol 11.4": "10", "a delay": "5"},
        ),
        # ESXi 9.0: a machine of the cluster's own has no datastore.
        (
            "Vmid   Name     File     Guest OS     Version   Annotation\n"
            "1698   vCLS-6b   [] /var/run/crx/infra/vCLS-6b/vCLS-6b.vmx   crxSys1Guest   vmx-21              \n",
            {"vCLS-6b": "1698"},
        ),
        # A transcript whose blanks were lost on the way.
        ("Vmid Name File Guest OS Version Annotation\n1 VM1 [VMs] VM1/VM1.vmx rhel6_64Guest vmx-08\n", {"VM1": "1"}),
        ("Vmid   Name   File   Guest OS   Version   Annotation\n", {}),
        ("Skipping invalid VM '16'\nVmid   Name   File   Guest OS   Version   Annotation\r\n", {}),
    ],
)
def test_layouts_of_versions_of_esxi(text: str, found: dict[str, str]) -> None:
    assert {name: vmid for name, (vmid, _) in esxi.machines(text).items()} == found


def test_a_machine_without_a_datastore_has_a_file_of_its_own() -> None:
    assert esxi.machines(getallvms([("9", "crx", "[] /var/run/crx/c.vmx", "")]))["crx"] == ("9", "/var/run/crx/c.vmx")


NOTE = "99     fw      [datastore1] fw/fw.vmx      otherLinux64Guest   vmx-13"


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([FW, ("18", "fw", "[datastore2] fw/fw.vmx", "")], "2 rows have the name fw: Vmid 22 and 18"),
        ([FW, ("18", "web", "[ds] web/web.vmx", f"was\n{NOTE}")], "2 rows have the name fw: Vmid 22 and 99"),
        ([FW, ("18", "web", "[ds] web/web.vmx", f"was\n22{NOTE[2:].replace('fw ', 'x  ')}")], "Vmid 22 is in 2 rows"),
        ([FW, ("18", "web", "[ds] web/web.vmx", "was\n23    fw    [ds] fw/fw.v")], "the row '23 fw .ds. fw/fw.v'"),
        ([("18", "web", "[ds] web/web.vmx", "")], "there is no guest fw; .* are web"),
        ([("18", "fw 2", "[ds] web/web.vmx", ""), ("19", "fw-2", "[ds] w/w.vmx", "")], "there is no guest fw"),
    ],
)
def test_a_name_that_is_not_one_machine_s_is_refused(rows: Rows, why: str) -> None:
    shell = Said({"getallvms": getallvms(rows), "getstate": "Retrieved runtime info\nPowered on\n"})
    for ask in (on_esxi().state, on_esxi().start, on_esxi().kill, on_esxi().build_stop_commands):
        with pytest.raises(NodeError, match=why):
            asyncio.run(ask(shell, "fw"))
    with pytest.raises(NodeError, match=why):
        asyncio.run(on_esxi().guests(shell))
    assert not [line for line in shell.argvs if "power.o" in line]


@pytest.mark.parametrize(
    "row",
    [
        "18     fw [old] [datastore1] fw-old/fw-old.vmx   otherLinux64Guest   vmx-19",
        "18     fw   [datastore [1]] fw/fw.vmx   otherLinux64Guest   vmx-19",
        "18     fw   [datastore1] fw/fw.vmx   otherLinux64Guest",
    ],
)
def test_a_row_with_two_readings_or_none_is_refused(row: str) -> None:
    text = f"Vmid   Name   File   Guest OS   Version   Annotation\n{row}\n"
    assert esxi.machines(text) == {}
    shell = Said({"getallvms": text, "getstate": "Powered on\n"})
    for ask in (on_esxi().state(shell, "fw"), on_esxi().guests(shell)):
        with pytest.raises(NodeError, match="the row '18 fw .* cannot be read with certainty"):
            asyncio.run(ask)


def test_others_with_one_name_and_lines_of_annotations_do_not_hide_a_guest() -> None:
    rows: Rows = [
        FW,
        ("18", "web", "[a] web/web.vmx", "2 CPUs\n10 GB\n7 see [b]"),
        ("19", "web", "[b] web/web.vmx", f"copy\n{NOTE.replace('fw', 'gone')}"),
    ]
    missing = '(vim.fault.NotFound) {\n   msg = "Unable to find a VM corresponding to "99""\n}\n'
    shell = Said(
        {"getallvms": getallvms(rows), "getstate 99": missing, "getstate": "Retrieved runtime info\nPowered off\n"}
    )
    assert sorted(asyncio.run(on_esxi().guests(shell))) == ["fw", "web (18)", "web (19)"]


def test_a_table_that_is_not_known_is_refused() -> None:
    shell = Said({"getallvms": "ID   Name   File\n22   fw   [datastore1] fw/fw.vmx\n"})
    with pytest.raises(NodeError, match="did not print a known table: 'ID Name File"):
        asyncio.run(on_esxi().state(shell, "fw"))


def test_a_summary_of_esxi_that_begins_over_and_over_is_read_in_one_pass() -> None:
    """A node may send a megabyte of it; searched again from each line, that takes minutes."""
    vm = "   vm = 'vim.VirtualMachine:40', \n"
    assert esxi.summary(vm * 30_000) is None
    config = '   config = (vim.vm.Summary.ConfigSummary) {\n      name = "fw", \n'
    assert esxi.summary(vm * 30_000 + config) == ("40", "fw")


@pytest.mark.parametrize(
    ("said", "state"),
    [("Powered on", State.RUNNING), ("Powered off", State.STOPPED), ("Suspended", State.PAUSED), ("Unknown", None)],
)
def test_power_states_of_esxi_are_three(said: str, state: State | None) -> None:
    shell = Said({"getallvms": getallvms([FW]), "getstate": f"Retrieved runtime info\n{said}\n"})
    if state is None:
        with pytest.raises(NodeError, match="reports that machine fw is 'Retrieved runtime info Unknown'|'Unknown'"):
            asyncio.run(on_esxi().state(shell, "fw"))
    else:
        assert asyncio.run(on_esxi().state(shell, "fw")).state is state


# esxcli network vm list -------------------------------------------------------------------------------------------

WORLDS = """\
World ID  Name              Num Ports  Networks
--------  ----------------  ---------  --------
 2270220  fw                        2  VM Network, VM Network1
 2270066  fw  2  x                  3  VM Network
  193286  Server, with GPU          1  a
"""
CSV = 'Name,Networks,NumPorts,WorldID,\nfw,"a,b,",2,2270220,\n"fw  2  x","VM Network,",3,2270066,\n'


@pytest.mark.parametrize("text", [WORLDS, CSV])
def test_worlds_are_read_by_column(text: str) -> None:
    rows, unread = esxi.worlds(text) or ([], ["none"])
    assert [(row.name, row.ident) for row in rows][:2] == [("fw", "2270220"), ("fw  2  x", "2270066")]
    assert unread == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (WORLDS.replace("fw  2  x", "fw      "), "2 rows have the name fw: World ID 2270220 and 2270066"),
        (WORLDS.replace("fw  2  x        ", "fw overflows it x"), "cannot be read"),
        (CSV.replace(",2270066", ""), "cannot be read"),
        (CSV.replace("WorldID", "World"), "did not print a known table"),
        ("World ID  Name\n 1  fw\n", "did not print a known table"),
        (WORLDS.replace(" fw ", " gw "), "does not show machine fw"),
    ],
)
def test_a_world_that_is_not_one_machine_s_is_refused(text: str, why: str) -> None:
    shell = Said({"getallvms": getallvms([FW]), "network vm list": text, "cat ": ""})
    with pytest.raises(NodeError, match=why):
        asyncio.run(on_esxi().nics(shell, "fw"))


# xl ---------------------------------------------------------------------------------------------------------------

OLD, NEW = "CPU Affinity", "Affinity (Hard / Soft)"


def vcpu_list(title: str, *rows: tuple[str, int, int, str, str, str]) -> str:
    """As print_vcpuinfo() of Xen 4.0 to 4.22 prints it."""
    lines = [f"{'Name':<32} {'ID':>5} {'VCPU':>5} {'CPU':>5} {'State':>5} {'Time(s)':>9} {title}"]
    lines += [
        f"{name:<32} {i:5} {v:5}{cpu:>5}   {state} {140005.6:9.1f}  {cpus}" for name, i, v, cpu, state, cpus in rows
    ]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("title", "rows", "pinning"),
    [
        # Xen 4.0 to 4.3 say "any cpu", 4.4 "all"; one column up to there.
        (OLD, [("fw", 16, 0, "0", "---", "any cpu"), ("fw", 16, 1, "2", "r--", "0-3")], {"0": "all", "1": "0-3"}),
        (OLD, [("fw", 16, 0, "12", "-b-", "0,2,5-7")], {"0": "0,2,5-7"}),
        (OLD, [("fw", 16, 0, "0", "---", "all")], {"0": "all"}),
        # 4.5 and later: hard and soft. A vCPU that is offline has no CPU.
        (
            NEW,
            [("fw", 1, 0, "0", "r--", "all / all"), ("fw", 1, 1, "-", "--p", "2-3 / none")],
            {"0": "all", "1": "2-3"},
        ),
        (NEW, [("fw", 1, 0, "0", "-b-", "1 / 0-1,3")], {"0": "1"}),
        # Each row says whose it is, and a name is padded, never cut.
        (NEW, [("Domain-0", 0, 0, "3", "r--", "3 / all"), ("fw", 1, 0, "0", "-b-", "1 / all")], {"0": "1"}),
        (NEW, [("fw 1 0 0", 2, 0, "3", "r--", "3 / all"), ("fw", 1, 0, "0", "-b-", "1 / all")], {"0": "1"}),
        (NEW, [("fw" + "x" * 40, 2, 0, "3", "r--", "3 / all")], None),
        (NEW, [("(null)", 2, 0, "3", "r--", "3 / all")], None),
        (NEW, [], None),
    ],
)
def test_affinities_of_xen_over_its_versions(title: str, rows: Any, pinning: dict[str, str] | None) -> None:
    shell = Said({"vcpu-list fw": vcpu_list(title, *rows)})
    assert asyncio.run(on_xen().pinning(shell, "fw")) == pinning


@pytest.mark.parametrize(
    "text",
    [
        vcpu_list(OLD, ("fw", 1, 0, "0", "r--", "all / all")),
        vcpu_list(NEW, ("fw", 1, 0, "0", "r--", "all")),
        vcpu_list(OLD, ("fw", 1, 0, "0", "r--", "none")),
        vcpu_list(OLD, ("fw", 1, 0, "0", "r--", "0-630-5")),  # 4.0 on more than 64 CPUs
        vcpu_list(OLD, ("fw", 1, 0, "0", "r--", "0-3"), ("fw", 1, 0, "0", "r--", "1")),
        vcpu_list(OLD, ("fw", 1, 0, "0", "r--", "0-3"), ("fw", 2, 1, "0", "r--", "1")),
        vcpu_list("Hard affinity", ("fw", 1, 0, "0", "r--", "0-3")),
        vcpu_list(OLD, ("fw", 1, 0, "0", "x--", "0-3")),
        "",
    ],
)
def test_affinities_of_xen_that_are_not_known_are_refused(text: str) -> None:
    with pytest.raises(NodeError, match="`xl vcpu-list fw` printed an unrecognized line"):
        asyncio.run(on_xen().pinning(Said({"vcpu-list fw": text}), "fw"))


def xl_list(*rows: tuple[str, int, str]) -> str:
    """As list_domains() of Xen 4.0 to 4.22 prints it."""
    lines = ["Name                                        ID   Mem VCPUs\tState\tTime(s)"]
    lines += [f"{name:<40} {ident:5} {512:5} {2:5}     {said}  {139968.3:8.1f}" for name, ident, said in rows]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("letters", "state"),
    [
        ("r-----", State.RUNNING),
        ("rb----", State.RUNNING),
        ("--p---", State.PAUSED),
        ("---s--", State.CHANGING),  # shut down: power off
        ("---sr-", State.CHANGING),  # … reboot
        ("---ss-", State.CHANGING),  # … suspend
        ("---sS-", State.CHANGING),  # … soft reset, since 4.7
        ("---s?-", State.CHANGING),  # … a reason that xl does not know
        ("---sc-", State.FAILED),  # … crash
        ("---sw-", State.FAILED),  # … its watchdog
        ("---scd", State.FAILED),
        ("-----d", State.CHANGING),
        ("--ps-d", State.CHANGING),
    ],
)
def test_why_a_guest_of_xen_shut_down_is_no_state_by_itself(letters: str, state: State) -> None:
    shell = Said({"xl list": xl_list(("Domain-0", 0, "r-----"), ("fw", 16, letters))})
    assert asyncio.run(on_xen().state(shell, "fw")).state is state


@pytest.mark.parametrize("name", ["fw", "web 1 2 3", "x" * 60, "a  b", "r-----", "(null)"])
def test_a_guest_of_xen_of_any_name_is_found_by_it(name: str) -> None:
    shell = Said({"xl list": xl_list(("Domain-0", 0, "r-----"), (name, 16, "-b----"), ("other", 17, "--p---"))})
    found = asyncio.run(on_xen().state(shell, name))
    assert (found.state, found.ident) == (State.RUNNING, "16")


def test_two_guests_of_xen_with_one_name_are_refused_and_others_are_not() -> None:
    twice = Said({"xl list": xl_list(("fw", 16, "-b----"), ("fw", 17, "------"))})
    for ask in (on_xen().state(twice, "fw"), on_xen().guests(twice)):
        with pytest.raises(NodeError, match="`xl list` does not show which guest fw is: 2 rows .* fw: ID 16 and 17"):
            asyncio.run(ask)
    zombies = Said({"xl list": xl_list(("fw", 16, "-b----"), ("(null)", 3, "--ps-d"), ("(null)", 4, "--ps-d"))})
    assert sorted(asyncio.run(on_xen().guests(zombies))) == ["(null) (3)", "(null) (4)", "fw"]


@pytest.mark.parametrize(
    "text",
    [
        xl_list(("fw", 16, "x-----")),
        xl_list(("fw", 16, "-b---")),
        xl_list(("fw", 16, "-b----")).replace("Mem", "Memory"),
        "fw 16 512 2 -b---- 1.0\n",
        "",
    ],
)
def test_a_row_of_xl_list_that_is_not_known_is_refused_not_taken_for_a_guest_that_is_off(text: str) -> None:
    with pytest.raises(NodeError, match="`xl list` printed an unrecognized line"):
        asyncio.run(on_xen().state(Said({"xl list": text}), "fw"))


@pytest.mark.parametrize(
    ("lines", "version"),
    [
        ("xen_major              : 4\nxen_minor              : 1\nxen_extra              : .2-rc3\n", "4.1.2-rc3"),
        ("xen_major : 4\nxen_minor : 2\nxen_extra : \nxen_scheduler : credit\n", "4.2"),
        ("xen_major : 4\nxen_minor : 17\nxen_extra : .7\nxen_version            : 4.17.7\n", "4.17.7"),
        ("xen_version : 4.13.1 (vendor build)\n", "4.13.1 (vendor build)"),
    ],
)
def test_the_version_of_xen_before_4_4_is_in_three_lines(lines: str, version: str) -> None:
    assert asyncio.run(on_xen().probe(Said({"xl info": f"host : a\nrelease : 3.2.0\n{lines}"})))["xen"] == version


def test_xl_that_cannot_ask_xen_is_missing() -> None:
    with pytest.raises(CapabilityMissing, match="does not run under Xen"):
        asyncio.run(on_xen().probe(Said({"xl info": "host : a\nrelease : 3.2.0\n"})))


@pytest.mark.parametrize(
    ("scheduler", "text", "found"),
    [
        # sched-credit of every version, sched-credit2 of 4.10 and later.
        (
            "credit",
            f"{'Name':<33} {'ID':>4} {'Weight':>6} {'Cap':>4}\n{'fw 1':<33} {16:4} {256:6} {50:4}\n",
            ("256", "50"),
        ),
        (
            "credit2",
            f"Cpupool Pool-0: ratelimit=1000us\n{'Name':<33} {'ID':>4} {'Weight':>6} {'Cap':>4}\n"
            f"{'Domain-0':<33} {0:4} {256:6} {0:4}\n{'fw 1':<33} {16:4} {512:6} {0:4}\n",
            ("512", "0"),
        ),
    ],
)
def test_weight_and_cap_of_a_guest_of_xen(scheduler: str, text: str, found: tuple[str, str]) -> None:
    shell = Said({"xl info": f"xen_version : 4.17\nxen_scheduler : {scheduler}\n", "xl sched-": text})
    read = asyncio.run(on_xen().settings(shell, "fw 1", ["weight", "cap"]))
    assert (read["weight"], read["cap"]) == found


def test_credit2_before_4_10_has_a_weight_and_no_cap() -> None:
    text = f"{'Name':<33} {'ID':>4} {'Weight':>6}\n{'fw 7':<33} {16:4} {256:6}\n"
    shell = Said({"xl info": "xen_version : 4.8\nxen_scheduler : credit2\n", "xl sched-": text})
    assert asyncio.run(on_xen().settings(shell, "fw 7", ["weight"])) == {"weight": "256"}
    with pytest.raises(CapabilityMissing, match="this version of Xen has no cap for a guest, only weight"):
        asyncio.run(on_xen().settings(shell, "fw 7", ["weight", "cap"]))
    with pytest.raises(NodeError, match="printed an unrecognized line"):
        asyncio.run(on_xen().settings(shell, "fw", ["weight"]))


NICS = "Idx BE Mac Addr.         handle state evt-ch   tx-/rx-ring-ref BE-path                       \n"


def test_a_nic_whose_other_end_is_in_a_driver_domain_has_none_on_this_node() -> None:
    """Column BE of `xl network-list`: the domain of the back end, which is not always the host."""
    text = (
        f"{NICS}0   0  00:16:3e:00:00:01     0     4     -1   520/521         /local/domain/0/backend/vif/16/0\n"
        "1   5  00:16:3e:00:00:02     1     4     -1  1034/1035        /local/domain/5/backend/vif/16/1\n"
    )
    shell = Said({"network-list": text, "xl list -l": "[]", "xl list": xl_list(("fw", 16, "-b----"))})
    nics = asyncio.run(on_xen().nics(shell, "fw"))
    assert [(nic.mac, nic.host_interface) for nic in nics] == [
        ("00:16:3e:00:00:01", "vif16.0"),
        ("00:16:3e:00:00:02", None),
    ]


OF_TWO_DOMAINS = "0   0  00:16:3e:00:00:01     0     4     -1    -1/-1          /local/domain/5/backend/vif/16/0\n"
"""As in a public listing of Qubes OS 4.0: BE is the host, BE-path another domain."""
OF_THE_HOST = OF_TWO_DOMAINS.replace("domain/5", "domain/0")


@pytest.mark.parametrize(
    "row",
    ["0   0  -  0 4 -1 520/521 /local\n", "fw 1\n", OF_THE_HOST * 2, OF_TWO_DOMAINS],
    ids=["no address", "no NIC", "twice", "of two domains"],
)
def test_nics_of_xen_that_are_not_known_are_refused(row: str) -> None:
    with pytest.raises(NodeError, match="`xl network-list fw` printed an unrecognized line"):
        asyncio.run(on_xen().nics(Said({"network-list": NICS + row}), "fw"))


# Names that a tool takes for numbers ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "name", "kind"),
    [
        (on_xen, "101", "ID to xl"),
        (on_xen, "007", "ID to xl"),
        (on_libvirt, "101", "ID to virsh"),
        (on_libvirt, "+1", "ID to virsh"),
        (on_libvirt, "6695eb01-f6a4-8304-79aa-97f2502e193f", "UUID to virsh"),
        (on_libvirt, "99999999999", None),
        (on_libvirt, "fw-6695eb01-f6a4-8304-79aa-97f2502e", None),
        (on_xen, "+1", None),
        (on_xen, "6695eb01-f6a4-8304-79aa-97f2502e193f", None),
        (on_esxi, "101", None),
    ],
)
@pytest.mark.parametrize("key", ["guest", "second_guest", "guests"])
def test_a_name_that_a_tool_takes_for_another_guest_s_number_is_refused(
    make: Callable[..., Any], name: str, kind: str | None, key: str
) -> None:
    """libxl_domain_qualifier_to_domid() of Xen, virshLookupDomainInternal() of libvirt: numbers come first."""
    options = {key: [name] if key == "guests" else name}
    if kind is None:
        make(**options)
        return
    with pytest.raises(ConfigError, match=f"is a domain's {kind}, which may be another guest's") as raised:
        make(**options)
    assert (raised.value.key or "").endswith(f".{key}")


# virsh ------------------------------------------------------------------------------------------------------------


def old_list(*rows: tuple[str, str, str]) -> str:
    """virsh before 4.10: columns of fixed width."""
    return f" {'Id':<5} {'Name':<30} State\n{'-' * 52}\n" + "".join(f" {i:<5} {n:<30} {s}\n" for i, n, s in rows) + "\n"


@pytest.mark.parametrize(
    "rows",
    [
        [("1", "fw", "running"), ("-", "fw old", "shut off"), ("22", "x" * 45, "paused")],
        [("1", "in", "in shutdown"), ("2", "shut off", "crashed"), ("-", "9 running", "shut off")],
        [("7", "fw  2", "pmsuspended"), ("8", "a", "idle"), ("9", "b", "no state"), ("10", "c", "dying")],
        [],
    ],
)
def test_virsh_list_of_old_versions(rows: list[tuple[str, str, str]]) -> None:
    read = [(row.ident or "-", row.name, row.said) for row in libvirt.rows(old_list(*rows))]
    assert read == rows


@pytest.mark.parametrize(
    "text",
    [
        old_list(("1", "fw", "blocked")),
        old_list(("1", "fw", "en cours d’exécution")),
        " Id   Name   Zustand\n---\n 1    fw     laufend\n",
        "error: failed to connect\n",
    ],
)
def test_a_row_of_virsh_with_a_state_that_is_not_known_is_refused_not_left_out(text: str) -> None:
    with pytest.raises(NodeError, match="list --all` printed an unrecognized line"):
        asyncio.run(on_libvirt().guests(Said({"list --all": text})))


@pytest.mark.parametrize(
    ("uri", "said", "state"),
    [
        ("qemu:///system", "running", State.RUNNING),
        ("qemu:///system", "idle", State.RUNNING),
        ("qemu:///system", "paused", State.PAUSED),
        ("qemu:///system", "pmsuspended", State.PAUSED),
        ("qemu:///system", "in shutdown", State.CHANGING),
        ("qemu:///system", "shut off", State.STOPPED),
        ("qemu:///system", "crashed", State.FAILED),
        # virsh prints it for a state that is newer than it, too.
        ("qemu:///system", "no state", State.CHANGING),
        ("xen:///system", "no state", State.RUNNING),
        ("xen+ssh://root@xen1/", "no state", State.RUNNING),
    ],
)
def test_states_of_libvirt(uri: str, said: str, state: State) -> None:
    shell = Said({"domstate fw": f"{said}\n\n", "list --all": old_list(("4", "fw", said))})
    assert asyncio.run(on_libvirt(uri=uri).state(shell, "fw")).state is state
    assert asyncio.run(on_libvirt(uri=uri).guests(shell))["fw"].state is state


def test_only_xen_s_own_domain_is_no_guest() -> None:
    shell = Said(
        {"list --all": old_list(("0", "dom0", "running"), ("4", "fw", "running"), ("5", "Domain-0", "running"))}
    )
    assert sorted(asyncio.run(on_libvirt(uri="xen:///system").guests(shell))) == ["Domain-0", "fw"]
    assert sorted(asyncio.run(on_libvirt().guests(shell))) == ["Domain-0", "dom0", "fw"]


def test_names_that_differ_only_by_blanks_at_an_end_are_ambiguous() -> None:
    """libvirt 9.0 defines a domain of the name " fw"; its table does not show where a name ends."""
    text = " Id   Name       State\n---------------------------\n 1    fw         running\n -     fw        shut off\n"
    with pytest.raises(NodeError, match="does not show which guest fw is: 2 rows have the name fw"):
        asyncio.run(on_libvirt().guests(Said({"list --all": text})))


def test_a_name_that_the_table_of_virsh_escapes_is_asked_for_by_itself() -> None:
    """virsh 9.0 under LC_ALL=C: each byte beyond ASCII is printed as the same word, so that names look alike."""
    text = (
        " Id   Name          State\n------------------------------\n 1    fw            running\n"
        " -    r\\xff\\xffle   shut off\n -    a\\x5cx20b     shut off\n\n"
    )
    shell = Said({"--name": "fw\na\\x20b\nrôle\n\n", "list --all": text, "domstate": "shut off\n"})
    assert sorted(asyncio.run(on_libvirt().guests(shell))) == ["a\\x20b", "fw", "rôle"]
    shell = Said({"--name": "fw\nrôle\nréle\n\n", "list --all": text, "domstate": "shut off\n"})
    assert sorted(asyncio.run(on_libvirt().guests(shell))) == ["fw", "réle", "rôle"]
    with pytest.raises(NodeError, match="lists 3 guests with their states, and as names: fw, rôle"):
        asyncio.run(on_libvirt().guests(Said({"--name": "fw\nrôle\n\n", "list --all": text})))


@pytest.mark.parametrize(
    ("row", "nic"),
    [
        (" vnet0       network    my net     virtio   52:54:00:00:00:01", ("vnet0", "network my net", "virtio")),
        ("vnet0      bridge     br0        rtl8139     52:54:00:00:00:01", ("vnet0", "bridge br0", "rtl8139")),
        (" -   vhostuser   /run/a b/sock   -   52:54:00:00:00:01", (None, "vhostuser /run/a b/sock", None)),
        (" -   hostdev   -   -   52:54:00:00:00:01", (None, "hostdev -", None)),
    ],
)
def test_interfaces_of_libvirt(row: str, nic: tuple[str | None, str, str | None]) -> None:
    text = f" Interface   Type   Source   Model   MAC\n------------\n{row}\n\n"
    (found,) = libvirt.interfaces(text)
    assert (found.host_interface, found.attached_to, found.model) == nic
    assert found.mac == "52:54:00:00:00:01"


def test_a_nic_of_libvirt_without_an_address_keeps_its_place() -> None:
    """`guest_nic` and streams count NICs: one that is left out gives all behind it another number."""
    rows = " -   user   -   virtio   -\n vnet1   bridge   br1   virtio   52:54:00:00:00:02\n"
    nics = libvirt.interfaces(f" Interface   Type   Source   Model   MAC\n---\n{rows}")
    assert [nic.mac for nic in nics] == [None, "52:54:00:00:00:02"]
    with pytest.raises(UnknownLine):
        libvirt.interfaces(" Interface   Type   Source   Model   MAC\n---\n vnet1   bridge   52:54:00:00:00:02\n")


@pytest.mark.parametrize(
    ("text", "pinning"),
    [
        ("VCPU: CPU Affinity\n----------------------------------\n   0: 0-3\n   1: 1,3\n\n", {"0": "0-3", "1": "1,3"}),
        (" VCPU   CPU Affinity\n----------------------\n 0      0-7\n 1      ^2,0-7\n\n", None),
        (" VCPU   CPU Affinity\n----------------------\n 0      0-7\n 1      \n\n", None),
        (" VCPU   CPU Affinity\n----------------------\n 0      0-7\n", {"0": "0-7"}),
    ],
)
def test_affinities_of_libvirt(text: str, pinning: dict[str, str] | None) -> None:
    shell = Said({"vcpupin fw": text})
    if pinning is None:
        with pytest.raises(NodeError, match="vcpupin fw` printed an unrecognized line"):
            asyncio.run(on_libvirt().pinning(shell, "fw"))
    else:
        assert asyncio.run(on_libvirt().pinning(shell, "fw")) == pinning


@pytest.mark.parametrize("unlimited", ["-1", "18446744073709551", "17592186044415"])
def test_a_quota_that_is_not_set_is_read_in_virsh_s_own_words(unlimited: str) -> None:
    """Control groups 1, control groups 2 before libvirt 7.0, and since; each is taken back as it is."""
    text = f"Scheduler      : posix\ncpu_shares     : 1024\nglobal_period  : 100000\nglobal_quota   : {unlimited}\n"
    shell = Said({"schedinfo fw": text})
    assert asyncio.run(on_libvirt().settings(shell, "fw", ["global_quota"])) == {"global_quota": unlimited}
    wanted = Limits(group="g", cpu_shares=None, cpu_quota_ratio=0.5, memory_mib=None)
    assert asyncio.run(on_libvirt().limit_settings(shell, "fw", wanted)) == {"global_quota": "50000"}


def test_a_node_without_quotas_does_not_hold_a_guest_to_one() -> None:
    """A quota of 0 reads back as 0, and sets nothing."""
    shell = Said({"schedinfo fw": "Scheduler      : posix\nglobal_period  : 0\nglobal_quota   : 0\n"})
    wanted = Limits(group="g", cpu_shares=None, cpu_quota_ratio=0.5, memory_mib=None)
    with pytest.raises(CapabilityMissing, match="global_period 0 of guest fw: this node sets no CPU quotas"):
        asyncio.run(on_libvirt().limit_settings(shell, "fw", wanted))
