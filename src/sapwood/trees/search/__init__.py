"""Tree search: patterns, relations and the searcher."""
