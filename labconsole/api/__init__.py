"""labconsole from Python: ``import labconsole``. docs/python.md.

The command line does what it does through the same functions.
"""
