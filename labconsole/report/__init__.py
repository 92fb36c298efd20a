"""From saved runs to figures, tables, findings and a page. Pure: what is made here, commands read and write."""
