"""Back-off n-gram models: Kneser-Ney and ARPA files."""
