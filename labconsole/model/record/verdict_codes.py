"""The codes of a verdict: what each weighs, and what to do about it. docs/data-format.md explains them.

invalid: the numbers cannot be stood behind and enter no mean. suspect: they stand, with a doubt that is named.
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
    "generator_failed": "invalid",
    "no_packets": "invalid",
    "counter_decreased": "invalid",
    "witnesses_disagree": "invalid",
    "negative_loss": "invalid",
    "not_measured": "invalid",
    "settings_changed": "suspect",
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
    "clock_stepped": "suspect",
    "not_observed": "suspect",
    "samples_missed": "suspect",
}
"""The most serious first: in this order reasons are told."""

WHAT_TO_DO: dict[str, str] = {
    "aborted": "take the run again",
    "lease_taken": "agree on who measures when, then take the run again",
    "link_lost": "see why the node or its SSH connection went away (`labconsole check`), then take the run again",
    "failed": "the sentence says which operation failed on which node; mend that, then take the run again",
    "interface_gone": "see why the interface went away (driver, guest, hot plug), then take the run again",
    "carrier_changed": "check cable, transceiver and port, or whoever set the interface down; then take the run again",
    "mtu_changed": "find who set the MTU, set it back and take the run again",
    "guest_changed": "see why the platform is not what was set up (a restart, a setting), then take the run again",
    "background_missed": "give the second guest what its load needs (a CPU, a faster source), or ask for less",
    "generator_failed": "the sentence has the generator's own words; `labconsole check` tries it",
    "no_packets": "see that the source's port is up and its generator starts (`labconsole check`)",
    "counter_decreased": "a driver was reset, or counts wrongly: look into the node's log, then take the run again",
    "witnesses_disagree": "one of the two counters does not count every packet: try another NIC or driver there",
    "negative_loss": "find who sends frames like the stream's, or what doubles packets; then take the run again",
    "not_measured": "see why neither capture nor counters could be read at the sink (`labconsole check`)",
    "settings_changed": "stop what changes settings while one measures (a daemon, a colleague); take the run again",
    "lost_at_source": "raise the source's queue (txqueuelen, ring) or offer less: these packets never reached the wire",
    "lost_at_sink": "raise the sink's ring or use a faster sink: the unit under test had forwarded these packets",
    "instrument_limited": "offer less than the calibration found, or use a faster generator or sink",
    "not_calibrated": "calibrate what is asked for: `labconsole calibrate`, with `--plan` what a plan asks for",
    "offered_short": "offer less, or free what held the source back; what was offered is counted and stands",
    "offered_over": "take the run again; if it stays so, the source's clock or generator is not to be relied on",
    "foreign_frames": "find who sends these frames and take them off the data ports, or allow so many: foreign_packets",
    "other_cpu": "end these programs on the node, or wait until they have ended; then take the run again",
    "unseen_cpu": "look on the machine itself, outside its containers, for what runs there (top); end it, and take the "
    "run again",
    "cpu_stolen": "give the node processors of its own under its hypervisor, or measure on a machine that is not one's "
    "guest",
    "guests_changed": "have no guests start or end on the node while one measures; take the run again",
    "generator_errors": "look into the source's kernel log for pktgen's errors; take the run again",
    "duration_stretched": "offer less, or give the source a processor of its own: its rate is over the time it took",
    "duration_cut": "see why the source stopped early; take the run again",
    "sources_apart": "see that no source is busy with something else; pktgen needs up to 100 ms to start",
    "duplicates": "look for a loop or a mirror port on the way",
    "buffered": "take longer trials: this one was too short against the queue that it filled",
    "rate_uncertain": "see that the capture misses nothing (capture_buffer_kib), or take longer trials, or lower "
    "sample_interval_s",
    "not_drained": "raise drain_s until counters stand still before they are read",
    "counter_froze": "this driver's counter is not updated in time or not at all: raise drain_s, or use another driver",
    "capture_missing": "see why tcpdump did not capture at the sink (`labconsole check`); counters alone told the loss",
    "capture_incomplete": "raise capture_buffer_kib, or use a faster sink; the sink's counters told the loss",
    "clock_stepped": "let NTP slew and not step the clock, and keep the node from sleeping; take the run again",
    "not_observed": "the sentence says what the node could not tell, and why; mend that",
    "samples_missed": "raise sample_interval_s, or let the node have less to do; counts do not depend on samples",
}
"""One sentence a code, shown beside the reason that stands first of its cause."""


def depths(reasons: Sequence[Reason]) -> list[int]:
    """How many causes stand above each reason, for whoever shows it under them. Holds for any record's reasons."""
    above = {each.code: each.follows for each in reasons}
    found = []
    for each in reasons:
        steps, code = 0, each.follows
        while code is not None and code in above and steps < len(above):
            steps, code = steps + 1, above[code]
        found.append(steps)
    return found
