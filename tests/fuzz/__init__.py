"""Fuzzing: files and texts that are almost right, made from a seed, read and used in children that may crash."""
