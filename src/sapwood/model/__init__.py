"""`ParserModel`: grammars and the components that parse with them, as one object and one file."""

from sapwood.model.parser_model import ParserModel, ParsingDefaults, Preparation, TokeniserStyle

__all__ = ["ParserModel", "ParsingDefaults", "Preparation", "TokeniserStyle"]
