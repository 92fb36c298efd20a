"""Installed hypervisors of whose programs there are recordings: one guest of each, and the commands that change it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from labconsole.platforms.base.installed_guests import InstalledGuestDriver
from labconsole.platforms.loading import PACKAGE
from labconsole.plugins import load
from support.replayed_node import ReplayedNode

QEMU, LXC, ESXI = "virsh -c qemu:///system ", " -P /srv/lxc -n fw", "env PATH=/bin:/sbin:/usr/bin:/usr/lib/vmware/bin "
XL_CREATE = "xl create /etc/xen/hvtest-domu.cfg 'name=\"hvtest-domu\"'"
VBOX_START = "setsid --wait VBoxManage startvm hvtest-vb --type headless"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One driver with its recording: what starts the guest, asks it to stop, takes its power."""

    driver: str
    guest: str
    start: str
    ask: str
    kill: str
    in_mac: str
    ends: tuple[str, str] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    recording: str = ""

    def make(self, **options: Any) -> InstalledGuestDriver:
        made: InstalledGuestDriver = load(PACKAGE, self.driver).DRIVER(
            "p", {"guest": self.guest, **self.options, **options}
        )
        return made

    def node(self, phase: str, **how: Any) -> ReplayedNode:
        moves = {self.start: "running", self.ask: "stopped", self.kill: "stopped"}
        ends = self.ends or ()
        return ReplayedNode(
            self.recording or self.driver,
            phase,
            moves={**moves, **how.pop("moves", {})},
            interfaces=("eth1", "eth5", *ends),
            bridged=self.driver != "vserver",
            **how,
        )


CASES = [
    Case(
        driver="libvirt",
        guest="hvtest-uut",
        start=QEMU + "start hvtest-uut",
        ask=QEMU + "shutdown hvtest-uut",
        kill=QEMU + "destroy hvtest-uut",
        in_mac="02:00:00:00:06:01",
        ends=("lv-in", "lv-out"),
    ),
    Case(
        driver="lxc",
        guest="fw",
        options={"path": "/srv/lxc"},
        start=f"lxc-start{LXC} -d",
        ask=f"lxc-stop{LXC} --nokill -W",
        kill=f"lxc-stop{LXC} -k",
        in_mac="02:00:00:00:0a:01",
        ends=("vc-in", "vethpOzyt6"),
    ),
    Case(
        driver="xl",
        guest="hvtest-domu",
        options={"config": "/etc/xen/hvtest-domu.cfg"},
        start=XL_CREATE,
        ask="xl shutdown hvtest-domu",
        kill="xl destroy hvtest-domu",
        in_mac="00:16:3e:00:00:01",
        ends=("vif-in", "vif-out"),
    ),
    Case(
        driver="virtualbox",
        guest="hvtest-vb",
        start=VBOX_START,
        ask="VBoxManage controlvm hvtest-vb acpipowerbutton",
        kill="VBoxManage controlvm hvtest-vb poweroff",
        in_mac="02:00:00:00:0c:01",
    ),
    Case(
        driver="esxi",
        guest="packer-vmware-iso",
        start=ESXI + "vim-cmd vmsvc/power.on 40",
        ask="(a fault)",
        kill=ESXI + "vim-cmd vmsvc/power.off 40",
        in_mac="00:0c:29:72:3f:e3",
    ),
    Case(
        driver="openvz",
        guest="101",
        start="vzctl start 101 --wait",
        ask="vzctl stop 101",
        kill="vzctl stop 101 --fast",
        in_mac="00:18:51:a1:c6:35",
        ends=("veth101.0", "veth101.1"),
    ),
    Case(
        driver="openvz",
        guest="ct1",
        options={"tool": "prlctl"},
        start="prlctl start ct1",
        ask="prlctl stop ct1",
        kill="prlctl stop ct1 --kill",
        in_mac="00:18:51:a1:c6:35",
        ends=("veth101.0", "veth101.1"),
    ),
    Case(
        driver="vserver",
        guest="uut",
        start="vserver uut start",
        ask="vserver uut stop",
        kill="vkill --xid 131 -s 9",
        in_mac="52:54:00:00:01:01",
    ),
]
BY_DRIVER = {case.driver: case for case in reversed(CASES)}

PROXMOX: dict[str, Any] = {
    "guest": 101,
    "version": ["pveversion"],
    "list": {"argv": ["qm", "list"], "regex": r"^\s*(?P<guest>\d+)\s+\S+\s+(?P<state>\w+)"},
    "state": {"argv": ["qm", "status", "{guest}"], "regex": r"^status: (?P<state>\w+)$"},
    "nics_of": {
        "argv": ["qm", "config", "{guest}"],
        "regex": r"^net\d+: (?P<model>\w+)=(?P<mac>[0-9A-F:]{17}),bridge=(?P<attached_to>\w+)",
    },
    "start": ["qm", "start", "{guest}"],
    "stop": ["qm", "shutdown", "{guest}"],
    "kill": ["qm", "stop", "{guest}"],
    "host_interface": "tap{guest}i{index}",
}
HYPERV: dict[str, Any] = {
    "guest": "fw one",
    "list": {"argv": ["pwsh", "list"], "json": {"each": "*", "guest": "Name", "state": "State"}},
    "state": {"argv": ["pwsh", "state", "{guest}"], "json": {"state": "State"}},
    "nics_of": {
        "argv": ["pwsh", "nics", "{guest}"],
        "json": {"each": "adapters.*", "mac": "MacAddress", "attached_to": "Switch.Name"},
    },
    "start": ["pwsh", "start", "{guest}"],
    "kill": ["pwsh", "off", "{guest}"],
    "running": ["Running"],
    "stopped": ["Off"],
    "changing": ["Starting", "Stopping"],
}
