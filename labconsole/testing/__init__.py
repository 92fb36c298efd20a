"""Tests for packages with plug-ins. docs/plugins.md.

Each function takes a plug-in's module. It raises AssertionError with a sentence about the first promise that is broken.
The functions need neither a testbed nor a network; to test what a driver does on a UUT, measure with it.
"""

from __future__ import annotations

from labconsole.testing.contracts import check_driver, check_experiment, check_exporter, check_generator, check_units

__all__ = ["check_driver", "check_experiment", "check_exporter", "check_generator", "check_units"]
