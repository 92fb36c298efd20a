"""Names of points by what distinguishes them, and what naming many of them costs."""

from __future__ import annotations

from collections import Counter

from labconsole.measure.paired_blocks import name_platforms


class Point:
    """A point that counts how often it is looked at."""

    reads = Counter[str]()

    def __init__(self, platform: str, hypervisor: str, kernel: str | None = "6.1", testbed: str = "a") -> None:
        self._fields = {
            "platform": platform,
            "hypervisor": hypervisor,
            "kernel": kernel,
            "testbed_fingerprint": testbed,
        }

    def __getattr__(self, name: str) -> str | None:
        self.reads[name] += 1
        return self._fields[name]


def names(*points: Point) -> list[str]:
    parts = name_platforms(points, {"a": "one lab", "b": "another"}, lambda point: ["256 MiB"])
    return [", ".join(parts[point]) for point in points]


def test_a_point_is_named_by_what_differs() -> None:
    assert names(Point("kvm", "qemu 7.2"), Point("lxc", "lxc 5.0")) == ["kvm, 256 MiB", "lxc, 256 MiB"]
    assert names(Point("kvm", "qemu 7.2"), Point("kvm", "qemu 8.0"), Point("lxc", "")) == [
        "kvm, 256 MiB, qemu 7.2",
        "kvm, 256 MiB, qemu 8.0",
        "lxc, 256 MiB",
    ]
    assert names(Point("kvm", "", None), Point("kvm", "", "6.1", "b")) == [
        "kvm, 256 MiB, Linux not known, on one lab",
        "kvm, 256 MiB, Linux 6.1, on another",
    ]


def test_the_cost_of_names_grows_with_the_points_and_not_with_their_pairs() -> None:
    points = [Point(f"platform {number}", f"hypervisor {number}") for number in range(500)]
    Point.reads.clear()
    assert len(set(names(*points))) == 500
    assert max(Point.reads.values()) <= 20 * len(points), "a record of another site names the platforms"
