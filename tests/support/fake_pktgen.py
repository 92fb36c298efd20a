"""A pktgen in memory: clamps, cuts, blocks, answers and stops as the recorded one does (recordings/pktgen/writes.txt).

Time does not pass in it by itself: ``send`` makes a running device send packets. test_pktgen_files.py holds it against
the recordings.
"""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from labconsole.agent.sending.pktgen_files import ProcFiles

ENOTSUPP = 524


def number(text: str) -> int:
    """As num_arg() in the kernel: leading digits of the first ten characters, else 0."""
    digits = ""
    for character in text[:10]:
        if not character.isdigit():
            break
        digits += character
    return int(digits or "0")


@dataclass
class Device:
    name: str
    mac: str
    count: int = 1000
    min_pkt_size: int = 0
    max_pkt_size: int = 0
    delay: int = 0
    clone_skb: int = 0
    burst: int = 1
    src_min: str = ""
    src_max: str = ""
    dst_min: str = ""
    dst_max: str = ""
    src_mac: str = ""
    dst_mac: str = "00:00:00:00:00:00"
    udp: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("src_min", "src_max", "dst_min", "dst_max"), 9))
    flags: list[str] = field(default_factory=list)
    result: str = "Idle"
    sofar: int = 0
    errors: int = 0
    seq_num: int = 0
    started: int = 0
    stopped: int = 0
    idle: int = 0
    running: bool = False

    def text(self) -> str:
        flags = "".join(f"{flag}  " for flag in self.flags)
        burst = f"     burst: {self.burst}\n" if self.burst > 1 else ""
        address = self.src_min or "0.0.0.0", self.dst_min or "0.0.0.0"
        current = [self.udp["dst_min"], self.udp["src_min"]] if self.seq_num else [0, 0]
        return (
            f"Params: count {self.count}  min_pkt_size: {self.min_pkt_size}  max_pkt_size: {self.max_pkt_size}\n"
            f"     frags: 0  delay: {self.delay}  clone_skb: {self.clone_skb}  ifname: {self.name}\n"
            "     flows: 0 flowlen: 0\n     queue_map_min: 0  queue_map_max: 0\n"
            f"     dst_min: {self.dst_min}  dst_max: {self.dst_max}\n"
            f"     src_min: {self.src_min}  src_max: {self.src_max}\n"
            f"     src_mac: {self.src_mac or self.mac} dst_mac: {self.dst_mac}\n"
            f"     udp_src_min: {self.udp['src_min']}  udp_src_max: {self.udp['src_max']}"
            f"  udp_dst_min: {self.udp['dst_min']}  udp_dst_max: {self.udp['dst_max']}\n"
            f"     src_mac_count: 0  dst_mac_count: 0\n{burst}     Flags: {flags}\n"
            f"Current:\n     pkts-sofar: {self.sofar}  errors: {self.errors}\n"
            f"     started: {self.started}us  stopped: {self.stopped}us idle: {self.idle}us\n"
            f"     seq_num: {self.seq_num}  cur_dst_mac_offset: 0  cur_src_mac_offset: 0\n"
            f"     cur_saddr: {address[0]}  cur_daddr: {address[1]}\n"
            f"     cur_udp_dst: {current[0]}  cur_udp_src: {current[1]}\n"
            f"     cur_queue_map: 0\n     flows: 0\nResult: {self.result}\n"
        )

    def finish(self) -> None:
        self.running = False
        elapsed = self.stopped - self.started
        pps = self.sofar * 10**6 // elapsed if elapsed else 0
        bps = pps * 8 * self.min_pkt_size
        frags = 0 if self.sofar else -1
        self.result = (
            f"OK: {elapsed}(c{elapsed - self.idle}+d{self.idle}) usec, "
            f"{self.sofar} ({self.min_pkt_size}byte,{frags}frags)\n"
            f"  {pps}pps {bps // 10**6}Mb/sec ({bps}bps) errors: {self.errors}"
        )


class FakePktgen(ProcFiles):
    """What ProcFiles shows of a kernel with ``cpus`` threads and the interfaces ``macs`` (name: MAC address)."""

    def __init__(self, cpus: int = 2, macs: dict[str, str] | None = None) -> None:
        super().__init__("/nowhere")
        self.macs = macs or {"eth0": "02:00:00:00:06:01", "eth1": "02:00:00:00:06:02"}
        self.down: set[str] = set()
        self.unshared: set[str] = set(self.macs)
        self.lists: dict[str, list[Device]] = {f"kpktgend_{cpu}": [] for cpu in range(cpus)}
        self.answers = dict.fromkeys(self.lists, "OK: rem_device_all")
        self.written: list[tuple[str, str]] = []
        self.distort: dict[str, str] = {}
        """Lines that the kernel is to misread: what is written, and what it takes it for."""
        self.changed = threading.Condition()
        self.clock_us: Callable[[], int] = lambda: 1_000_000
        self.lag = False
        """The threads have not seen the request to run yet, and will on ``begin``."""
        self.signalled = False

    def devices(self) -> dict[str, Device]:
        return {device.name: device for devices in self.lists.values() for device in devices}

    def names(self) -> list[str]:
        return sorted(["pgctrl", *self.lists, *self.devices()])

    def read(self, name: str) -> str:
        with self.changed:
            if name == "pgctrl":
                return "Packet Generator for packet performance testing. Version: 2.75\n"
            if name in self.lists:
                run = "".join(f"{device.name} " for device in self.lists[name] if device.running)
                stop = "".join(f"{device.name} " for device in self.lists[name] if not device.running)
                return f"Running: {run}\nStopped: {stop}\nResult: {self.answers[name]}\n"
            if name not in self.devices():
                raise FileNotFoundError(errno.ENOENT, "No such file or directory")
            return self.devices()[name].text()

    def write(self, name: str, line: str) -> None:
        self.written.append((name, line))
        line = self.distort.get(line, line)
        if name == "pgctrl":
            self._control(line)
        elif name in self.lists:
            self._thread(name, line)
        else:
            self._device(self.devices()[name], *line.partition(" ")[::2])

    def _control(self, line: str) -> None:
        with self.changed:
            if line == "start":
                self._start()
            elif line == "stop":
                self._halt()
            else:
                raise OSError(errno.EINVAL, "Invalid argument")

    def _start(self) -> None:
        self.signalled = False
        if not self.lag:
            self._begin()
        self.changed.wait_for(
            lambda: self.signalled or not (self.lag or any(device.running for device in self.devices().values())),
            timeout=20,
        )

    def _begin(self) -> None:
        for device in self.devices().values():
            device.running, device.result = True, "Starting"
            device.sofar = device.errors = device.idle = 0
            device.seq_num, device.started, device.stopped = 1, self.clock_us(), self.clock_us()
        self.changed.notify_all()

    def _halt(self) -> None:
        for device in self.devices().values():
            if device.running:
                device.finish()
        self.changed.notify_all()

    def _thread(self, name: str, line: str) -> None:
        command, _, device = line.partition(" ")
        with self.changed:
            if command == "rem_device_all":
                self.lists[name], self.answers[name] = [], "OK: rem_device_all"
                return
            if command != "add_device":
                raise OSError(errno.EINVAL, "Invalid argument")
            self.answers[name] = f"ERROR: can not add device {device}"
            interface = device.partition("@")[0]
            if interface not in self.macs:
                raise OSError(errno.ENODEV, "No such device")
            if interface in self.down:
                raise OSError(errno.ENETDOWN, "Network is down")
            if device in self.devices():
                raise OSError(errno.EBUSY, "Device or resource busy")
            assert len(device) <= 31
            self.lists[name].append(Device(device, self.macs[interface]))
            self.answers[name] = f"OK: add_device={device}"

    def _device(self, device: Device, name: str, value: str) -> None:
        with self.changed:
            if name == "pkt_size":
                device.min_pkt_size = device.max_pkt_size = max(42, number(value))
                device.result = f"OK: pkt_size={device.min_pkt_size}"
            elif name in ("count", "delay"):
                setattr(device, name, number(value))
                device.result = f"OK: {name}={number(value)}"
            elif name in ("clone_skb", "burst"):
                least = int(name == "burst")
                if number(value) > least and device.name.partition("@")[0] in self.unshared:
                    raise OSError(ENOTSUPP, "Unknown error 524")
                setattr(device, name, max(least, number(value)))
                device.result = f"OK: {name}={max(least, number(value))}"
            elif name in ("src_min", "src_max", "dst_min", "dst_max"):
                setattr(device, name, value[:31])
                device.result = f"OK: {name}={value[:31]}"
            elif name in ("src_mac", "dst_mac"):
                if len(value) != 17:
                    raise OSError(errno.EINVAL, "Invalid argument")
                setattr(device, name, value.lower())
                device.result = f"OK: {name.replace('_', '')} {value.lower()}"
            elif name.startswith("udp_") and name[4:] in device.udp:
                device.udp[name[4:]] = number(value) & 0xFFFF
                device.result = f"OK: {name}={number(value) & 0xFFFF}"
            elif name == "flag" and value in ("QUEUE_MAP_CPU", "UDPSRC_RND"):
                device.flags.append(value)
                device.result = "OK: flags=0x80"
            elif name == "flag":
                device.result = f"Flag -:{value}:- unknown"
            else:
                device.result = f'No such parameter "{name}"'
                raise OSError(errno.EINVAL, "Invalid argument")

    # -- what tests do with it --------------------------------------------------------------------------------------

    def wait_running(self) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: any(device.running for device in self.devices().values()), timeout=10)

    def send(self, name: str, packets: int, *, per_packet_us: int = 10, idle_us: int = 0, errors: int = 0) -> None:
        """The device sends; it stops by itself when its count is reached."""
        with self.changed:
            device = self.devices()[name]
            assert device.running
            device.sofar += packets
            device.seq_num += packets
            device.errors += errors
            device.idle += idle_us
            device.stopped += packets * per_packet_us
            if device.count and device.sofar >= device.count:
                device.finish()
            self.changed.notify_all()

    def lose_carrier(self, name: str) -> None:
        with self.changed:
            self.devices()[name].finish()
            self.changed.notify_all()

    def begin(self) -> None:
        with self.changed:
            self.lag = False
            self._begin()

    def fatal_signal(self) -> None:
        """To whoever is blocked in the write of start. Threads that have not begun do not hear of it."""
        with self.changed:
            self.signalled = True
            self._halt()


class ThreadWriter:
    """Stands in for the forked writer, which would see a copy of the fake."""

    def __init__(self, files: FakePktgen) -> None:
        self.files, self.alive, self.last_words = files, True, None
        self.at_monotonic_ns: list[int | None] = []
        self._task: asyncio.Future[None] | None = None
        self._over = asyncio.Event()

    async def wait_ready(self) -> None:
        return

    def give_word(self, at_monotonic_ns: int | None) -> None:
        self.at_monotonic_ns.append(at_monotonic_ns)
        self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self.files.write, "pgctrl", "start")
        self.alive = False
        self._over.set()

    async def wait_end(self) -> None:
        await self._over.wait()

    def signal(self, _number: int) -> None:
        if self._task is None:
            self.alive = False
            self._over.set()
        self.files.fatal_signal()

    async def close(self) -> None:
        if self.alive:
            self.signal(9)
        await self._over.wait()
