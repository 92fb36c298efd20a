"""Two runs side by side: what counts as a difference."""

from __future__ import annotations

from labconsole.measure.comparison import compare
from labconsole.model.record.run import LedgerHop
from support.store_samples import sample_record, sample_stream


def differing(a, b) -> dict[str, tuple[object, object]]:
    return {f"{p.section}: {p.label}": (p.left, p.right) for p in compare(a, b) if p.differs and not p.expected}


def test_two_runs_of_one_set_up_do_not_differ():
    assert differing(sample_record(0), sample_record(1)) == {}


def test_what_was_asked_otherwise_and_what_was_lost_elsewhere_is_marked():
    lossy = sample_stream().model_copy(
        update={"ledger": (LedgerHop(hop="uut out", node="uut", interface="eth5", packets=9, lost_packets=3),)}
    )
    other = sample_record(1, platform="kvm", target_bps="max", streams=(lossy,))
    assert differing(sample_record(0), other) == {
        "Requested: platform": ("raw", "kvm"),
        "Requested: target": (100_000_000, "max"),
        "Stream s1: lost before uut out": (None, 3),
    }


def test_of_the_environment_only_what_differs_is_told_by_its_place():
    a = sample_record(0, environment={"nodes": {"uut": {"kernel": "6.1", "load": [1, 2], "guests": [{"cpu": 1}]}}})
    b = sample_record(
        1, environment={"nodes": {"uut": {"kernel": "6.2", "load": [3, 4], "guests": [{"cpu": 2}]}, "s": {"x": 1}}}
    )
    assert differing(a, b) == {
        "Environment: nodes.uut.kernel": ("6.1", "6.2"),
        "Environment: nodes.uut.guests.0.cpu": (1, 2),
        "Environment: nodes.s": (None, "there"),
    }
    (load,) = [p for p in compare(a, b) if p.label == "nodes.uut.load"]
    assert load.differs
    assert load.expected


def test_a_setting_that_one_record_does_not_tell_is_unknown_and_no_difference():
    def told(number, settings):
        said = {"facts": {"kernel": "6.1"}, **({} if settings is None else {"settings": settings})}
        return sample_record(number, environment={"nodes": {"uut": said}})

    new = told(0, {"eth1 mtu": 1500, "smt": "on", "net.bridge.x": None, "eth1 queues": [1, 2]})
    assert differing(told(1, None), new) == differing(new, told(1, None)) == {}
    assert differing(new, told(1, {"eth1 mtu": 1500})) == {}
    other = told(1, {"eth1 mtu": 9000, "net.bridge.x": "1", "turbo": "on", "eth1 queues": [1, 3]})
    assert differing(new, other) == {
        "Environment: nodes.uut.settings.eth1 mtu": (1500, 9000),
        "Environment: nodes.uut.settings.net.bridge.x": ("module not loaded", "1"),
        "Environment: nodes.uut.settings.eth1 queues": ("1, 2", "1, 3"),
    }


def test_a_stream_of_one_run_only_is_told():
    two = (sample_stream(), sample_stream().model_copy(update={"name": "s2"}))
    assert differing(sample_record(0), sample_record(1, streams=two)) == {"Stream s2: stream": (None, "there")}


def test_a_change_is_a_share_of_the_first():
    pairs = {p.label: p for p in compare(sample_record(0), sample_record(1)) if p.section == "Result"}
    assert pairs["verdict"].change is None
    assert [
        p.change
        for p in compare(sample_record(0, duration_s=10.0), sample_record(1, duration_s=15.0))
        if p.label == "duration"
    ] == [0.5]
