"""Turn saved runs into figures, tables, findings and a page.

Pure, except for gathering.py, which reads, and files.py, which writes.
"""
