"""spaCy tokenisers for raw text, by language."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from sapwood.errors import UsageError
from sapwood.trees.tokenise.lines import Tokeniser
from sapwood.trees.tokenise.penn import Token

# Names may come from untrusted model files, and spaCy imports the module that they name.
_LANGUAGE = re.compile(r"[a-z]{2,3}")


def make_tokeniser(language: str) -> Tokeniser:
    """Return spaCy's tokeniser of a language such as `de`, with rule-based sentence boundaries.

    Examples
    --------
    >>> cut = make_tokeniser("de")
    >>> [[token.word for token in sentence] for sentence in cut("Er kam z.B. heute. Gut!")]
    [['Er', 'kam', 'z.B.', 'heute', '.'], ['Gut', '!']]
    """
    if not _LANGUAGE.fullmatch(language):
        raise UsageError(f"a tokeniser of spaCy is named by its language, as in spacy:de, not {language[:40]!r}")
    try:
        import spacy
    except ImportError:
        raise UsageError("the tokenisers of spaCy need that package (pip install spacy)") from None
    try:
        pipeline = spacy.blank(language)
    except (ImportError, OSError) as error:
        raise UsageError(f"spaCy has no tokeniser for {language!r}, or lacks what it needs: {error}") from error
    pipeline.add_pipe("sentencizer")
    pipeline.max_length = 1 << 30

    def cut(text: str | Iterable[str]) -> Iterator[list[Token]]:
        document = pipeline(text if isinstance(text, str) else "".join(text))
        for sentence in document.sents:
            tokens = [
                Token(token.idx, token.idx + len(token.text), token.text) for token in sentence if not token.is_space
            ]
            if tokens:
                yield tokens

    return cut
