"""The node's traffic generator: pktgen if the kernel has it, else the agent's own sender; or a plug-in's, by name.

All streams of a node use the same one: the two differ in how they pace, and streams of a trial must be comparable.

``elapsed_ns`` of a result runs from the first frame to the end of the last frame's slot: the time between the
generator's own start and stop marks, or sent_packets·delay_ns if that is longer (a generator that keeps pace stops with
the last frame, one delay too early). Offered rate is sent_packets / elapsed_ns. Unknown values are None.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any, Dict, List, Optional

from labconsole.agent.processes import children
from labconsole.agent.sending import sendpath
from labconsole.wire.codec import WireError
from labconsole.wire.stream_spec import GENERATORS, StreamSpec

PKTGEN_ROOT = "/proc/net/pktgen"
MODPROBE_LIMIT_S = 5.0
MISSING = "this console did not send a generator %s"


def check_interface(spec: StreamSpec) -> None:
    """Refuse streams that neither generator could send: pktgen itself checks none of this."""
    try:
        mtu = sendpath.mtu_bytes(spec.interface)
        ethernet = sendpath.hardware_address(spec.interface) is not None
    except OSError as exc:
        raise WireError("bad_interface", "%s: %s" % (spec.interface, exc.strerror), {"stream": spec.stream}) from exc
    if not ethernet:
        raise WireError("bad_interface", "%s is not an Ethernet interface" % spec.interface, {"stream": spec.stream})
    if spec.pkt_size_bytes > mtu + 14:
        raise WireError(
            "bad_request",
            "stream %s: a frame of %d byte (without FCS) does not fit %s, whose MTU %d allows %d"
            % (spec.stream, spec.pkt_size_bytes, spec.interface, mtu, mtu + 14),
            {"stream": spec.stream, "field": "pkt_size_bytes"},
        )
    watch = sendpath.LinkWatch(spec.interface)
    trouble = watch.trouble()
    watch.close()
    if trouble:
        raise WireError("link_down", "stream %s cannot be sent: %s" % (spec.stream, trouble), {"stream": spec.stream})


async def has_pktgen(root: str = PKTGEN_ROOT) -> bool:
    """Whether this kernel has pktgen and lets us use it, loading the module if there is one and we may."""
    control = os.path.join(root, "pgctrl")
    if os.path.exists(control):
        return os.access(control, os.R_OK | os.W_OK)
    if os.geteuid() != 0:
        return False
    try:
        process = await children.spawn(["modprobe", "-q", "pktgen"])
    except OSError:  # no modprobe
        return False
    try:
        await asyncio.wait_for(process.communicate(), MODPROBE_LIMIT_S)
    except asyncio.TimeoutError:
        children.kill_group(process)
        await process.exited()
    return os.path.exists(control)


def cleanup_arguments() -> Dict[str, Any]:
    """Return the arguments of ``pktgen_files.cleanup_ours`` if this agent is killed; known before any configuration."""
    return {"owner": "lc%d" % os.getpid()}


class GeneratorSession:
    """Streams that are prepared, started and removed together.

    Order of calls: prepare, start, then progress, stop and wait in any order, close (at any time, always).
    """

    def __init__(self, *, pktgen_root: str = PKTGEN_ROOT) -> None:
        self._root = pktgen_root
        self._backend: Any = None
        self._started = False
        self._closed = False

    async def prepare(self, specs: List[StreamSpec]) -> List[Dict[str, Any]]:
        """Check, choose the generator, and arm: after this, ``start`` only has to give the signal."""
        if self._backend is not None or self._closed:
            raise WireError("busy", "this generator was already prepared")
        if not specs:
            raise WireError("bad_request", "there is no stream to generate")
        names = [spec.stream for spec in specs]
        if len(set(names)) != len(names):
            raise WireError("bad_request", "two streams have the same name")
        wanted = {spec.generator for spec in specs}
        if len(wanted) != 1:
            raise WireError("bad_request", "all streams of a node use the same generator, not %s" % sorted(wanted))
        for spec in specs:
            check_interface(spec)
        self._backend = await self._choose(wanted.pop())
        try:
            prepared: List[Dict[str, Any]] = await self._backend.prepare(specs)
        except BaseException:
            await self.close()
            raise
        return prepared

    async def _choose(self, wanted: str) -> Any:
        if wanted not in GENERATORS:
            try:
                from labconsole.agent.sending.plugin import PluginBackend
            except ImportError:  # it comes with the first plug-in
                raise WireError("generator_missing", MISSING % wanted) from None
            return PluginBackend(wanted, MISSING)
        if wanted != "afpacket":
            if await has_pktgen(self._root):
                from labconsole.agent.sending.pktgen import PktgenBackend
                from labconsole.agent.sending.pktgen_files import ProcFiles

                return PktgenBackend(ProcFiles(self._root))
            if wanted == "pktgen":
                raise WireError(
                    "pktgen_missing", "pktgen is not available: the kernel does not have it, or the agent is not root"
                )
        from labconsole.agent.sending.afpacket import AfPacketBackend

        return AfPacketBackend()

    async def start(self, at_monotonic_ns: Optional[int]) -> None:
        """Give the signal; sending begins at that instant of CLOCK_MONOTONIC, or at once if None. Returns without
        waiting.
        """
        if self._backend is None or self._closed:
            raise WireError("not_prepared", "no generator is prepared on this node")
        if self._started:
            raise WireError("busy", "the generator was already started")
        self._started = True
        await self._backend.start(at_monotonic_ns)

    def progress(self) -> List[Dict[str, Any]]:
        return [] if self._backend is None else list(self._backend.progress())

    async def wait(self) -> List[Dict[str, Any]]:
        """Return the results, once the last stream has ended."""
        if not self._started:
            raise WireError("not_prepared", "the generator was not started")
        results: List[Dict[str, Any]] = await self._backend.wait()
        return results

    async def stop(self) -> None:
        """End early. Returns at once or as soon as the kernel has the signal; ``wait`` returns what was sent."""
        if self._backend is not None and self._started:
            await self._backend.stop()

    async def close(self) -> None:
        """Remove every process and pktgen device of ours. Idempotent."""
        self._closed = True
        if self._backend is not None:
            await self._backend.close()


async def _run_once(specs: List[Any]) -> List[Dict[str, Any]]:
    session = GeneratorSession()
    try:
        await session.prepare([StreamSpec.parse(spec) for spec in specs])
        await session.start(None)
        return await session.wait()
    finally:
        await session.close()


def main() -> int:
    """``python -m labconsole.agent.sending.generator``: run streams given as JSON on stdin, print the results."""
    try:
        print(json.dumps(asyncio.run(_run_once(json.load(sys.stdin)))))
    except WireError as exc:
        print(json.dumps({"error": {"code": exc.code, "message": exc.message, "detail": exc.detail}}))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
