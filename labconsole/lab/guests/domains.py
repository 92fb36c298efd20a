"""Domains for Xen's own tools on a lab's UUT, each with the forwarding image as its kernel: two with a pair of NICs per
stream, and some with one NIC for jobs.

Their NICs hang on no bridge: the driver makes those while a platform is measured (``bridges: made``). So the script
that Xen runs for a NIC does nothing but name it, raise it and say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from labconsole.errors import ConfigError
from labconsole.lab.layout import LabStream, Layout

FIRST, SECOND = "first", "second"
DIRECTORY = "xen-domains"
MAX_STREAMS = 4
"""A paravirtualized kernel's command line ends after 1024 characters."""

MEMORY_MIB = {FIRST: 256, SECOND: 1152}
"""The second has room for a heavy load: four times 256 MiB."""

CREW = ("crew1", "crew2", "crew3", "crew4")
CREW_MEMORY_MIB = 256
"""With the programs of jobs the image alone takes 42, and twice as much while it is unpacked; a guest of 192 dies."""

_SCRIPT = """\
#!/bin/sh
case $1 in
  online)
    name=$(xenstore-read "$XENBUS_PATH/vifname")
    ip link set "$vif" name "$name"
    echo 1 > "/proc/sys/net/ipv6/conf/$name/disable_ipv6"
    ip link set "$name" up
    xenstore-write "$XENBUS_PATH/hotplug-status" connected;;
esac
"""

_CONFIG = """\
name = "{name}"
type = "pv"
kernel = "{kernel}"
ramdisk = "{initrd}"
extra = "console=hvc0 quiet panic=-1 {words}"
memory = {memory_mib}
vcpus = 1
vif = [ {vifs} ]
on_poweroff = "destroy"
on_reboot = "destroy"
on_crash = "destroy"
"""

_CONSOLE = 'exec /usr/lib/xen-*/bin/xenconsole --interactive "$(xl domid {})"'
"""Not ``xl console``: that passes no input on when it is no terminal's."""


@dataclass(frozen=True)
class DomainNic:
    """One NIC of a domain: its MAC, its other end on the UUT."""

    mac: str
    host: str


def nics_of(guest: str, number: int) -> tuple[DomainNic, DomainNic]:
    """The inbound and outbound NIC for stream ``number``, from 1."""
    which = 1 if guest == FIRST else 2
    inbound, outbound = (
        DomainNic(f"02:6c:78:01:{number:02x}:{which}{side}", f"xn{which}{letter}{number}")
        for side, letter in enumerate("io")
    )
    return inbound, outbound


def crew_nic(number: int) -> DomainNic:
    """The one NIC of a guest for jobs, from 1."""
    return DomainNic(f"02:6c:78:02:00:{number:02x}", f"xnc{number}")


def write_domains(path: Path, layout: Layout, *, kernel: Path, initrd: Path) -> None:
    """Write all domains' files below ``path``. Raises ConfigError for more streams than they can have."""
    if len(layout.streams) > MAX_STREAMS:
        raise ConfigError(
            "is too many for platform xen", key="sources", value=len(layout.streams), allowed=f"1 to {MAX_STREAMS}"
        )
    path.mkdir(mode=0o755)
    script = path / "vif"
    script.write_text(_SCRIPT)
    script.chmod(0o755)

    def write(name: str, *, words: str, memory_mib: int, nics: Sequence[DomainNic]) -> None:
        vifs = ", ".join(f"'mac={nic.mac},vifname={nic.host},script={script}'" for nic in nics)
        text = _CONFIG.format(name=name, kernel=kernel, initrd=initrd, words=words, memory_mib=memory_mib, vifs=vifs)
        (path / f"{name}.cfg").write_text(text)

    sinks = {node.name: node.interfaces[0].mac for node in layout.nodes if node.role == "sink"}
    for guest in (FIRST, SECOND):
        pairs = [nics_of(guest, number) for number in range(1, len(layout.streams) + 1)]
        words = [
            f"lc.stream={inbound.mac},{outbound.mac},{s.source_ip},{s.sink_ip},{sinks[s.sink.partition('/')[0]]}"
            for s, (inbound, outbound) in zip(layout.streams, pairs, strict=True)
        ]
        nics = [nic for pair in pairs for nic in pair]
        write(guest, words=" ".join(words), memory_mib=MEMORY_MIB[guest], nics=nics)
    for number, guest in enumerate(CREW, start=1):
        write(guest, words="", memory_mib=CREW_MEMORY_MIB, nics=[crew_nic(number)])


def inventory_options(path: Path, streams: Sequence[LabStream], second_cpu: int) -> str:
    """The platform's options in hosts.yaml."""
    lines = [
        f"{{driver: xl, boot: xen, guest: {FIRST}, second_guest: {SECOND}, bridges: made, graceful_s: 0,",
        f"     config: {_quoted(path / f'{FIRST}.cfg')}, second_config: {_quoted(path / f'{SECOND}.cfg')},",
        f"     second_cpu: {second_cpu}, second_shell: [sh, -c, '{_CONSOLE.format(SECOND)}'],",
        f"     guests: [{', '.join(CREW)}], guest_config: {_quoted(path / '{guest}.cfg')}, guest_cpus: {second_cpu},",
        f"     guest_shell: [sh, -c, '{_CONSOLE.format('{guest}')}'],",
    ]
    nics = [
        f"{{stream: {stream.name}, guest: {guest}, in_mac: '{inbound.mac}', out_mac: '{outbound.mac}'}}"
        for guest in (FIRST, SECOND)
        for number, stream in enumerate(streams, start=1)
        for inbound, outbound in [nics_of(guest, number)]
    ]
    return "\n".join(lines) + "\n     nics: [\n       " + ",\n       ".join(nics) + "]}"


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
