"""The page docs/verdicts.md: every code of a verdict, from the program's table of codes and the conditions below.

.venv/bin/python tools/verdicts/page.py          writes the page
"""

from __future__ import annotations

from pathlib import Path

from labconsole.measure.groups import SIDES
from labconsole.model.record.verdict_codes import TITLES, WEIGHT, WHAT_TO_DO

PAGE = Path(__file__).resolve().parents[2] / "docs" / "verdicts.md"

GUESTS_ONLY = frozenset(
    {
        "clock_coarse",
        "job_failed",
        "job_short",
        "limiter_missing",
        "limiter_unasked",
        "mark_forged",
        "mark_lost",
        "no_memory",
        "no_space",
        "not_cold",
        "not_hot",
        "programs_differ",
        "reader_missing",
        "ready_disagrees",
        "routes_missing",
        "start_skew",
        "swapped",
        "weights_late",
        "weights_missing",
        "buffered_by_host",
        "guests_missing",
    }
)
"""Codes that only trials of guests (jobs, starts, flows, routers) can have."""

CONDITIONS: dict[str, tuple[str, ...]] = {
    "aborted": ("the operator stopped the run",),
    "lease_taken": ("another operator took the testbed over; the reason says who and for what",),
    "link_lost": ("the SSH connection to a node, or its agent, was lost",),
    "failed": ("another error stopped the trial; `failure` in the record has it",),
    "interface_gone": ("an interface on a stream's path existed before the trial and not after it",),
    "carrier_changed": ("a data port went down or came up, by the changes of carrier that the kernel counts",),
    "mtu_changed": ("the MTU of a data port changed",),
    "guest_changed": (
        "after the traffic the platform attests something else than before it: a guest ended or was "
        "restarted, or forwarding was switched off",
    ),
    "background_missed": (
        "the background load differed from the requested one by more than `background_ratio`, or is unknown",
    ),
    "guests_missing": ("a guest did not start, did not answer, or is no longer what was set up",),
    "no_memory": ("the guests needed more memory together than the unit under test had; none was started",),
    "no_space": ("the guests' disks did not fit where they are made; none worked",),
    "job_failed": (
        "a job ended with another status than 0, does not exist in the guest, or had not ended after `limit_s`",
    ),
    "mark_lost": ("the timekeeper missed the ping that marks the beginning or end of a job, or the start of a guest",),
    "mark_forged": ("pings that are no mark reached the timekeeper, or one arrived twice",),
    "swapped": ("the unit under test swapped pages in or out during a job or a start",),
    "not_cold": ("something that guests were to read from the disk was in memory",),
    "limiter_missing": ("a guest's rate limit was missing when it was read back, or had another rate",),
    "limiter_unasked": ("the back end of a Xen guest's NIC limits it, and the trial asks for no limit",),
    "reader_missing": ("the program that reads in a guest had no socket, before or after the trial",),
    "weights_missing": ("the weights by which guests share the link were not in force when they were read back",),
    "routes_missing": ("a router lacked routes or filter rules that it was given, before or after the trial",),
    "generator_failed": ("the generator (for guests also iperf) ended with an error",),
    "no_packets": (
        "the generator sent nothing, or nothing of what it sent arrived. Guests: nothing arrived from one, "
        "or through one",
    ),
    "counter_decreased": (
        "a counter of an interface on a stream's path decreased: it was reset, or the device was recreated",
    ),
    "witnesses_disagree": (
        "frames: two counts of the same packets contradict each other: the capture, or the sink's kernel, has more "
        "than the NIC; the kernel timed fewer than were captured; or the source's NIC sent less than the "
        "generator and no drop counter explains it",
        "flows and routers: more packets were counted behind a hop than before it, or of another size",
    ),
    "negative_loss": ("more was measured than offered",),
    "not_measured": (
        "the generator, or both witnesses at the sink, gave no count. Guests: no attempt produced anything to record",
    ),
    "settings_changed": (
        "a setting that decides how a node forwards changed: offloads, pause, rings, coalescing, queues, "
        "steering, speed, queueing disciplines or XDP program of a data port; governors, turbo, idle "
        "states, irqbalance or kernel parameters of a node",
    ),
    "start_skew": (
        "guests that were to begin together began further apart than 1 % of the shortest job, or of the trial",
    ),
    "weights_late": ("a change of weights took effect more than 10 ms late",),
    "job_short": (
        "a job took less than a hundred standard deviations of an empty one, or, with several copies, the "
        "shortest is so short that an empty job could account for 5 % of it",
    ),
    "programs_differ": ("the guests do not have the same file of the job's program",),
    "not_hot": ("not all of what guests were to start from was in memory",),
    "ready_disagrees": (
        "a guest's ping and its own report that it is up differ by more than 0.1 s, 2 % and the error of the clocks",
    ),
    "clock_coarse": (
        "comparing the UUT's clock with the timekeeper's leaves more than 1 % (and 1 ms) of a start-up time "
        "open (`clock_error_s` above `clock_error_allowed_s`; records without the latter are not judged by "
        "it)",
    ),
    "buffered_by_host": (
        "less reached the device below the guests' disks than their jobs wrote, or came from it than they "
        "read past every cache",
    ),
    "lost_at_source": (
        "more than `outside_loss_ratio` was lost between the generator and the wire, and a counter there says so",
    ),
    "lost_at_sink": ("more than `outside_loss_ratio` was lost between the UUT's port and the sink's",),
    "instrument_limited": (
        "the run asked more of generator, sink or capture than `labconsole calibrate` found that they can "
        "do, whatever the result",
    ),
    "not_calibrated": (
        "a calibration exists and does not cover this frame size, number of sources or generator; or, at "
        "target `max`, a sink missed packets during calibration and the generator's rate at exactly this "
        "size and number was not measured",
    ),
    "offered_short": (
        "frames: a source sent less than intended by more than `offered_ratio`. The reason says why, as far "
        "as known: `flow_control` (pause frames), `queue_full` (a busy driver), `shaper` (a queueing "
        "discipline), `link_speed` (the link is slower than the target), `cpu` (the generator never "
        "waited), `unseen_cpu`",
        "guests that send: one sent less than it was to, by more than `offered_ratio`, although that fits "
        "on the link. Not judged where all of them want more than the link or the queue carries and fill it "
        "to 99 %",
        "guests that Xen's credit limits: one sent less than 0.9 of its limit, although it was to send that much",
        "guests that share by weights: together they used less than 97 % of what they share",
        "guests that receive, and routers: the source sent less than intended to one of them, by more than "
        "`offered_ratio`",
    ),
    "offered_over": ("offered exceeded intended by more than `offered_ratio`",),
    "foreign_frames": (
        "packets of others passed a data port of source, UUT or sink, in either direction, beyond "
        "`foreign_packets`. Control traffic (`arp`, `nd`, `mld`, `lldp`, `stp`) counts only beyond 20 "
        "packets, or 10⁻⁴ of the stream's, per port and direction",
    ),
    "other_cpu": (
        "processes of others used more than `other_cpu_ratio` of a processor of a node. Not counted: kernel "
        "threads, guests that the platform attests, the SSH server of the session",
    ),
    "unseen_cpu": (
        "the processors of a machine were busy beyond that with work that no process list shows, such as "
        "other containers",
    ),
    "cpu_stolen": (
        "the hypervisor under a node took more than `steal_ratio` of its processors' time; reported, but "
        "not judged, on an emulated testbed",
    ),
    "tracing_cost": (
        "with `drop_reasons: on`, counting dropped packets took more than 1 % of a processor of the unit under test",
    ),
    "kernel_drops_disagree": (
        "the unit under test's kernel dropped more packets of a stream than the counters say it lost",
    ),
    "guests_changed": ("virtual machines other than those under test started or ended on a node",),
    "generator_errors": ("pktgen reported errors and continued",),
    "duration_stretched": ("sending took longer than requested by more than `duration_ratio`",),
    "duration_cut": (
        "frames: sending took less time than requested by more than `duration_ratio`",
        "flows and routers: packets were sent to a guest, or came from it, for less than the requested duration",
    ),
    "sources_apart": ("the sources started more than `start_skew_s` apart",),
    "duplicates": ("packets arrived more than once",),
    "buffered": (
        "more than 1 % of the packets arrived later than the sending time after the first, the last by more "
        "than 0.01 s, and only samples of a counter show when: a queue was measured with the rest. If the "
        "capture shows it, it is an influence, because the forwarding rate is then correct",
    ),
    "rate_uncertain": (
        "only samples of the sink's counter show when packets arrived, and they leave more than 1 % of the "
        "forwarding rate open; `rate_error_ratio` is the relative uncertainty. Guests: no bin in which all "
        "of them send or forward, or packets outside of the bins",
    ),
    "not_drained": ("counters were still changing when the wait for late packets ended",),
    "counter_froze": (
        "a counter on a stream's path did not change while packets were counted before and behind it; it "
        "counts as unknown",
    ),
    "capture_missing": ("there is no capture: only the sink's counters say what arrived",),
    "capture_incomplete": (
        "tcpdump dropped packets, or did not report its drops; measured comes from the counters. Not a "
        "doubt, but an influence, where the sink's kernel [timed every packet](packet-times.md) that its "
        "NIC counted",
    ),
    "untimed_packets": (
        "with `packet_times: on` and an incomplete capture, the sink's NIC counted more packets than its "
        "kernel timed: foreign frames are in `measured`, or packets were dropped behind the NIC",
    ),
    "clock_stepped": (
        "the wall clock of a node or of the console was set by more than `clock_step_s`, or the machine "
        "slept. Slewing, as NTP does it, does not show",
    ),
    "not_observed": ("a node could not report its settings, what else runs there, or what was dropped",),
    "samples_missed": (
        "more samples of the time series are missing than `missed_samples_ratio` allows; the totals do not "
        "depend on them",
    ),
}
"""When a code is given. A code that means several things has a line for each, which begins with its kind of trial."""


INTRODUCTION = """\
# Verdict codes

Every run, and every trial of guests, has a verdict. [Read a verdict](how-to/read-a-verdict.md) says how to use it.

| verdict | does a forwarding run count? | does a trial of guests (job, start, flow, router) count? |
|---|---|---|
| `valid` | yes | yes |
| `suspect` | yes, unless for {sides} | no: `replay PLAN --retake` measures it again |
| `invalid` | no: a plan repeats it | no: a plan repeats it |

The three exceptions say nothing about the platform. Names such as `offered_ratio` are
[tolerances](data-format.md#verdict), which a plan can set. This page is generated from the program's own table.
"""


def describe_weight(code: str) -> str:
    """Whether numbers with this doubt enter means."""
    if WEIGHT[code] == "invalid" or code in GUESTS_ONLY or code in SIDES:
        return "Does not count."
    return "Counts for frames, not for guests."


def build_page() -> str:
    """The whole page."""
    parts = [INTRODUCTION.format(sides=", ".join(f"`{code}`" for code in SIDES))]
    for weight, heading in (("invalid", "Invalid"), ("suspect", "Suspect")):
        parts.append(f"## {heading}\n")
        for code in (each for each, of in WEIGHT.items() if of == weight):
            parts.append(f"### {code}\n")
            parts.append(f"*{_capitalize(TITLES[code])}.* {describe_weight(code)}\n")
            conditions = CONDITIONS[code]
            if len(conditions) == 1:
                parts.append(f"- When: {conditions[0]}.")
            else:
                split = (condition.partition(": ") for condition in conditions)
                parts += [f"- When, of {kind}: {condition}." for kind, _, condition in split]
            parts.append(f"- Do: {WHAT_TO_DO[code]}.\n")
    return "\n".join(parts)


def _capitalize(text: str) -> str:
    return text[0].upper() + text[1:]


if __name__ == "__main__":
    PAGE.write_text(build_page())
