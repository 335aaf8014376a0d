"""spaCy component: `nlp.add_pipe("sapwood")` (requires the extra `spacy`).

Each sentence of a document is parsed with spaCy's tokens (except white space); a document without sentence boundaries
is one sentence. Parses are stored in `doc.user_data` as lists, numbers and strings, so that they are saved with the
document, and are accessible as extension attributes:

- `doc._.constituents`, `span._.constituents`: the phrases as labelled spans, parents before children;
- `span._.labels`: the labels of the phrases that cover exactly these tokens, top first; `span._.confidence`: the lowest
  of their probabilities; `span._.parent` and `span._.children`: phrases as spans; `span._.parse_string`: brackets;
- for the span of a sentence, `span._.tree` (a `Tree`), `span._.alternatives` (pairs of a tree and its log probability),
  `span._.parse_status` and `span._.log_probability`; for all sentences, `doc._.trees` and `doc._.alternatives`.
"""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from sapwood.errors import UsageError
from sapwood.inference import Parser, ParseResult
from sapwood.inference.forest.kbest import Derivation
from sapwood.model.parser_model import ParserModel
from sapwood.trees.formats.gaps import positions, split_gaps
from sapwood.trees.tokenise.attached import AttachedPunctuation, PlainTextWarning
from sapwood.trees.tree import PlacedWord, Tree

try:
    from spacy.language import Language
    from spacy.tokens import Doc, Span
except ImportError as error:
    raise UsageError("sapwood.interop.spacy needs spaCy: pip install spacy") from error

# Key of the parses in a document, and the files of a saved component.
_KEY = "sapwood"
_CONFIG, _MODEL = "config.json", "model.sapwood"
_SETTINGS: dict[str, Any] = {
    "model": None,
    "confidences": True,
    "alternatives": 0,
    "threads": 1,
    "max_words": 500,
    "timeout": None,
    "set_tags": False,
}


class SapwoodComponent:
    """Parser of documents, created by `nlp.add_pipe("sapwood", config={...})`.

    Parameters
    ----------
    model
        Path of a model file, name of an installed model, or None for the included English one.
    confidences
        Whether to compute the probabilities of phrases.
    alternatives
        Number of best trees to keep per sentence.
    threads
        Number of threads of `nlp.pipe`.
    max_words, timeout
        As for `Parser`.
    set_tags
        Whether to set `token.tag_` to the tags of the tree.
    """

    def __init__(self, **settings: Any) -> None:
        self.settings = {**_SETTINGS, **settings}
        self._parser: Parser | None = None

    @property
    def parser(self) -> Parser:
        """The parser, created on first use."""
        if self._parser is None:
            self._parser = self._make_parser(self.settings["model"])
        return self._parser

    def _make_parser(self, model: Any) -> Parser:
        names = ("alternatives", "threads", "max_words", "timeout")
        options = {name: self.settings[name] for name in names}
        return Parser(model, marginals=bool(self.settings["confidences"]), **options)

    def __call__(self, doc: Doc) -> Doc:
        """Parse one document."""
        return next(self.pipe([doc]))

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 64) -> Iterator[Doc]:
        """Parse documents, the sentences of a batch together."""
        waiting = iter(stream)
        while docs := list(islice(waiting, batch_size)):
            sentences = [(doc, tokens) for doc in docs for tokens in _sentences(doc)]
            words = [self._words(doc, tokens) for doc, tokens in sentences]
            results = self.parser.parse(self._detector.watched(words, _warn), check_tokens=False)
            for doc in docs:
                doc.user_data[_KEY] = []
            for (doc, tokens), result in zip(sentences, results, strict=True):
                self._store(doc, tokens, result)
            yield from docs

    @cached_property
    def _detector(self) -> AttachedPunctuation:
        return self.parser.attached_punctuation()

    def _words(self, doc: Doc, tokens: Sequence[int]) -> list[str]:
        words = [doc[token].text for token in tokens]
        if self.parser.model.preparation.tokeniser.rewrite:
            # Treebanks distinguish opening from closing quotes.
            opened = False
            for place, word in enumerate(words):
                if word == '"':
                    words[place] = "''" if opened else "``"
                    opened = not opened
        return words

    def _store(self, doc: Doc, tokens: list[int], result: ParseResult) -> None:
        written = [doc[token].text for token in tokens]
        tree = None if result.tree is None else _respelled(result.tree, written)
        best = result.alternatives
        if best is not None:
            best = [Derivation(_respelled(one, written), score) for one, score in best]
        value = {**replace(result, tree=tree, alternatives=best).to_dict(), "tokens": tokens}
        del value["words"]
        doc.user_data[_KEY].append(value)
        if self.settings["set_tags"] and tree is not None:
            for token, tag in zip(tokens, tree.tags(), strict=True):
                doc[token].tag_ = tag

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:  # noqa: ARG002
        """Save settings and model in a directory."""
        Path(path).mkdir(exist_ok=True)
        (Path(path) / _CONFIG).write_text(json.dumps({**self.settings, "model": None}), encoding="utf-8")
        if self.settings["model"] is not None:
            self.parser.model.save(Path(path) / _MODEL)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> SapwoodComponent:  # noqa: ARG002
        """Load settings and model from a directory."""
        saved = json.loads((Path(path) / _CONFIG).read_text(encoding="utf-8"))
        self.settings.update({name: saved[name] for name in _SETTINGS if name in saved})
        has_model = (Path(path) / _MODEL).exists()
        self._parser = self._make_parser(ParserModel.load(Path(path) / _MODEL) if has_model else None)
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Return settings and model as bytes."""
        with tempfile.TemporaryDirectory() as folder:
            self.to_disk(folder, exclude=exclude)
            model = Path(folder) / _MODEL
            config = (Path(folder) / _CONFIG).read_bytes()
            return config + b"\n" + (model.read_bytes() if model.exists() else b"")

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> SapwoodComponent:
        """Load settings and model from bytes."""
        config, _, model = data.partition(b"\n")
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / _CONFIG).write_bytes(config)
            if model:
                (Path(folder) / _MODEL).write_bytes(model)
            return self.from_disk(folder, exclude=exclude)


@Language.factory(
    "sapwood",
    default_config=_SETTINGS,
    assigns=["doc._.constituents", "doc._.trees", "doc._.alternatives", "span._.constituents", "span._.labels"],
)
def make_component(
    nlp: Language,
    name: str,
    model: str | None,
    confidences: bool,
    alternatives: int,
    threads: int,
    max_words: int,
    timeout: float | None,
    set_tags: bool,
) -> SapwoodComponent:
    """Create the component for `nlp.add_pipe("sapwood")`, and load the model that is named."""
    _register()
    component = SapwoodComponent(
        model=model,
        confidences=confidences,
        alternatives=alternatives,
        threads=threads,
        max_words=max_words,
        timeout=timeout,
        set_tags=set_tags,
    )
    # A saved pipeline has the model with it, and the path in its settings may be that of another machine.
    is_saved = name in getattr(nlp, "_meta", {}).get("pipeline", ())
    if model is not None and not is_saved:
        assert component.parser is not None
    return component


def _warn(finding: str) -> None:
    """Warn of documents whose tokens are not those of a tokeniser."""
    warnings.warn(f"{finding}; make documents with a tokeniser of spaCy: nlp(text)", PlainTextWarning, stacklevel=4)


def _sentences(doc: Doc) -> Iterator[list[int]]:
    """Yield the indices of the tokens of each sentence, without white space."""
    cut = doc.sents if doc.has_annotation("SENT_START") else [doc[:]]
    for sentence in cut:
        tokens = [token.i for token in sentence if not token.is_space]
        if tokens:
            yield tokens


def _respelled(tree: Tree, words: list[str]) -> Tree:
    """Return the tree with the document's own words."""
    places = iter(positions(tree))

    def visit(node: Tree, below: list[Tree]) -> Tree:
        if node.word is None:
            return Tree(node.label, below)
        place = next(places)
        return Tree(node.label, word=PlacedWord(words[place], place) if tree.is_placed else words[place])

    return tree.fold(visit)


def _tree_of(parse: dict[str, Any]) -> Tree:
    """Return the tree of a parse or of an alternative."""
    return Tree.parse(parse["tree"], format="discbracket" if parse.get("gaps") else "brackets")


def _parts_of(parse: dict[str, Any]) -> Tree:
    """Return the tree of a parse with phrases with gaps split into parts, which are spans."""
    tree = _tree_of(parse)
    return split_gaps(tree) if tree.has_gaps else tree


def _phrases(doc: Doc) -> Iterator[tuple[int, int, str, float | None]]:
    """Yield first token, end, label and probability of every phrase, parents before children."""
    for parse in doc.user_data.get(_KEY, ()):
        if parse["tree"] is None:
            continue
        tokens = parse["tokens"]
        sure = {(start, end, label): value for start, end, label, value in parse.get("marginals", ())}
        for start, end, label in _parts_of(parse).spans():
            yield tokens[start], tokens[end - 1] + 1, label, sure.get((start, end, label))


def _constituents(place: Doc | Span) -> list[Span]:
    doc, first, last = (place.doc, place.start, place.end) if isinstance(place, Span) else (place, 0, len(place))
    return [Span(doc, a, b, label) for a, b, label, _ in _phrases(doc) if first <= a and b <= last]


def _bounds(span: Span) -> tuple[int, int]:
    """Return the first token of a span and the end of its last one, without white space around them."""
    tokens = [token.i for token in span if not token.is_space]
    return (tokens[0], tokens[-1] + 1) if tokens else (span.start, span.end)


def _over(span: Span) -> list[tuple[str, float | None]]:
    place = _bounds(span)
    return [(label, sure) for a, b, label, sure in _phrases(span.doc) if (a, b) == place]


def _labels(span: Span) -> tuple[str, ...]:
    return tuple(label for label, _ in _over(span))


def _confidence(span: Span) -> float | None:
    return min((sure for _, sure in _over(span) if sure is not None), default=None)


def _parent(span: Span) -> Span | None:
    """Return the smallest phrase that properly contains this span."""
    start, end = _bounds(span)
    around = [(b - a, a, b, label) for a, b, label, _ in _phrases(span.doc) if a <= start and end <= b]
    larger = [found for found in around if found[0] > end - start]
    smallest = min((found[0] for found in larger), default=None)
    # The lowest of several phrases over the same tokens.
    last = [found for found in larger if found[0] == smallest]
    return Span(span.doc, *last[-1][1:]) if last else None


def _children(span: Span) -> list[Span]:
    """Return the largest phrases within this span, and the tokens outside all of them."""
    start, end = _bounds(span)
    inside = [(a, b, label) for a, b, label, _ in _phrases(span.doc) if start <= a and b <= end]
    found, at = [], start
    for a, b, label in inside:
        if a >= at and (a, b) != (start, end):
            found += [*(span.doc[place : place + 1] for place in range(at, a)), Span(span.doc, a, b, label)]
            at = b
    found += [span.doc[place : place + 1] for place in range(at, end)]
    return [child for child in found if not child[0].is_space or len(child) > 1]


def _parse_of(span: Span) -> dict[str, Any]:
    """Return the stored parse of the sentence with this span."""
    for parse in span.doc.user_data.get(_KEY, ()):
        tokens = parse["tokens"]
        if span.start <= tokens[0] < span.end:
            inside = [token.i for token in span if not token.is_space]
            if inside == tokens:
                return dict(parse)
            break
    raise UsageError("this span is not a sentence that sapwood has parsed; ask one of `doc.sents`")


def _tree(span: Span) -> Tree | None:
    parse = _parse_of(span)
    return None if parse["tree"] is None else _tree_of(parse)


def _alternatives(span: Span) -> list[tuple[Tree, float]]:
    return _best(_parse_of(span))


def _best(parse: dict[str, Any]) -> list[tuple[Tree, float]]:
    return [(_tree_of(one), one["log_probability"]) for one in parse.get("alternatives", ())]


def _trees(doc: Doc) -> list[Tree]:
    return [_tree_of(parse) for parse in doc.user_data.get(_KEY, ()) if parse["tree"] is not None]


def _all_alternatives(doc: Doc) -> list[list[tuple[Tree, float]]]:
    return [_best(parse) for parse in doc.user_data.get(_KEY, ())]


def _parse_string(span: Span) -> str:
    """Return the brackets of the phrase over these tokens, or of the token."""
    start, end = _bounds(span)
    for parse in span.doc.user_data.get(_KEY, ()):
        tokens = parse["tokens"]
        if parse["tree"] is None or not tokens[0] <= start < end <= tokens[-1] + 1:
            continue
        position = 0
        for node in _parts_of(parse).nodes():
            size = len(node)
            if (tokens[position], tokens[position + size - 1] + 1) == (start, end):
                return str(node)
            position += node.word is not None
    raise UsageError("no phrase covers exactly these tokens")


def _register() -> None:
    """Register the extension attributes of documents and spans."""
    for name, of_doc in (("constituents", _constituents), ("trees", _trees), ("alternatives", _all_alternatives)):
        Doc.set_extension(name, getter=of_doc, force=True)
    for name, getter in (
        ("constituents", _constituents),
        ("labels", _labels),
        ("confidence", _confidence),
        ("parent", _parent),
        ("children", _children),
        ("parse_string", _parse_string),
        ("tree", _tree),
        ("alternatives", _alternatives),
        ("parse_status", lambda span: _parse_of(span)["status"]),
        ("log_probability", lambda span: _parse_of(span)["log_probability"]),
    ):
        Span.set_extension(name, getter=getter, force=True)
