"""Text for people: sanitised for each medium, cut to cells, drawn as charts."""
