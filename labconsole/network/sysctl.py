"""Kernel settings under net.*: reading and setting them, and finding the others that one of them changes along."""

from __future__ import annotations

import os
import re
from typing import Annotated, Any, Dict, List, Optional, Tuple

from labconsole.network.change import ChangedNode, Entry, NetworkChange, line
from labconsole.wire.clean import clean
from labconsole.wire.codec import WireError
from labconsole.wire.rules import Rule, Word, bad, word

ROOT = "/proc/sys/"
_NAME = re.compile(r"net[./][A-Za-z0-9_.:@/-]{1,200}\Z")
_PER_INTERFACE = re.compile(r"(net\.ipv[46]\.(?:conf|neigh))\.(.+)\.([a-z0-9_-]+)\Z")


def path_of(name: str) -> str:
    """Return the file of ``net.a.b``. An interface name may itself contain dots, so it is one component."""
    if not _NAME.match(name) or ".." in name or "//" in name:
        raise WireError("bad_request", "%r is not the name of a net.* setting" % name)
    if "/" in name:
        parts = name.split("/")
    else:
        match = _PER_INTERFACE.match(name)
        parts = match.group(1).split(".") + [match.group(2), match.group(3)] if match else name.split(".")
    return ROOT + "/".join(parts)


def read(name: str) -> str:
    """Read the current value. Called in the right namespace."""
    path = path_of(name)
    try:
        with open(path, encoding="ascii") as setting:
            return setting.read().strip()
    except FileNotFoundError:
        raise WireError("no_such_sysctl", "this kernel has no setting %s" % name) from None
    except PermissionError:
        raise WireError("no_permission", "no permission to read the setting %s" % name) from None
    except OSError as exc:
        raise WireError("sysctl_failed", "cannot read the setting %s: %s" % (name, exc.strerror)) from exc


def write(name: str, value: str) -> None:
    try:
        with open(path_of(name), "w", encoding="ascii") as setting:
            setting.write(value)
    except PermissionError:
        raise WireError("no_permission", "no permission to change the setting %s; root is needed" % name) from None
    except OSError as exc:
        raise WireError("sysctl_failed", "cannot set %s to %r: %s" % (name, value, exc.strerror)) from exc


def read_affected(name: str) -> List[Tuple[str, str]]:
    """Return (file, value) of the setting and of every one that the kernel overwrites with it, in the order to restore.

    The kernel copies ``ip_forward`` and ``conf.all.*`` into each interface's own setting; restoring only the one would
    leave interfaces changed that had a value of their own.
    """
    own = path_of(name)
    saved = [(own, read(name))]
    family, key = _find_propagation(own)
    if family:
        directory = "%snet/%s/conf" % (ROOT, family)
        try:
            interfaces = sorted(os.listdir(directory))
        except OSError:
            return saved
        # "all" first: writing it overwrites the interfaces' own values, which the later writes then correct.
        interfaces.sort(key=lambda interface: interface != "all")
        for interface in interfaces:
            path = "%s/%s/%s" % (directory, interface, key)
            if path != own:
                try:
                    with open(path, encoding="ascii") as setting:
                        saved.append((path, setting.read().strip()))
                except OSError:
                    continue  # not every interface has every key
    return saved


def _find_propagation(path: str) -> Tuple[str, str]:
    parts = path[len(ROOT) :].split("/")
    if parts == ["net", "ipv4", "ip_forward"]:
        return "ipv4", "forwarding"
    if len(parts) == 5 and parts[2] == "conf" and parts[3] == "all" and parts[4] in ("forwarding", "disable_ipv6"):
        return parts[1], parts[4]
    return "", ""


def read_many(names: List[str]) -> Dict[str, str]:
    return {name: read(name) for name in names}


def _setting(value: Any, where: str) -> str:
    name = word(value, where)
    try:
        path_of(name)
    except WireError:
        raise bad(where, "is not the name of a net.* setting: %s" % clean(repr(name), 100)) from None
    return name


class Sysctl(NetworkChange, do="sysctl"):
    """Set a kernel setting, named net.a.b or net/a/b; undone, everything it changed gets its former value."""

    name: Annotated[str, Rule(_setting)]
    value: Word

    def apply(self, node: ChangedNode) -> None:
        saved = read_affected(self.name)
        if saved[0][1].split() == self.value.split():
            return
        node.promise(self.kind, values=saved)
        write(self.name, self.value)

    @staticmethod
    def undo(entry: Entry) -> None:
        for path, value in entry["values"]:
            try:
                with open(path, "w", encoding="ascii") as setting:
                    setting.write(value)
            except FileNotFoundError:
                continue  # its interface is gone

    def commands(self) -> List[str]:
        # With slashes, as written: an interface's name may contain a dot.
        inside = ["ip", "netns", "exec", self.namespace] if self.namespace else []
        return [line(*inside, "sysctl", "-w", "%s=%s" % (self.name, self.value))]


def no_ipv6(interface: str, namespace: Optional[str] = None) -> Sysctl:
    """Build the change that disables IPv6 on an interface of ours, which would send router solicitations and listener
    reports.
    """
    return Sysctl(name="net/ipv6/conf/%s/disable_ipv6" % interface, value="1", namespace=namespace)


def silence(interface: str) -> None:
    """Apply ``no_ipv6``. It needs no undoing: the interface is ours, and will be deleted."""
    setting = no_ipv6(interface)
    try:
        write(setting.name, setting.value)
    except WireError as exc:
        if exc.code == "no_permission":
            raise  # a missing file means a kernel without IPv6: silent enough
