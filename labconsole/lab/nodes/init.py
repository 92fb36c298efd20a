"""Process 1 of a lab: makes the nodes and their links, then serves the control protocol until it is killed.

When it ends, the kernel kills every process of its PID namespace, and the network namespaces, veth pairs, shapers and
rules disappear with the last of them. There is nothing to clean up, whatever happened.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from labconsole.errors import LabSetupError
from labconsole.lab import control
from labconsole.lab.nodes import kernel, network, node
from labconsole.lab.nodes.kernel import HostListeners
from labconsole.lab.spec import HOST, LabSpec, Layout, Link, bypass_links

SETUP_STEP_S = 60.0
MACHINE_STEP_S = 320.0
"""More than the longest time a machine's case waits for its boot and for the UUT in it."""

_ANSWER_S = 10.0
_GRACE_S = 5.0


@dataclass(frozen=True)
class Blueprint:
    """Everything needed to build a lab, prepared before the namespaces are entered."""

    spec: LabSpec
    layout: Layout
    listeners: Mapping[str, socket.socket]
    host_keys: Mapping[str, str]
    client_key: str
    user: str
    uut_case: Callable[[node.NodeSetup], node.MachineHost] | None
    """Makes the case of the machine that is the UUT, or None if the UUT is a namespace."""


@dataclass
class _Running:
    """A node that has been forked."""

    pid: int
    channel: socket.socket
    peer: control.Peer | None = None
    talk: asyncio.Task[None] | None = None
    """Ends with the node."""


def step_limit_s(spec: LabSpec) -> float:
    """Return the time limit of a step of building a node."""
    return MACHINE_STEP_S if spec.uut == "machine" else SETUP_STEP_S


class Lab:
    """The nodes of a lab, as process 1 sees them."""

    def __init__(self, blueprint: Blueprint) -> None:
        self._outside = HostListeners()
        self._blueprint = blueprint
        self._nodes: dict[str, _Running] = {}
        self._wired = "through"
        self._wiring = asyncio.Lock()

    def build(self) -> None:
        """Make nodes and links. Raises LabSetupError with the node that failed and why."""
        kernel.unshare(kernel.CLONE_NEWNS | kernel.CLONE_NEWNET)
        kernel.make_mounts_private()
        kernel.mount("proc", "/proc", "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
        # The children share these pages until they write to them; a garbage collector that walks them would copy them
        # all.
        gc.collect()
        gc.freeze()
        for name in self._blueprint.listeners:
            if name != HOST:
                self._nodes[name] = self._fork_node(name, self._blueprint.listeners)
        self._await_state("namespaces")
        network.make_links(self._blueprint.layout, {name: n.pid for name, n in self._nodes.items()})
        self._tell_all("links")
        self._await_state("configured")
        self._tell_all("configured")
        self._await_state("ready")
        for listener in self._blueprint.listeners.values():
            listener.close()

    def _fork_node(self, name: str, listeners: Mapping[str, socket.socket]) -> _Running:
        blueprint = self._blueprint
        ours, theirs = socket.socketpair()
        own_pids = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        # unshare() puts only later children into the new PID namespace; setns() takes that back for the next ones.
        kernel.unshare(kernel.CLONE_NEWPID)
        pid = os.fork()
        if pid == 0:
            # A restarted node is forked by a process with an event loop, whose copy must not run.
            asyncio._set_running_loop(None)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            setup = self._build_setup(name, listeners)
            if setup.node.role == "uut" and HOST in listeners:
                setup = replace(setup, host=self._build_setup(HOST, listeners))
            make_case = blueprint.uut_case if setup.node.role == "uut" else None
            node.run(setup, theirs, None if make_case is None else make_case(setup))
        kernel.setns(own_pids, kernel.CLONE_NEWPID)
        os.close(own_pids)
        theirs.close()
        ours.settimeout(step_limit_s(blueprint.spec))
        return _Running(pid, ours)

    def _build_setup(self, name: str, listeners: Mapping[str, socket.socket]) -> node.NodeSetup:
        blueprint = self._blueprint
        return node.NodeSetup(
            node=blueprint.layout.node(name),
            spec=blueprint.spec,
            listener=listeners[name],
            host_key=blueprint.host_keys[name],
            client_key=blueprint.client_key,
            user=blueprint.user,
        )

    def _tell_all(self, state: str) -> None:
        for running in self._nodes.values():
            control.send(running.channel, {"state": state})

    def _await_state(self, state: str, nodes: Mapping[str, _Running] | None = None) -> None:
        for name, running in (self._nodes if nodes is None else nodes).items():
            try:
                message = control.json_line(running.channel)
            except TimeoutError:
                raise LabSetupError(f"node {name} was not ready ({state}) in time") from None
            except EOFError:
                raise LabSetupError(f"node {name} ended while it was set up") from None
            if message.get("state") != state:
                raise LabSetupError(str(message.get("message", message)))

    async def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """Answer one request of the control protocol."""
        op = message["op"]
        if op == "status":
            nodes = {name: {"alive": self._alive(n), "pid": n.pid} for name, n in self._nodes.items()}
            return {"nodes": nodes, "wired": self._wired}
        if op == "wire":
            await self._wire(str(message["how"]), unless_done=bool(message.get("alone")))
            return {"wired": self._wired}
        if op == "truth":
            return {"interfaces": await self._read_loss_counts()}
        if op == "exec":
            running = self._find(str(message["node"]))
            timeout_s = float(message["timeout_s"])
            return await self._peer(running).ask(
                "exec", timeout_s + _GRACE_S, argv=message["argv"], timeout_s=timeout_s
            )
        if op == "kill_node":
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._find(str(message["node"])).pid, signal.SIGKILL)
            return {}
        if op == "revive_node":
            await self._revive(str(message["node"]))
            return {}
        if op == "reboot":
            await self._reboot(str(message["node"]), str(message["boot"]))
            return {}
        if op == "stop":
            asyncio.get_running_loop().call_later(0.05, os._exit, 0)
            return {}
        raise control.Refused(
            f"unknown request {op!r}; allowed: status, truth, exec, wire, kill_node, revive_node, reboot, stop"
        )

    def _find(self, name: str) -> _Running:
        if name not in self._nodes:
            raise control.Refused(f"there is no node {name!r}; nodes: {', '.join(self._nodes)}")
        return self._nodes[name]

    @staticmethod
    def _peer(running: _Running) -> control.Peer:
        if running.peer is None:
            raise control.Refused("the lab is still being built")
        return running.peer

    @staticmethod
    def _alive(running: _Running) -> bool:
        return running.peer is not None and not running.peer.closed

    async def _wire(self, how: str, *, unless_done: bool) -> None:
        """Wire the lab ``through`` the UUT, as built, or ``direct`` from source to sink. All cables are replaced.

        ``unless_done``: refuse if the lab is already wired so, because another client then relies on it.
        """
        if how not in ("through", "direct"):
            raise control.Refused(f"a lab cannot be wired {how!r}; allowed: through, direct")
        layout = self._blueprint.layout
        async with self._wiring:
            if how == self._wired:
                if unless_done:
                    raise control.Refused(f"it is already wired {how}, by another client or by hand")
                return
            alive = {name: running for name, running in self._nodes.items() if self._alive(running)}
            links = _park_dead_ends(bypass_links(layout) if how == "direct" else layout.links, alive)
            self._wired = "not"  # until it is done: a request after a failure repeats it
            await self._each(alive, "unplug")
            try:
                network.make_links(layout, {name: running.pid for name, running in alive.items()}, links)
            except LabSetupError as exc:
                raise control.Refused(str(exc)) from exc
            await self._each(alive, "plug")
            without = {node for link in links if not all(end[0] for end in link) for node, _ in link}
            await self._each({name: running for name, running in alive.items() if name not in without}, "carrier")
            self._wired = how

    async def _revive(self, name: str) -> None:
        """Bring back a node that has ended: empty, as after a reboot, at the same address, with new cables."""
        blueprint, layout = self._blueprint, self._blueprint.layout
        if blueprint.spec.loss:
            raise control.Refused(
                "a lab that injects loss cannot bring a node back: its counters would start from zero"
            )
        async with self._wiring:
            if self._alive(self._find(name)):
                raise control.Refused(f"node {name} is alive")
            if self._wired != "through":
                raise control.Refused("a node can be brought back only while the lab is wired through the UUT")
            alive = {other: running for other, running in self._nodes.items() if self._alive(running)}
            links = [link for link in layout.links if name in (link.near[0], link.far[0])]
            ends = [end for link in links for end in link if end[0] in alive]
            plugs = {other: [i for node_name, i in ends if node_name == other] for other, _ in ends}
            peers = {other: alive[other] for other in plugs}
            await self._each(peers, "unplug", plugs)
            try:
                with contextlib.ExitStack() as opened:
                    names = [
                        each.name for each in layout.nodes if each.name == name or (each.name, name) == (HOST, "uut")
                    ]
                    listen = self._outside.listen
                    listeners = {each: opened.enter_context(listen(layout.node(each).address)) for each in names}
                    running = self._fork_node(name, listeners)
                new = {name: running}
                self._await_state("namespaces", new)
                there = {**peers, **new}
                network.make_links(
                    layout,
                    {other: each.pid for other, each in there.items()},
                    _park_dead_ends(links, there),
                )
                control.send(running.channel, {"state": "links"})
                self._await_state("configured", new)
                await self._each(peers, "plug", plugs)
                control.send(running.channel, {"state": "configured"})
                # A machine takes its time to boot; meanwhile, status requests must be answered.
                await asyncio.to_thread(self._await_state, "ready", new)
            except (LabSetupError, OSError) as exc:
                raise control.Refused(f"node {name} does not come back: {exc}") from exc
            await self._each(peers, "carrier", plugs)
            self._nodes[name] = running
            await self._talk(running)

    async def _reboot(self, name: str, boot: str) -> None:
        """End a machine and bring it back with another system: same address, keys and cables."""
        running = self._find(name)
        spec = LabSpec.from_json({**self._blueprint.spec.to_json(), "boot": boot})
        with contextlib.suppress(ProcessLookupError):
            os.kill(running.pid, signal.SIGKILL)
        if running.talk is not None:
            await asyncio.wait([running.talk], timeout=_ANSWER_S)
        self._blueprint = replace(self._blueprint, spec=spec)
        await self._revive(name)

    async def _each(
        self, nodes: Mapping[str, _Running], op: str, only: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        answers = await asyncio.gather(
            *(
                self._peer(running).ask(op, SETUP_STEP_S, only=None if only is None else only[name])
                for name, running in nodes.items()
            ),
            return_exceptions=True,
        )
        for name, answer in zip(nodes, answers, strict=True):
            if isinstance(answer, BaseException):
                raise control.Refused(f"{op} on {name}: {answer or type(answer).__name__}")

    async def _read_loss_counts(self) -> dict[str, dict[str, int]]:
        if not self._blueprint.spec.loss:
            return {}
        answer = await self._peer(self._find("uut")).ask(
            "exec", _ANSWER_S, argv=list(network.LOSS_COUNTS_COMMAND), timeout_s=_ANSWER_S
        )
        if answer["status"] != 0:
            raise control.Refused(f"nft: {answer['stderr'].strip()}")
        return {
            f"uut/{interface}": counts
            for interface, counts in sorted(network.parse_loss_counts(answer["stdout"]).items())
        }

    async def connect(self) -> None:
        """Connect to the nodes, and reap them when they end."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGCHLD, _reap_all)
        for running in self._nodes.values():
            await self._talk(running)

    async def _talk(self, running: _Running) -> None:
        running.peer = await control.open_peer(running.channel, None)
        running.talk = asyncio.get_running_loop().create_task(running.peer.serve())


def _park_dead_ends(links: Sequence[Link], alive: Mapping[str, object]) -> tuple[Link, ...]:
    """Leave links to ended nodes unconnected: such a node has no place for an interface."""

    def end(node: str, interface: str) -> tuple[str, str]:
        return (node, interface) if not node or node in alive else ("", f"park-{node}-{interface}"[:15])

    parked = [Link(end(*link.near), end(*link.far)) for link in links]
    return tuple(link for link in parked if link.near[0] or link.far[0])


def _reap_all() -> None:
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return
        except ChildProcessError:
            return


async def serve(lab: Lab, listener: socket.socket, lifeline: int) -> None:
    """Serve the control socket until the process outside is gone."""
    await lab.connect()
    gone = asyncio.Event()
    # The kernel kills us when the process outside dies; before that was requested, the closing pipe shows its death.
    asyncio.get_running_loop().add_reader(lifeline, gone.set)
    server = await control.serve_socket(listener, lab.answer)
    await gone.wait()
    server.close()


def be_process_one(blueprint: Blueprint, listener: socket.socket, lifeline: int, report: socket.socket) -> None:
    """Run the first process in the namespaces. Never returns."""
    try:
        kernel.die_with_parent(signal.SIGKILL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        kernel.set_process_name("lab-init")
        lab = Lab(blueprint)
        lab.build()
        control.send(report, {"state": "ready"})
        asyncio.run(serve(lab, listener, lifeline))
    except (OSError, LabSetupError) as exc:
        with contextlib.suppress(OSError):
            control.send(report, {"state": "failed", "message": str(exc)})
    finally:
        os._exit(0)
