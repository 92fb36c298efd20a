"""How a program reaches the headers of its packet: a socket's packet, or one still in the driver's memory.

Both variants put the packet's length on the stack, and the address of its Ethernet header into a register. A packet
shorter than the headers is skipped: the program jumps to its label ``end``.
"""

from __future__ import annotations

import socket

from labconsole.agent.bpf import assembly
from labconsole.agent.bpf.assembly import CONTEXT, RESULT, STACK, Assembly

_ETHERTYPE_AT, _TAG_BYTES = 12, 4
_TAGGED = socket.htons(0x8100)


def copy_socket_headers(p: Assembly, packet: int, header_bytes: int, length_at: int, copy_at: int) -> None:
    """Copy the headers onto the stack. The kernel has already removed a VLAN tag."""
    p.load(2, CONTEXT, 0, 4)
    p.store(STACK, length_at, 2, 8)
    p.set(2, 0)
    p.load_stack_address(3, copy_at)
    p.move(packet, 3)
    p.set(4, header_bytes)
    p.call(assembly.READ_PACKET)
    p.jump_if_value(RESULT, "!=", 0, "end")


def locate_xdp_headers(p: Assembly, packet: int, header_bytes: int, length_at: int) -> None:
    """Locate the packet's headers in XDP. If it still has a VLAN tag, the address is that of the tag's end minus the
    Ethernet header, so that everything after it, including the EtherType, has the same offset as without a tag.
    """
    p.load(packet, CONTEXT, 0, 4)
    p.load(3, CONTEXT, 4, 4)
    p.move(2, 3)
    p.subtract(2, packet)
    p.store(STACK, length_at, 2, 8)
    p.move(4, packet)
    p.add_value(4, header_bytes)
    p.jump_if(4, ">", 3, "end")
    p.load(5, packet, _ETHERTYPE_AT, 2)
    p.jump_if_value(5, "!=", _TAGGED, "untagged")
    p.add_value(4, _TAG_BYTES)
    p.jump_if(4, ">", 3, "end")
    p.add_value(packet, _TAG_BYTES)
    p.label("untagged")
