"""What is put together for the kernel and read from it: instructions, its types, its functions."""

from __future__ import annotations

import resource
import struct
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labconsole.agent.bpf import kernel
from labconsole.agent.bpf.assembly import CONTEXT, RESULT, STACK, Assembly
from labconsole.agent.bpf.btf import KernelTypes, Tracepoint
from labconsole.agent.bpf.kernel import Symbols
from labconsole.agent.reading.kernel_drops import DropReasonsUnavailable, read_layout

INT, POINTER, STRUCT, UNION, ENUM, TYPEDEF, CONST, PROTOTYPE = 1, 2, 4, 5, 6, 8, 10, 13


def test_instructions_are_those_of_the_kernels_manual():
    p = Assembly()
    p.load(3, CONTEXT, 16, 8)
    p.store(STACK, -8, 3, 4)
    p.jump_if_value(3, "!=", -1, "end")
    p.set(2, 0xBE9BE955)
    p.set(4, 1 << 40)
    p.label("end")
    p.leave(0)
    assert p.code().hex(" ", 8).split() == [
        "7913100000000000",  # r3 = *(u64 *)(r1 + 16)
        "633af8ff00000000",  # *(u32 *)(r10 - 8) = r3
        "55030300ffffffff",  # if r3 != -1 goto +3
        "b402000055e99bbe",  # w2 = 0xbe9be955
        "1804000000000000",
        "0000000000010000",  # r4 = 1 << 40
        "b700000000000000",  # r0 = 0
        "9500000000000000",  # exit
    ]
    assert p.code()[-16:-15] == bytes([0xB7 | RESULT])


def test_instructions_of_arithmetic_are_those_of_the_kernels_manual():
    p = Assembly()
    p.multiply_value(1, 3)
    p.shift_left(2, 7)
    p.shift_right(3, 16)
    p.negate(4)
    p.convert_from_network_order(5)
    p.jump_if(6, "signed <=", 7, "end")
    p.jump_if_value(8, "<", 128, "end")
    p.label("end")
    p.leave(0)
    assert p.code().hex(" ", 8).split() == [
        "2701000003000000",  # r1 *= 3
        "6702000007000000",  # r2 <<= 7
        "7703000010000000",  # r3 >>= 16
        "8704000000000000",  # r4 = -r4
        "dc05000020000000",  # r5 = be32 r5
        "dd76010000000000",  # if r6 s<= r7 goto +1
        "a508000080000000",  # if r8 < 128 goto +0
        "b700000000000000",  # r0 = 0
        "9500000000000000",  # exit
    ]


def test_a_label_that_is_nowhere_and_one_given_twice_are_refused():
    p = Assembly()
    p.jump("nowhere")
    with pytest.raises(KeyError):
        p.code()
    p.label("here")
    with pytest.raises(ValueError, match="here already exists"):
        p.label("here")


class Blob:
    """A BTF made by hand."""

    def __init__(self) -> None:
        self._names, self._records, self._count = b"\0", b"", 0

    def name(self, text: str) -> int:
        if not text:
            return 0
        self._names += text.encode() + b"\0"
        return len(self._names) - len(text) - 1

    def add(self, kind: int, name: str, size_or_type: int, *members: tuple[int, ...], flag: bool = False) -> int:
        info = kind << 24 | len(members) | flag << 31
        self._records += struct.pack("=III", self.name(name), info, size_or_type)
        self._records += b"".join(struct.pack(f"={len(each)}I", *each) for each in members)
        self._count += 1
        return self._count

    def integer(self, name: str, size_bytes: int) -> int:
        number = self.add(INT, name, size_bytes)
        self._records += struct.pack("=I", size_bytes * 8)
        return number

    def data(self) -> bytes:
        sizes = (0, len(self._records), len(self._records), len(self._names))
        return struct.pack("=HBBIIIII", 0xEB9F, 1, 0, 24, *sizes) + self._records + self._names


def types() -> KernelTypes:
    return KernelTypes(described())


def described() -> bytes:
    blob = Blob()
    word = blob.integer("unsigned int", 4)
    inner = blob.add(STRUCT, "ns_common", 8, (blob.name("stashed"), word, 0), (blob.name("inum"), word, 32))
    net = blob.add(STRUCT, "net", 16, (blob.name("passive"), word, 0), (blob.name("ns"), inner, 64))
    pointer = blob.add(POINTER, "", net)
    alias = blob.add(TYPEDEF, "possible_net_t", blob.add(CONST, "", pointer))
    nameless = blob.add(STRUCT, "", 24, (blob.name("next"), pointer, 0), (blob.name("dev"), pointer, 128))
    union = blob.add(UNION, "", 24, (0, nameless, 0), (blob.name("rbnode"), word, 0))
    blob.add(
        STRUCT,
        "sk_buff",
        40,
        (0, union, 0),
        (blob.name("net"), alias, 192),
        (blob.name("bits"), word, 3 << 24 | 261),
        flag=True,
    )
    blob.add(ENUM, "skb_drop_reason", 4, (blob.name("SKB_NOT_DROPPED_YET"), 0), (blob.name("NETFILTER_DROP"), 7))
    handed = blob.add(PROTOTYPE, "", 0, (0, pointer), (0, pointer), (0, pointer), (0, word))
    blob.add(TYPEDEF, "btf_trace_kfree_skb", blob.add(POINTER, "", handed))
    return blob.data()


def test_fields_are_found_through_structures_without_names_and_other_names_of_types():
    found = types()
    assert found.offset_bytes("sk_buff.dev") == 16
    assert found.offset_bytes("net.ns.inum") == 12
    assert found.offset_bytes("sk_buff.net") == 24
    assert found.offset_bytes("sk_buff.bits") == 32  # a bit field: the byte that it begins in
    for path in ("sk_buff.tail", "sock.sk", "net.ns.inum.more"):
        with pytest.raises(LookupError, match="this kernel has no"):
            found.offset_bytes(path)


def test_reasons_and_the_tracepoint_are_known_by_name():
    found = types()
    assert found.values("skb_drop_reason") == {0: "SKB_NOT_DROPPED_YET", 7: "NETFILTER_DROP"}
    assert found.values("none") == {}
    assert found.tracepoint("consume_skb") is None
    tracepoint = found.tracepoint("kfree_skb")
    assert tracepoint is not None and tracepoint == Tracepoint(tracepoint.number, 3)


@pytest.mark.parametrize(
    "data", [b"", b"\x9f\xeb" + bytes(10), bytes(24), struct.pack("=HBBIIIII", 0xEB9F, 1, 0, 24, 0, 99, 99, 9)]
)
def test_what_is_no_btf_is_refused(data: bytes):
    with pytest.raises(ValueError, match="BTF"):
        KernelTypes(data)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(data=st.data())
def test_types_that_a_hostile_kernel_describes_are_refused_in_words(tmp_path: Path, data: st.DataObject):
    blob = bytearray(described())
    for _ in range(data.draw(st.integers(1, 6))):
        blob[data.draw(st.integers(24, len(blob) - 1))] = data.draw(st.integers(0, 255))
    (path := tmp_path / "vmlinux").write_bytes(blob[: data.draw(st.integers(0, len(blob)))])
    with pytest.raises(DropReasonsUnavailable):  # it lacks fields that are needed even where nothing of it is damaged
        read_layout(str(path))


def test_a_structure_that_is_inside_itself_has_no_field_that_is_not_there():
    blob = Blob()
    blob.add(STRUCT, "", 8, (0, 2, 0), (0, 2, 64), (0, 1, 128))
    blob.add(STRUCT, "", 8, (0, 1, 0), (0, 1, 64), (0, 2, 128))
    blob.add(STRUCT, "sk_buff", 8, (0, 1, 0))
    with pytest.raises(LookupError, match="this kernel has no"):
        KernelTypes(blob.data()).offset_bytes("sk_buff.dev")


LINES = [
    b"ffffffff81000000 T _stext",
    b"ffffffff81000400 t nft_do_chain.constprop.0",
    b"ffffffff81000380 d some_data",
    b"ffffffff81000300 T ip_forward",
]


def test_an_address_is_the_function_that_begins_before_it():
    symbols = Symbols(LINES)
    assert symbols.function(0xFFFFFFFF810003FF) == "ip_forward"
    assert symbols.function(0xFFFFFFFF81000400) == "nft_do_chain"
    assert symbols.function(0x1000) is None


def test_lines_that_are_cut_off_or_of_no_function_are_left_out():
    symbols = Symbols([*LINES, b"", b"ffffffff81000500", b"ffffffff81000500 t", b"ffffffff81000500 t ", b"\xff" * 40])
    assert symbols.function(0xFFFFFFFF81000600) == "nft_do_chain"


def test_a_kernel_that_hides_its_addresses_names_no_function():
    hidden = [b"0" * 16 + line[16:] for line in LINES]
    assert Symbols(hidden).function(0xFFFFFFFF81000400) is None
    assert Symbols([]).function(0xFFFFFFFF81000400) is None


def test_a_limit_of_locked_memory_that_was_raised_is_put_back(monkeypatch):
    """As of a kernel before 5.11, which counts tables as locked memory."""
    most = resource.RLIM_INFINITY
    limits = [(65536, 65536)]
    raising = SimpleNamespace(
        RLIMIT_MEMLOCK=resource.RLIMIT_MEMLOCK,
        RLIM_INFINITY=most,
        getrlimit=lambda _: limits[-1],
        setrlimit=lambda _, limit: limits.append(limit),
    )

    def charged(*_: object) -> int:
        if limits[-1][0] != most:
            raise PermissionError(1, "Operation not permitted")
        return 7

    monkeypatch.setattr(kernel, "resource", raising)
    monkeypatch.setattr(kernel, "_bpf", charged)
    made = kernel.Map(kernel.HASH, 4, 12, 10, "lc_test")
    assert (made.descriptor, made.memory_bytes) == (7, 160)
    assert kernel.load_program(kernel.SOCKET_FILTER, bytes(16), "lc_test") == 7
    assert limits == [(65536, 65536), (most, most), (65536, 65536)] + [(most, most), (65536, 65536)]
