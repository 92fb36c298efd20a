"""The codes of a verdict: weights, titles, and advice for each. docs/data-format.md explains them.

invalid: the numbers are not reliable and enter no mean. suspect: they count, with a named doubt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from labconsole.model.record.run import Reason

WEIGHT: dict[str, Literal["invalid", "suspect"]] = {
    "aborted": "invalid",
    "lease_taken": "invalid",
    "link_lost": "invalid",
    "failed": "invalid",
    "interface_gone": "invalid",
    "carrier_changed": "invalid",
    "mtu_changed": "invalid",
    "guest_changed": "invalid",
    "background_missed": "invalid",
    "guests_missing": "invalid",
    "no_memory": "invalid",
    "no_space": "invalid",
    "job_failed": "invalid",
    "mark_lost": "invalid",
    "mark_forged": "invalid",
    "swapped": "invalid",
    "not_cold": "invalid",
    "limiter_missing": "invalid",
    "limiter_unasked": "invalid",
    "reader_missing": "invalid",
    "weights_missing": "invalid",
    "routes_missing": "invalid",
    "generator_failed": "invalid",
    "no_packets": "invalid",
    "counter_decreased": "invalid",
    "witnesses_disagree": "invalid",
    "negative_loss": "invalid",
    "not_measured": "invalid",
    "settings_changed": "suspect",
    "start_skew": "suspect",
    "weights_late": "suspect",
    "job_short": "suspect",
    "programs_differ": "suspect",
    "not_hot": "suspect",
    "ready_disagrees": "suspect",
    "clock_coarse": "suspect",
    "buffered_by_host": "suspect",
    "lost_at_source": "suspect",
    "lost_at_sink": "suspect",
    "instrument_limited": "suspect",
    "not_calibrated": "suspect",
    "offered_short": "suspect",
    "offered_over": "suspect",
    "foreign_frames": "suspect",
    "other_cpu": "suspect",
    "unseen_cpu": "suspect",
    "cpu_stolen": "suspect",
    "tracing_cost": "suspect",
    "kernel_drops_disagree": "suspect",
    "guests_changed": "suspect",
    "generator_errors": "suspect",
    "duration_stretched": "suspect",
    "duration_cut": "suspect",
    "sources_apart": "suspect",
    "duplicates": "suspect",
    "buffered": "suspect",
    "rate_uncertain": "suspect",
    "not_drained": "suspect",
    "counter_froze": "suspect",
    "capture_missing": "suspect",
    "capture_incomplete": "suspect",
    "untimed_packets": "suspect",
    "clock_stepped": "suspect",
    "not_observed": "suspect",
    "samples_missed": "suspect",
}
"""The most serious first: the order in which reasons are listed."""

TITLES: dict[str, str] = {
    "aborted": "aborted",
    "lease_taken": "testbed taken over",
    "link_lost": "connection lost",
    "failed": "failed",
    "interface_gone": "interface gone",
    "carrier_changed": "link went down or came up",
    "mtu_changed": "MTU changed",
    "guest_changed": "platform changed",
    "background_missed": "background load missed",
    "guests_missing": "guests missing",
    "no_memory": "too little memory",
    "no_space": "too little disk space",
    "job_failed": "job failed",
    "mark_lost": "time mark lost",
    "mark_forged": "strange time marks",
    "swapped": "memory swapped",
    "not_cold": "not a cold start",
    "limiter_missing": "rate limit missing",
    "limiter_unasked": "unrequested rate limit",
    "reader_missing": "no receiver in the guest",
    "weights_missing": "weights not in force",
    "routes_missing": "routes missing",
    "generator_failed": "generator failed",
    "no_packets": "nothing sent",
    "counter_decreased": "counter went down",
    "witnesses_disagree": "witnesses disagree",
    "negative_loss": "more measured than offered",
    "not_measured": "not measured",
    "settings_changed": "settings changed",
    "start_skew": "not started together",
    "weights_late": "weights changed late",
    "job_short": "job too short",
    "programs_differ": "programs differ",
    "not_hot": "not a hot start",
    "ready_disagrees": "two start times disagree",
    "clock_coarse": "clocks compared too coarsely",
    "buffered_by_host": "writes cached, not on disk",
    "lost_at_source": "lost at the source",
    "lost_at_sink": "lost at the sink",
    "instrument_limited": "instrument at its limit",
    "not_calibrated": "load not calibrated",
    "offered_short": "offered less than intended",
    "offered_over": "offered more than intended",
    "foreign_frames": "foreign frames",
    "other_cpu": "busy with other programs",
    "unseen_cpu": "unseen processor load",
    "cpu_stolen": "processor time stolen",
    "tracing_cost": "tracing took too much",
    "kernel_drops_disagree": "kernel drops disagree",
    "guests_changed": "other guests started or ended",
    "generator_errors": "generator reported errors",
    "duration_stretched": "sending took too long",
    "duration_cut": "sending ended too early",
    "sources_apart": "sources started apart",
    "duplicates": "duplicate packets",
    "buffered": "packets arrived late",
    "rate_uncertain": "forwarding rate uncertain",
    "not_drained": "packets still on their way",
    "counter_froze": "counter did not advance",
    "capture_missing": "no capture",
    "capture_incomplete": "capture incomplete",
    "untimed_packets": "packets that were not timed",
    "clock_stepped": "wall clock was set",
    "not_observed": "not everything observed",
    "samples_missed": "samples missing",
}
"""Display names of codes, in at most 30 characters. Filters, exports and records use the code."""

WHAT_TO_DO: dict[str, str] = {
    "aborted": "repeat the run",
    "lease_taken": "agree on who measures when, then repeat the run",
    "link_lost": "find out why the node or its SSH connection went away (run `labconsole check`), then repeat the run",
    "failed": "the reason names the operation that failed and its node; fix that, then repeat the run",
    "interface_gone": "find out why the interface went away (driver, guest, hot plug), then repeat the run",
    "carrier_changed": "check the cable, transceiver and port, and whether someone set the interface down; then "
    "repeat the run",
    "mtu_changed": "find out who changed the MTU, restore it and repeat the run",
    "guest_changed": "find out what changed the platform after its set-up (a restart, a setting), then repeat the run",
    "background_missed": "give the second guest what its load needs (a CPU, a faster source), or ask for less load",
    "guests_missing": "the reason names the guest; give the crew fewer guests or more memory, and look at its console",
    "no_memory": "give each guest less memory (memory_mib), start fewer, or give the unit under test more",
    "no_space": "make the size of the largest job smaller, or put it into a plan of its own; start fewer guests; or "
    "make room where their disks are (guest_disk, guest_directory)",
    "job_failed": "the reason quotes the job; install its program in the guest, or give it more time, memory or disk",
    "mark_lost": "find out what dropped the guest's ping on its way to the timekeeper; then repeat the trial",
    "mark_forged": "find out who else sends pings to the timekeeper's address, and keep them off; repeat the trial",
    "swapped": "give the unit under test more memory, or the crew fewer guests; then repeat the trial",
    "not_cold": "find out what reads the copies that the guests start from (a backup, a scanner); repeat the trial",
    "limiter_missing": "find out who changes queueing disciplines or guests' rates on the unit under test, or what "
    "keeps them from being read; then repeat the trial",
    "limiter_unasked": "take the rate out of the guest's file, or ask for that limit; then repeat the trial",
    "reader_missing": "find out why iperf ended in the guest, or what else uses its port there; then repeat the trial",
    "weights_missing": "find out who changes queueing disciplines on the unit under test; then repeat the trial",
    "generator_failed": "the reason quotes the generator; run `labconsole check` to test it",
    "routes_missing": "find out who changes routes or filter rules in the routers, or give each more memory; then "
    "repeat the trial",
    "no_packets": "make sure that the source's port is up and that its generator starts (run `labconsole check`)",
    "counter_decreased": "a driver was reset or miscounts: look at the node's log, then repeat the run",
    "witnesses_disagree": "one of the two counters misses packets: try another NIC or driver",
    "negative_loss": "find out who sends frames like the stream's, or what duplicates packets; then repeat the run",
    "not_measured": "find out why nothing could be counted: at the sink (`labconsole check`), or what a guest lacks",
    "settings_changed": "stop what changes settings during a measurement (a daemon, a colleague); repeat the run",
    "start_skew": "use a longer job or trial, or fewer guests: they did not begin together, or the first packets of "
    "one waited in a queue that others had filled",
    "weights_late": "leave the agent a processor of the unit under test, or change weights less often",
    "programs_differ": "install the same file of the job's program in every guest",
    "job_short": "make the job larger: its time marks account for too much of its time",
    "buffered_by_host": "the time is one of memory: let the guests' disks bypass the host's cache, or make the job "
    "larger than what caches it",
    "not_hot": "give the unit under test more memory: the guests' files did not stay in its page cache",
    "clock_coarse": "run labconsole nearer to the nodes, or leave them a processor: the clocks are compared by "
    "round trips, and the uncertainty is half of the fastest one",
    "ready_disagrees": "start fewer guests at once, or look for lost pings: a guest reported two start times",
    "lost_at_source": "raise the source's queue (txqueuelen, ring) or offer less: these packets never reached the wire",
    "lost_at_sink": "raise the sink's ring or use a faster sink: the unit under test had forwarded these packets",
    "instrument_limited": "offer less than the calibration found, or use a faster generator or sink",
    "not_calibrated": "calibrate for this load: run `labconsole calibrate`, with `--plan` for the loads of a plan",
    "offered_short": "offer less, or remove what slowed the source down; the run stays usable, at the load that was "
    "offered",
    "offered_over": "repeat the run; if this persists, the source's clock or generator is unreliable",
    "foreign_frames": "find out who sends these frames and keep them off the data ports, or raise foreign_packets in a "
    "plan's `tolerances:`; ICMP errors are answers to the stream: run `labconsole check`, and look at the firewall and "
    "the forwarding of the node that sends them",
    "other_cpu": "stop these programs on the node, or wait until they end; then repeat the run; or raise "
    "other_cpu_ratio in a plan's `tolerances:`",
    "unseen_cpu": "look at what runs on the machine itself, outside its containers (top); stop it and repeat the run; "
    "or raise other_cpu_ratio in a plan's `tolerances:`",
    "cpu_stolen": "give the node dedicated processors on its hypervisor, or measure on a machine that is not a guest",
    "tracing_cost": "leave drop_reasons at auto for this load, or measure it once more without them; if other "
    "programs' packets took most of it, stop those; in telemetry, its processor time is included in the "
    "nodes' figures",
    "kernel_drops_disagree": "look for a loop, flooding or a mirror on the unit under test: copies that it drops were "
    "never offered",
    "guests_changed": "make sure that no guest starts or ends on the node during a measurement; repeat the run",
    "generator_errors": "look for pktgen's errors in the source's kernel log; repeat the run",
    "duration_stretched": "offer less, or give the source a dedicated processor: its rate is averaged over the time "
    "it took",
    "duration_cut": "find out why the source stopped early; repeat the run",
    "sources_apart": "make sure that no source is busy with something else; pktgen needs up to 100 ms to start",
    "duplicates": "look for a loop or a mirror port on the way",
    "buffered": "use longer trials: this one was too short for the queue that it filled",
    "rate_uncertain": "make sure that the capture misses nothing (capture_buffer_kib), use longer trials, or lower "
    "sample_interval_s; of guests that send, shorter bins (bin_s), or longer work on the disk",
    "not_drained": "raise drain_s until the counters no longer change when they are read",
    "counter_froze": "this driver's counter is not updated in time or not at all: raise drain_s, or use another driver",
    "capture_missing": "find out why tcpdump did not capture at the sink (run `labconsole check`); loss is from "
    "counters alone",
    "untimed_packets": "find out who else sends to the sink's port; or its backlog drops: net.core.netdev_max_backlog",
    "capture_incomplete": "raise capture_buffer_kib, or use a faster sink; loss is from the sink's counters",
    "clock_stepped": "let NTP slew the clock instead of stepping it, and keep the node from sleeping; repeat the run",
    "not_observed": "the reason says what the node could not report, and why; fix that",
    "samples_missed": "raise sample_interval_s, or reduce the load on the node; counts do not depend on samples",
}
"""One sentence of advice for each code, shown next to the first reason of its cause."""


def title(code: str) -> str:
    """A code's display name, or the code itself if a later program added it."""
    return TITLES.get(code, code)


def title_with_code(code: str) -> str:
    """Title and code, for readers who may filter by it: ``sending took too long (duration_stretched)``."""
    return f"{TITLES[code]} ({code})" if code in TITLES else code


def depths(reasons: Sequence[Reason]) -> list[int]:
    """The number of causes above each reason, for indented display. Works for any record's reasons."""
    above = {each.code: each.follows for each in reasons}
    found = []
    for each in reasons:
        steps, code = 0, each.follows
        while code is not None and code in above and steps < len(above):
            steps, code = steps + 1, above[code]
        found.append(steps)
    return found
