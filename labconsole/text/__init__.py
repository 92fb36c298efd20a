"""Text for people: made harmless to a terminal or a spreadsheet, cut to cells, drawn as charts."""
