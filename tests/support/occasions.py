"""A plan measured on one occasion after the other, with what each came to, without measuring."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from labconsole.store.importing import import_records
from labconsole.store.open import open_store
from support.report_runs import measured


def stored(
    place: Path,
    results: Sequence[float],
    *,
    kernels: Sequence[str] | None = None,
    offered: float = 100.0,
    plan: str = "nightly",
    margin_ratio: float | None = None,
    **how: Any,
) -> None:
    """An occasion a day, each of three set-ups on a boot of its own."""
    records = []
    for day, mbps in enumerate(results):
        for block in (1, 2, 3):
            record = measured(
                10 * day + block + 1000 * (plan != "nightly"),
                mbps * (1 + 0.0005 * (block - 2)),
                block=block,
                set_up=f"{plan}-{day}-{block}",
                boot=f"b{day}",
                plan_hash=f"{plan}{day:04}",
                kernel=kernels[day] if kernels else "6.1",
                offered_mbps=offered,
                started=f"2026-10-{day + 1:02}T01:{block:02}:00",
                **how,
            )
            record["plan"]["name"] = f"{plan}@{day + 1:02}"
            record["plan"]["margin_ratio"] = margin_ratio
            if kernels:
                facts = record["environment"]["nodes"]["uut"]["facts"]
                record["environment"]["nodes"]["uut"]["facts"] = {**facts, "kernel": kernels[day]}
            records.append(record)
    with open_store(str(place)) as store:
        import_records(store, records)
