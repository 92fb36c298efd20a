"""An exporter: values between tabs."""

from labconsole.store.exporting import COLUMNS, text_values

BINARY = False


def parts(runs):
    """A header, then a line per run."""
    yield "\t".join(COLUMNS) + "\n"
    for row in runs.rows():
        yield "\t".join(str(value) for value in text_values(row).values()) + "\n"
