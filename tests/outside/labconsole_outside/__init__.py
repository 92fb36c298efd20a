"""Plug-ins for labconsole from outside of it."""
