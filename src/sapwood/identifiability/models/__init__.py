"""Parsing models whose identifiability is checked (Hsu, Kakade and Liang 2012)."""
