"""Inference: charts, posteriors, decoders, the parser."""

from sapwood.inference.parser import Parser
from sapwood.inference.result import Marginal, ParsedPhrase, ParseResult

__all__ = ["Marginal", "ParseResult", "ParsedPhrase", "Parser"]
