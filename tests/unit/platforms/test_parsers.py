"""What hypervisors print, read as it is: verbatim lines with blanks in names, dashes, states of several letters."""

from __future__ import annotations

import pytest

from labconsole.model.cpus import cpu_set
from labconsole.platforms.base.guest import State, UnknownLine, format_names, parse_interface, same_cpus
from labconsole.platforms.base.options import mac_address
from labconsole.platforms.base.shell import Answer
from labconsole.platforms.drivers import esxi, libvirt, lxc, openvz, virtualbox, vserver, xl
from support.replayed_node import recorded


def said(recording: str, phase: str, command: str) -> str:
    return str(recorded(recording)[phase][command]["stdout"])


@pytest.mark.parametrize(
    ("text", "mac"),
    [
        ("02:00:00:00:0A:01", "02:00:00:00:0a:01"),
        ("020000000C01", "02:00:00:00:0c:01"),
        ("02-00-00-00-0C-01", "02:00:00:00:0c:01"),
        ("01:00:5e:00:00:01", None),
        ("00:00:00:00:00:00", None),
        ("02:00:00:00:0a", None),
        ("02:00:00:00:0a:01\n02", None),
        ("-", None),
        ("", None),
    ],
)
def test_a_mac_address_is_read_from_any_spelling_and_from_nothing_else(text: str, mac: str | None) -> None:
    assert mac_address(text) == mac


def test_cpus_are_the_same_however_they_are_written() -> None:
    assert cpu_set("0-2,5") == frozenset({0, 1, 2, 5})
    assert same_cpus("0-1", "1,0")
    assert same_cpus("all", "all")
    assert not same_cpus("all", "0")
    assert cpu_set("3-1") is None
    assert cpu_set("^1") is None


@pytest.mark.parametrize("text", ["-", "", "..", "eth0; reboot", "a" * 16, "vif/1", "é"])
def test_what_is_no_name_of_an_interface_is_none(text: str) -> None:
    assert parse_interface(text) is None


def test_names_of_guests_in_a_sentence_are_few_short_and_printable() -> None:
    assert format_names([]) == "none"
    assert format_names(["b", "a\x1b[2J"]) == "a[2J, b"
    assert format_names("x" * 5000 for _ in range(12)).endswith("x and 2 more")
    assert len(format_names("x" * 5000 for _ in range(12))) < 700


def test_virsh_rows_are_known_by_their_state_and_names_may_hold_blanks() -> None:
    text = said("libvirt", "beside", "virsh -c qemu:///system list --all")
    assert [(row.name, row.said) for row in libvirt.rows(text)] == [
        ("hvtest-uut", "running"),
        ("web server", "running"),
        ("spare", "shut off"),
    ]
    confusing = " Id   Name   State\n----\n 3    in shutdown   in shutdown\n -    shut off   shut off\n"
    assert libvirt.rows(confusing) == [("in shutdown", "3", "in shutdown"), ("shut off", "", "shut off")]


def test_virsh_interfaces_of_a_guest_that_is_off_have_no_end_on_the_host() -> None:
    nics = libvirt.interfaces(said("libvirt", "stopped", "virsh -c qemu:///system domiflist hvtest-uut"))
    assert [(nic.mac, nic.host_interface, nic.model) for nic in nics][:2] == [
        ("02:00:00:00:06:01", None, "virtio"),
        ("02:00:00:00:06:02", None, "virtio"),
    ]
    xen = libvirt.interfaces(said("libvirt-others", "", "virsh -c xen:///system domiflist hvtest-lvxen"))
    assert [(nic.host_interface, nic.model, nic.attached_to) for nic in xen] == [
        ("vif1.0", None, "bridge xenbr0"),
        ("vif1.1", None, "bridge xenbr1"),
    ]


@pytest.mark.parametrize(
    ("letters", "state"),
    [
        ("r-----", State.RUNNING),
        ("-b----", State.RUNNING),
        ("------", State.RUNNING),
        ("-bp---", State.PAUSED),
        ("--ps--", State.CHANGING),
        ("---s-d", State.CHANGING),
        ("----c-", State.FAILED),
    ],
)
def test_every_letter_of_xl_counts(letters: str, state: State) -> None:
    text = (
        f"Name  ID  Mem VCPUs\tState\tTime(s)\nDomain-0  0  1024  1  r-----  9.8\nmy guest  7  192  2  {letters}  3.2\n"
    )
    (domain,) = xl.domains(text)
    assert (domain.name, domain.ident, domain.vcpus, domain.state) == ("my guest", "7", 2, state)


def test_xl_describes_a_guest_in_json_or_not_at_all() -> None:
    config = xl.described(said("xl", "", "xl list -l hvtest-domu"), "hvtest-domu")
    assert config is not None
    assert [nic["ifname"] for nic in config["nics"]] == ["vif-in", "vif-out"]
    assert xl.described("nosuch is an invalid domain identifier (rc=-6)", "x") is None
    assert xl.described('[{"config": null}, 7, {"config": {"c_info": []}}]', "x") is None


def test_numbers_of_thousands_of_digits_are_no_numbers() -> None:
    many = "9" * 5000
    for row in (f"fw  {many}  1  1  r-----  1.0", f"fw  1  1  {many}  r-----  1.0"):
        with pytest.raises(UnknownLine):
            xl.domains(f"Name ID Mem VCPUs State Time(s)\n{row}\n")
    assert lxc.configured(f"lxc.net.{many}.type = veth\n") == {}
    assert xl.described(f'[{{"config": {many}}}]', "fw") is None


def test_lxc_settings_that_are_not_there_are_none() -> None:
    text = recorded("lxc")[""]["lxc-info -P /srv/lxc -n fw -c …"]["stdout"]
    assert lxc.configured(text) == {
        0: {"type": "veth", "hwaddr": "02:00:00:00:0a:01", "link": "br-in", "veth.pair": "vc-in"},
        1: {"type": "veth", "hwaddr": "02:00:00:00:0a:02", "link": "br-out"},
    }


def test_vboxmanage_keys_are_whole_keys() -> None:
    told = virtualbox.values(said("virtualbox", "stopped", "VBoxManage showvminfo hvtest-vb --machinereadable"))
    assert (told["VMState"], told["VMStateChangeTime"][:4], told["cpus"]) == ("poweroff", "2026", "1")
    swapped = 'VMStateChangeTime="running"\nVMState="poweroff"\n'
    assert virtualbox.values(swapped)["VMState"] == "poweroff"
    assert virtualbox.machines('"a "b" {c}" {922b151f-4555-4a00-a444-e56b5669efe7}\n') == ['a "b" {c}']


def test_esxi_tables_have_names_with_blanks_and_notes_with_lines() -> None:
    environment = "env PATH=/bin:/sbin:/usr/bin:/usr/lib/vmware/bin"
    found = esxi.machines(said("esxi", "", f"{environment} vim-cmd vmsvc/getallvms"))
    assert found["fnOS 2, spare"] == ("41", "/vmfs/volumes/datastore1/fnOS_2/fnOS_2.vmx")
    assert len(found) == 2
    blocks = esxi.ports(said("esxi", "", f"{environment} esxcli network vm port list -w 2270220"))
    assert [block["MAC Address"] for block in blocks] == ["00:0c:29:72:3f:e3", "00:50:56:00:00:02"]
    assert blocks[0]["DVPort ID"] == ""


def test_esxi_faults_are_found_whatever_the_exit_status() -> None:
    text = '(vim.fault.NotFound) {\n   faultMessage = <unset>\n   msg = "Unable to find a VM corresponding to "2""\n}\n'
    assert esxi.fault(Answer(("vim-cmd",), 0, text, "")) == 'NotFound: Unable to find a VM corresponding to "2"'
    assert esxi.fault(Answer(("vim-cmd",), 1, "", "(vmodl.fault.InvalidArgument) {\n")) == "InvalidArgument"
    assert esxi.fault(Answer(("vim-cmd",), 0, "Powered on\n", "")) is None


def test_openvz_interfaces_without_a_mac_are_no_addresses() -> None:
    nics = openvz.interfaces("ifname=eth0;ifname=eth1,mac=00:18:51:22:24:81,host_ifname=veth101.1;nonsense;=")
    assert [(nic.mac, nic.host_interface) for nic in nics] == [(None, None), ("00:18:51:22:24:81", "veth101.1")]


def test_vserver_stat_lists_the_host_too_and_names_with_blanks() -> None:
    assert vserver.contexts(said("vserver", "beside", "vserver-stat")) == {"131": "uut", "49163": "deb vserv2"}
