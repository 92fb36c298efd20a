"""The version of this program."""

__version__ = "0.2.0.dev0"
