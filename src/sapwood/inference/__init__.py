"""Inference: charts, posteriors, decoders, the parser."""

from sapwood.inference.parser import Parser, ParseResult

__all__ = ["ParseResult", "Parser"]
