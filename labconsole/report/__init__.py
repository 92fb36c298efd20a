"""From saved runs to figures, tables, findings and a page.

Pure, but for gathering.py, which reads, and files.py, which writes.
"""
