"""Routers over the occasions of plans, and where they change, as a figure and tables."""

from __future__ import annotations

from labconsole.experiments.route.measured import MEASURED
from labconsole.report.trend_units import build_trend_units

UNITS = build_trend_units(MEASURED, place=154)
