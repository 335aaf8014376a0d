"""Command line: one thin module per command that reads the arguments, calls the library and prints."""
