"""Programs for the kernel's virtual machine: instructions by name, labels to jump to, access to packets' headers."""

from __future__ import annotations

import socket
import struct
from typing import Dict, List, Tuple, Union

# -- instructions ------------------------------------------------------------------------------------------------------
# Instructions for the kernel's virtual machine, assembled by name, with labels to jump to.
#
# Registers are numbers: 0 is the result of a call, 1 to 5 its arguments (gone afterwards), 6 to 9 are kept, 10 is the
# top of the stack (512 bytes, addressed downwards). Jumps go forward only. Kernel documentation: bpf/standardization.

RESULT, CONTEXT, STACK = 0, 1, 10

LOOK_UP, UPDATE, TIME_NS, READ_PACKET, READ_KERNEL = 1, 2, 5, 26, 113
"""Numbers of the kernel's helpers."""

_LOAD, _LOADX, _STORE, _STOREX, _WORD_ALU, _JUMP, _, _ALU = range(8)
_BY_REGISTER = 0x08
_MEMORY = 0x60
_SIZES = {1: 0x10, 2: 0x08, 4: 0x00, 8: 0x18}
_ADD, _SUBTRACT, _MULTIPLY, _SHIFT_LEFT, _SHIFT_RIGHT, _NEGATE, _MOVE = 0, 0x10, 0x20, 0x60, 0x70, 0x80, 0xB0
_FROM_NETWORK = 0xD8
_CONDITIONS = {
    "==": 0x10,
    ">": 0x20,
    ">=": 0x30,
    "!=": 0x50,
    "<": 0xA0,
    "<=": 0xB0,
    "signed >=": 0x70,
    "signed <=": 0xD0,
}
_CALL, _EXIT = 0x80, 0x90

_Instruction = Tuple[int, int, int, Union[int, str], int]


class Assembly:
    """A program under construction."""

    def __init__(self) -> None:
        self._instructions: List[_Instruction] = []
        self._labels: Dict[str, int] = {}

    def _put(self, code: int, to: int = 0, source: int = 0, offset: Union[int, str] = 0, value: int = 0) -> None:
        self._instructions.append((code, to, source, offset, value))

    def load(self, to: int, base: int, offset: int, size_bytes: int) -> None:
        """to = the value ``offset`` behind base; the rest of the register is 0."""
        self._put(_LOADX | _MEMORY | _SIZES[size_bytes], to, base, offset)

    def store(self, base: int, offset: int, source: int, size_bytes: int) -> None:
        """Store the lower bytes of a register at an address."""
        self._put(_STOREX | _MEMORY | _SIZES[size_bytes], base, source, offset)

    def store_value(self, base: int, offset: int, value: int, size_bytes: int) -> None:
        """Store a signed 32-bit number at an address."""
        self._put(_STORE | _MEMORY | _SIZES[size_bytes], base, 0, offset, value)

    def move(self, to: int, source: int) -> None:
        """to = source."""
        self._put(_ALU | _MOVE | _BY_REGISTER, to, source)

    def set(self, to: int, value: int) -> None:
        """to = a number from 0 to 2^64 - 1, or down to -2^31."""
        if -(1 << 31) <= value < 1 << 31:
            self._put(_ALU | _MOVE, to, 0, 0, value)
        elif 0 <= value < 1 << 32:
            self._put(_WORD_ALU | _MOVE, to, 0, 0, value)
        else:
            self._put(_LOAD | _SIZES[8], to, 0, 0, value & 0xFFFFFFFF)
            self._put(0, 0, 0, 0, value >> 32)

    def table(self, to: int, descriptor: int) -> None:
        """to = a map."""
        self._put(_LOAD | _SIZES[8], to, 1, 0, descriptor)
        self._put(0)

    def load_stack_address(self, to: int, offset: int) -> None:
        """to = an address on the stack."""
        self.move(to, STACK)
        self.add_value(to, offset)

    def add(self, to: int, source: int) -> None:
        """to += source."""
        self._put(_ALU | _ADD | _BY_REGISTER, to, source)

    def add_value(self, to: int, value: int) -> None:
        """to += a signed 32-bit number."""
        self._put(_ALU | _ADD, to, 0, 0, value)

    def subtract(self, to: int, source: int) -> None:
        """to -= source."""
        self._put(_ALU | _SUBTRACT | _BY_REGISTER, to, source)

    def multiply(self, to: int, source: int) -> None:
        """to *= source."""
        self._put(_ALU | _MULTIPLY | _BY_REGISTER, to, source)

    def multiply_value(self, to: int, value: int) -> None:
        """to *= a signed 32-bit number."""
        self._put(_ALU | _MULTIPLY, to, 0, 0, value)

    def shift_left(self, to: int, bits: int) -> None:
        """to <<= bits."""
        self._put(_ALU | _SHIFT_LEFT, to, 0, 0, bits)

    def shift_right(self, to: int, bits: int) -> None:
        """to >>= bits, unsigned."""
        self._put(_ALU | _SHIFT_RIGHT, to, 0, 0, bits)

    def negate(self, to: int) -> None:
        """to = -to."""
        self._put(_ALU | _NEGATE, to)

    def convert_from_network_order(self, to: int) -> None:
        """Convert the lower 32 bits from network to machine byte order; the rest of the register is 0."""
        self._put(_WORD_ALU | _FROM_NETWORK, to, 0, 0, 32)

    def jump(self, label: str) -> None:
        """Jump to a label."""
        self._put(_JUMP, 0, 0, label)

    def jump_if(self, left: int, condition: str, right: int, label: str) -> None:
        """Jump if the comparison of two registers is true."""
        self._put(_JUMP | _CONDITIONS[condition] | _BY_REGISTER, left, right, label)

    def jump_if_value(self, left: int, condition: str, value: int, label: str) -> None:
        """Jump if the comparison of a register with a signed 32-bit number is true."""
        self._put(_JUMP | _CONDITIONS[condition], left, 0, label, value)

    def call(self, helper: int) -> None:
        """Call a helper."""
        self._put(_JUMP | _CALL, 0, 0, 0, helper)

    def leave(self, result: int) -> None:
        """End the program with this result."""
        self.set(RESULT, result)
        self._put(_JUMP | _EXIT)

    def label(self, name: str) -> None:
        """Place a label here."""
        if name in self._labels:
            raise ValueError("label %s already exists" % name)
        self._labels[name] = len(self._instructions)

    def code(self) -> bytes:
        """Return the program in the kernel's format. Raises KeyError for a jump to an undefined label."""
        made = bytearray()
        for place, (code, to, source, offset, value) in enumerate(self._instructions):
            if isinstance(offset, str):
                offset = self._labels[offset] - place - 1
            made += struct.pack("=BBhI", code, source << 4 | to, offset, value & 0xFFFFFFFF)
        return bytes(made)


# -- headers of a packet -----------------------------------------------------------------------------------------------
# How a program reaches the headers of its packet: a socket's packet, or one still in the driver's memory.
#
# Both variants put the packet's length on the stack, and the address of its Ethernet header into a register. A packet
# shorter than the headers is skipped: the program jumps to its label ``end``.

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
    p.call(READ_PACKET)
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
