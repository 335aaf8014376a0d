"""Unmixing: parameters of parsing models from moments of sentences."""
