"""Programs and kernel features that a node needs for its role."""

from __future__ import annotations

from labconsole.engine.check.context import CheckContext, check
from labconsole.engine.check.result import CheckFinding, failed, passed, warned
from labconsole.model.generator import load_generator
from labconsole.model.generator_names import BUILT_IN
from labconsole.plugins import PluginError
from labconsole.wire.survey import TakeSurvey


@check("tools.capture", "tcpdump", roles=("sink",))
async def capture(bench: CheckContext, node: str) -> CheckFinding:
    """A sink captures with tcpdump."""
    version = (await bench.facts(node)).tcpdump
    if version is None:
        return failed("tcpdump is not installed", f"install it on {node}: apt install tcpdump")
    return passed(f"version {version}", tcpdump=version)


@check("tools.generator", "generator", roles=("source",))
async def generator(bench: CheckContext, node: str) -> CheckFinding:
    """The generator with which a source will send."""
    facts = await bench.facts(node)
    wanted = (bench.plan.generator if bench.plan is not None else None) or bench.inventory.defaults.generator
    if wanted not in BUILT_IN:
        return await _check_plugin(bench, node, wanted)
    version, loadable = facts.pktgen, facts.pktgen_loadable
    if version is not None or loadable:
        text = f"pktgen {version}" if version is not None else "pktgen can be loaded"
        return passed(f"{text}; requested: {wanted}", generator="afpacket" if wanted == "afpacket" else "pktgen")
    if wanted == "pktgen":
        return failed(
            f"the kernel {facts.kernel} has no pktgen, and generator: pktgen is requested",
            "boot a kernel with CONFIG_NET_PKTGEN, or let `generator: auto` fall back to afpacket",
        )
    if wanted == "afpacket" or bench.inventory.emulated:
        return passed(f"afpacket (requested: {wanted}); no pktgen in this kernel", generator="afpacket")
    return warned(
        "no pktgen in this kernel: afpacket will be used, which is slower and less regular",
        "boot a kernel with CONFIG_NET_PKTGEN, as distributions build it",
        generator="afpacket",
    )


async def _check_plugin(bench: CheckContext, node: str, wanted: str) -> CheckFinding:
    """A plug-in generator: whether it can be shipped, and whether the node has the programs it runs."""
    try:
        plugin = load_generator(wanted)
    except PluginError as exc:
        return failed(str(exc), f"repair or uninstall it, or choose another generator: {', '.join(BUILT_IN)}")
    needed = list(plugin.about.programs)
    found = (await bench.read(node, TakeSurvey(tools=needed, guests=[]))).tools if needed else {}
    missing = [tool for tool in needed if found.get(tool) is None]
    if missing:
        return failed(f"no {', '.join(missing)} (for generator {wanted})", f"install {', '.join(missing)} on {node}")
    needs = f"; needs {plugin.about.needs}" if plugin.about.needs else ""
    return passed(f"{wanted}, a plug-in: {plugin.about.summary}{needs}", generator=wanted, sha256=plugin.sha256)


@check("tools.platform", "platform tools", roles=("uut",))
async def platform(bench: CheckContext, node: str) -> CheckFinding:
    """Programs that the platforms under check run on the UUT."""
    needed = bench.tools()
    if not needed:
        return passed(f"{', '.join(bench.platforms())}: only the kernel is needed")
    found = (await bench.survey(node)).tools
    missing = [tool for tool in needed if found.get(tool) is None]
    if missing:
        missing_programs = ", ".join(f"no {tool} (for {needed[tool]})" for tool in missing)
        return failed(
            missing_programs, f"install {', '.join(missing)} on {node}, or do without these platforms", missing=missing
        )
    return passed(", ".join(f"{tool} {found[tool]}" for tool in needed))
