"""A directory with a store whose report can be packed, and bundles as an honest or a careful other person makes them."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

from labconsole.bundle import archive
from labconsole.cli.main import main
from labconsole.model.inventory import load_inventory
from labconsole.model.plan.loader import load_plan
from labconsole.model.record.run import PlanRef, StreamRecord
from labconsole.store.open import open_store
from support.store_samples import sample_record, sample_series, sample_stream

HOSTS = """
testbed: bench
nodes:
  src1: {address: 10.9.8.7, roles: [source], user: secret-user, key: ~/.ssh/secret-key, jump: op@secret-jump.example}
  uut: {address: secret-uut.example, roles: [uut], become: sudo, port: 2222}
  snk1: {address: secret-snk.example, roles: [sink]}
streams:
  - {name: s1, source: src1/eth1, uut_in: eth1, uut_out: eth5, sink: snk1/eth1, source_ip: 198.18.1.1, sink_ip: 198.19.1.1}
platforms: {raw: {driver: raw}}
defaults: {ssh_config: ~/.ssh/secret-config, drain_s: 1.5}
"""
PLAN = """
plan: small
platforms: [raw]
frame_sizes: [64]
targets: [100Mbit]
duration_s: 5
repetitions: 2
"""


def make_lab(tmp_path: Path) -> Path:
    (tmp_path / "hosts.yaml").write_text(HOSTS)
    (tmp_path / "plans").mkdir()
    (tmp_path / "plans" / "small plan.yaml").write_text(PLAN)
    (tmp_path / "plans" / "other.yaml").write_text(PLAN.replace("[64]", "[1500]"))
    with open_store(str(tmp_path / "runs.sqlite")) as store:
        fill(store, tmp_path)
    return tmp_path


def sample_stream_of_plan() -> StreamRecord:
    """The stream of a run of ``PLAN``."""
    return sample_stream().model_copy(
        update={
            "offered_duration_s": 5.0,
            "intended_pps": 1e9 / 7040,
            "measured_from": "counters",
            "unplaced_packets": None,
        }
    )


def fill(store: Any, directory: Path) -> None:
    inventory = load_inventory(directory / "hosts.yaml")
    plan = load_plan(directory / "plans" / "small plan.yaml", inventory)
    stream = sample_stream_of_plan()
    for number in range(4):
        ref = PlanRef(name="small", hash=plan.hash(), point=0, repetition=1 + number, seed=1)
        run = sample_record(
            number,
            plan=ref,
            testbed="bench",
            testbed_fingerprint=inventory.fingerprint(),
            streams=(stream,),
            format=1,
            method=1,
        )
        store.save(run, sample_series() if number else None)
    store.set_note(run.run_id, "fan was loud", author="op")
    store.set_plan_note(plan.hash(), inventory.fingerprint(), "with the old fan", author="op")
    store.save_calibration({"testbed_fingerprint": inventory.fingerprint(), "number": 1})


def pack(lab: Path, name: str = "b.tar.gz", *words: str) -> Path:
    assert main(["report", "--store", str(lab / "runs.sqlite"), "--bundle", name, *words]) == 0
    return lab / name


def members(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        return {m.name.partition("/")[2]: tar.extractfile(m).read() for m in tar}  # type: ignore[union-attr]


def repack(path: Path, files: dict[str, bytes], *, honest: bool) -> Path:
    """An archive of these files; ``honest``: with a manifest that fits them, as a careful forger would make it."""
    if honest:
        manifest = json.loads(files["manifest.json"])
        manifest["files"] = {
            name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            for name, content in files.items()
            if name != "manifest.json"
        }
        files = {**files, "manifest.json": json.dumps(manifest).encode()}
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(f"{archive.TOP}/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path
