"""From saved runs to figures, tables, findings and a page. Pure but for draw.py, which writes the figures."""
