"""Head rules and their tables."""
