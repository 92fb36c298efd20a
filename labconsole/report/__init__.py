"""Turn saved runs into figures, tables, findings and a page.

Pure, except for loading.py, which reads, and files.py, which writes.
"""
