"""Runs and tables as pandas data frames, with types that represent unknown values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from labconsole.contracts.report import Table
from labconsole.model.record.summary import RunSummary
from labconsole.store.exporting import COLUMNS, Kind, row_values

if TYPE_CHECKING:
    import pandas as pd

MORE: Final[dict[str, Kind]] = {
    "forwarding_pps": "real",
    "forwarding_bps": "real",
    "offered_packets": "integer",
    "source_lost_packets": "integer",
    "uut_lost_packets": "integer",
    "sink_lost_packets": "integer",
    "late_packets": "integer",
    "set_up": "text",
    "block": "integer",
    "attempt": "integer",
    "uut_kernel": "text",
    "hypervisor": "text",
    "boot_id": "text",
    "method": "integer",
    "format": "integer",
}
"""Columns of a frame of runs in addition to those of an export."""

DTYPES: Final[dict[Kind, str]] = {
    "text": "string",
    "integer": "Int64",
    "real": "Float64",
    "boolean": "boolean",
    "time": "datetime64[us, UTC]",
}


def build_runs_frame(runs: Sequence[RunSummary]) -> pd.DataFrame:
    """A frame of these runs. ``runs``: oldest first."""
    import pandas as pd

    rows = [row_values(run) | {name: getattr(run, name, None) for name in MORE} for run in runs]
    columns = {}
    for name, kind in (COLUMNS | MORE).items():
        values = [row[name] for row in rows]
        if name == "reason_codes":
            values = [";".join(codes) for codes in values]
        if kind == "time":
            times = pd.to_datetime(pd.Series(values, dtype="string"), utc=True, format="ISO8601")
            columns[name] = times.astype(DTYPES[kind])
        else:
            columns[name] = pd.Series(values, dtype=DTYPES[kind])
    return pd.DataFrame(columns).set_index("run_id")


def build_table_frame(table: Table) -> pd.DataFrame:
    """A table's exact values, under the column names of its CSV."""
    import pandas as pd

    return pd.DataFrame([list(row) for row in table.rows], columns=list(table.columns)).convert_dtypes()
