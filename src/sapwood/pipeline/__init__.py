"""Pipelines: complete runs of training and compression, for the command line and the library alike."""
