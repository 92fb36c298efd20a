"""What a package with plug-ins tests them by. docs/plugins.md.

Each function takes a plug-in's module and raises AssertionError with a sentence about the first promise that it does
not keep. They need neither a testbed nor a network: what a driver does on a UUT is tried by measuring with it.
"""

from __future__ import annotations

from labconsole.testing.contracts import check_driver, check_exporter, check_units
from labconsole.testing.experiments import check_experiment
from labconsole.testing.generators import check_generator

__all__ = ["check_driver", "check_experiment", "check_exporter", "check_generator", "check_units"]
