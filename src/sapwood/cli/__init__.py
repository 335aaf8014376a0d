"""The command line: one file a command, each thin: read the arguments, call the library, print."""
