"""labconsole: measure how well a machine forwards packets when it is virtualized."""

__version__ = "0.2.0.dev0"
