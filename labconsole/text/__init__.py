"""Text for people: foreign words made harmless to each medium, cut to cells, drawn as charts."""
