"""What is fuzzed: for each kind of file some originals, how they are changed, and what is done with the result."""

from __future__ import annotations

import io
import tempfile
import unittest.mock
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse

from fuzz.encoder_targets import encoders
from fuzz.grammar_targets import dumps, parquets, tables, texts, use_csv, use_dump, use_table, use_text
from fuzz.hostile_targets import hostile
from fuzz.mutations import Content, file_of, stored
from fuzz.project_targets import projects
from fuzz.request_targets import requests
from fuzz.tree_targets import TREE_TEXTS, TREES, Target, written
from sapwood.automata.wcfg.files import format_grammar, read_grammar
from sapwood.evaluate.evalb_params import EvalbParameters
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.induction.em import Schedule, run_em
from sapwood.induction.induced_model import InducedModel
from sapwood.induction.learners import CCM, DMV, DMVCCM, SimplePCFG
from sapwood.induction.parser import InducedParser
from sapwood.induction.text import Text, make_text, read_sentences
from sapwood.inference import Parser
from sapwood.inference.batch import read_manifest
from sapwood.learn.components.forest_crf import ForestCRFTrainer
from sapwood.learn.components.span_scorer import SpanScorerTrainer
from sapwood.learn.lpcfg.em import EM
from sapwood.learn.lpcfg.pcfg import PCFG
from sapwood.learn.lpcfg.split_merge import SplitMerge
from sapwood.learn.semi_supervised.data import Teacher
from sapwood.learn.spectral.state_search import StateScores, search_states
from sapwood.lm import Counts, KneserNey, LatentBigram, MixedOrder, Mixture, count_text, load_model, write_arpa
from sapwood.lm import train as train_language
from sapwood.lm.base import LanguageModel
from sapwood.model import ParserModel
from sapwood.model.cell_pruner import CellPruner
from sapwood.model.file import MODEL, save_models
from sapwood.numerics.matrix_files import read_matrix
from sapwood.pipeline.compress import compress
from sapwood.pipeline.recipe import Recipe
from sapwood.pipeline.record import RunRecord, run_inputs
from sapwood.pipeline.train import train
from sapwood.runtime.checkpoint import Checkpoint, RunFiles
from sapwood.runtime.config import read_config
from sapwood.runtime.log import read_log
from sapwood.storage.arrays import read_arrays, read_header
from sapwood.testing.grammars import random_grammar
from sapwood.trees.corpus import Corpus
from sapwood.trees.formats.conllu import read_conllu
from sapwood.trees.formats.registry import format_as, read_tagged, read_tokens
from sapwood.trees.heads.rules import HeadRules
from sapwood.trees.lexicon.word_classes import WordClasses
from sapwood.trees.normalise import Normaliser, read_labels
from sapwood.trees.tokenise.registry import find_tokeniser
from sapwood.trees.tree import Tree

SENTENCES = [["the", "dog", "rained", "."], ["it", "saw", "Unknown", "snow", "again"], ["dogs"]]
_EM = EM(states=2, iterations=3, min_support=1, random_state=1)
_SPLIT_MERGE = SplitMerge(cycles=1, iterations=2, min_support=1)


def _corpus() -> Corpus:
    return Corpus.from_trees(Tree.parse(tree) for tree in TREES)


def _content(*saves: Callable[[Path], object]) -> list[Content]:
    """Return what the files that are saved hold."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for save in saves:
            path = Path(folder) / "file"
            save(path)
            header = read_header(path)
            arrays, metadata = read_arrays(path, kind=header["kind"], version=header["format"])
            found.append((arrays, metadata, header["kind"], header["format"]))
            path.unlink()
    return found


# Grammars, corpora and checkpoints.


def _grammars() -> list[TensorGrammar | ParserModel]:
    corpus = _corpus()
    real = random_grammar(np.random.default_rng(1), interminals=2, preterminals=2, states=(1, 3))
    sparse = replace(real, tensors=np.where(real.tensors > 0.1, real.tensors, 0), probabilistic=False)
    latent = _SPLIT_MERGE.fit(corpus)
    layered = train(corpus, method="pcfg", crf=ForestCRFTrainer(folds=2, epochs=1, bits=8, min_count=1))
    network = SpanScorerTrainer(embedding=3, hidden=2, layers=2, span_hidden=3, epochs=1)
    classes = WordClasses(("a", "dog"), np.array([[0, 1], [1, 2]], np.int32))
    beside = train(corpus, method="pcfg", span_scorer=network, classes=classes)
    # Few trees are too few to learn from which cells to close, but not to close some.
    weights = np.random.default_rng(0).normal(size=1 << 8).astype(np.float16).astype(np.float32)
    closed = ParserModel.from_grammars(latent).replace(
        cell_pruner=CellPruner(weights, -1.0, np.arange(2, dtype=np.int32))
    )
    factored = compress(latent, method="cp", rank=2, iterations=2)
    return [PCFG().fit(corpus), _EM.fit(corpus), latent, real, sparse, layered, beside, closed, factored]


def _parse(model: ParserModel) -> None:
    model.describe()
    for threshold in (6e-6, 0.0):
        parser = Parser(model, threshold=threshold)
        for sentence in SENTENCES:
            parser.parse_one(sentence)


def _use_corpus(path: Path) -> None:
    corpus = Corpus.load(path)
    for number in range(corpus.n_trees):
        corpus.transform.invert(corpus.tree(number))
        corpus.sentence(number)
    PCFG().fit(corpus)
    replace(_EM, iterations=1).fit(corpus)


def _use_checkpoint(learner: Any, path: Path) -> None:
    learner.fit(_corpus(), checkpoint=path)


def _search(path: Path) -> None:
    """Search numbers of states with a checkpoint, or go on from one."""
    scores = StateScores(lambda states, *_: -float(np.abs(states - 3).sum()), path, {"run": 1})
    search_states(scores, np.array([4, 4]), np.array([8, 8]), [0, 1])


def _resume_teacher(path: Path) -> None:
    """Save a teacher, or parse with a saved one."""
    checkpoint = Teacher.checkpoint(path, {"run": 1})
    if (teacher := checkpoint.load()) is None:
        checkpoint.save(Teacher(1, _EM.fit(_corpus())))
    else:
        assert teacher.grammar is not None
        _parse(ParserModel.from_grammars(teacher.grammar))


class _RecordFiles(RunFiles):
    """Files of a run whose record is any file, and which has a finished stage."""

    def __init__(self, path: Path) -> None:
        super().__init__(path.parent / "output", resume=path.exists())
        self._path = path

    @property
    def record(self) -> Path:
        return self._path

    def leftover(self) -> list[Path]:
        return [self._path]


def _recorded(path: Path) -> None:
    """Write the record of a run, or go on from one."""
    inputs = run_inputs([Recipe((_EM,), crf=ForestCRFTrainer())], _corpus(), None)
    with RunRecord.open(_RecordFiles(path), inputs) as record:
        record.finish("member-2", iterations=1 + sum(stage["iterations"] for stage in record.finished.values()))


# Language models.


def _learn_language(method: Any, path: Path) -> None:
    """Learn with a checkpoint after every iteration, or go on from one."""
    settings: dict[str, Any] = {"states": 2, "iterations": 3, "min_count": 1}
    if method != "em":
        settings["anchor_count"] = 0.0
    if method == "mix":
        settings["lags"] = 2
    with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(Checkpoint, "is_due", True):
        text = _text(Path(folder))
        train_language(text, method=method, dev=text, checkpoint=path, **settings)


def _text(folder: Path) -> Path:
    path = folder / "text"
    path.write_text("a b a c\nb a b d\na a c\n<unk> b\n" * 2)
    return path


def _counts(order: int, boundaries: Any) -> Counts:
    with tempfile.TemporaryDirectory() as folder:
        return count_text(_text(Path(folder)), order=order, boundaries=boundaries)


def _latent(counts: Counts, seed: int, dtype: type = np.float64) -> LatentBigram:
    rng, size = np.random.default_rng(seed), len(counts.vocabulary)
    given, emitted = (rng.dirichlet(np.ones(n), m) for n, m in ((2, size), (size, 2)))
    both = (matrix.astype(dtype) for matrix in (given, emitted.T))
    return LatentBigram(counts.vocabulary, *both, np.array([0.4, 0.6]), counts.boundaries, {"method": "em"})


def _models() -> list[LanguageModel]:
    models: list[LanguageModel] = []
    for boundaries in ("sentence", "stream"):
        counts = _counts(3, boundaries)
        ngrams, latent = KneserNey(order=3).fit(counts), _latent(counts, 1)
        lags = [_latent(counts, seed) for seed in (2, 3)]
        mixed = MixedOrder(lags, np.full((1, len(counts.vocabulary)), 0.3), {})
        ids = counts.vocabulary.encode(["a", "b", "a", "c"])
        models += [ngrams, latent, mixed, Mixture.fit([ngrams, mixed, latent], ids, edges=[2])]
    return [*models, KneserNey(order=1).fit(_counts(1, "stream")), _latent(_counts(1, "stream"), 4, np.float32)]


def _use_model(path: Path) -> None:
    model = load_model(path)
    ids = np.arange(len(model.vocabulary), dtype=np.int32)
    text = np.concatenate([ids, ids[::-1], ids % 3])
    model.log_probabilities(text)
    model.evaluate(text)
    model.next_words(["a", "b"], 3)
    model.describe()
    model.sample(1, max_words=4)
    if isinstance(model, LatentBigram):
        model.topics(2)
        model.nearest(model.vocabulary.words[-1], 2)


def _use_counts(path: Path) -> None:
    counts = Counts.load(path)
    counts.describe()
    for k in range(1, counts.order + 1):
        counts.most_frequent(k, 2)
    counts.merge(counts)
    counts.cut(2)
    if counts.order > 1:
        counts.bigrams()
    KneserNey(order=counts.order).fit(counts)


# Text.


def _induction_text() -> Text:
    return make_text([Tree.parse(tree) for tree in TREES], tags=True)


def _use_induced(path: Path) -> None:
    model = InducedModel.load(path)
    repr(model)
    model.profile()
    for result in InducedParser(model).parse(SENTENCES):
        result.to_dict()
        if result.heads is not None:
            result.format_conllu()


_SMALL_PCFG = SimplePCFG(nonterminals=2, preterminals=3, embedding=2, epochs=2, lengths=10)


def _train_rules(path: Path) -> None:
    """Go on from a checkpoint, if there is one."""
    _SMALL_PCFG.fit(_induction_text(), checkpoint=path)


def _induce(path: Path) -> None:
    """Go on from a checkpoint, if there is one."""
    problem = DMV(lengths=5).problem(_induction_text())
    run_em(problem, Schedule(iterations=3, tolerance=-1.0, restarts=2), key={"a": 1}, checkpoint=path)


def _arpa() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.arpa"
        found = []
        for order in (1, 3):
            write_arpa(KneserNey(order=order).fit(_counts(3, "sentence")), path)
            found.append(path.read_bytes())
        return found


def _use_text(path: Path) -> None:
    text = path.read_text("utf-8", "replace")
    for name in ("penn", "blanks", "characters"):
        for sentence in find_tokeniser(name)(text):
            assert all(0 <= token.start < token.end <= len(text) for token in sentence)


def _use_labels(path: Path) -> None:
    clean = Normaliser(labels=read_labels(path))
    for tree in TREES:
        clean(Tree.parse(tree))
    assert Normaliser.from_dict(clean.to_dict()) == clean


def _matrices(kind: str) -> list[bytes]:
    dense = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.5]])
    sparse = scipy.sparse.csr_array(dense)
    stream = io.BytesIO()
    if kind == "npy":
        np.save(stream, dense)
    elif kind == "mtx":
        scipy.io.mmwrite(stream, sparse)
    elif kind == "npz":
        scipy.sparse.save_npz(stream, scipy.sparse.csr_matrix(sparse), compressed=False)
    else:
        table = ",a,b,c\nx,1,0,2\ny,0,3,0.5\n"
        stream.write(table.replace(",", "\t" if kind == "tsv" else ",").encode())
    return [stream.getvalue()]


# Grammars in memory.


def _extreme(rng: np.random.Generator, grammar: TensorGrammar) -> bytes:
    """Return a valid grammar with weights from 1 down to next to nothing, as a file."""
    power = float(rng.choice([1, 3, 20, 60]))

    def normalised(weights: np.ndarray, groups: np.ndarray) -> np.ndarray:
        weights = weights**power
        sums = np.bincount(groups, weights)
        return np.where(
            sums[groups] > 0, weights / np.where(sums > 0, sums, 1)[groups], 1 / np.bincount(groups)[groups]
        )

    offsets, states = grammar.state_offsets, grammar.states
    groups = np.concatenate(
        [np.repeat(offsets[a] + np.arange(states[a]), states[b] * states[c]) for a, b, c in grammar.rules]
    )
    tensors = normalised(rng.random(len(grammar.tensors)), groups)
    symbol = np.repeat(grammar.emissions.symbol, states[grammar.n_interminals :][grammar.emissions.symbol])
    within = np.arange(len(symbol)) - np.repeat(
        grammar.emissions.value_offsets[:-1], np.diff(grammar.emissions.value_offsets)
    )
    values = normalised(rng.random(len(symbol)), grammar.emissions.state_offsets[symbol] + within)
    root = np.zeros(len(grammar.root))
    inner = int(offsets[grammar.n_interminals])
    root[:inner] = normalised(rng.random(inner), np.zeros(inner, np.int64))
    changed = replace(grammar, tensors=tensors, root=root, emissions=replace(grammar.emissions, values=values))
    arrays, metadata = changed._content()
    return file_of((arrays, {**metadata, "info": {}}, MODEL.kind, MODEL.version))


def _use_poisoned(path: Path) -> None:
    grammar = TensorGrammar.load(path)
    words = [word for word in grammar.lexicon.words for _ in range(2)][:7]
    threshold = (6e-6, 1e-3, 0.0)[zlib.crc32(path.read_bytes()) % 3]
    parser, fresh = (Parser(grammar, threshold=threshold) for _ in range(2))
    parser.parse_one(words)
    parser._workspace.native.poison(0x7F)
    assert parser.parse_one(words) == fresh.parse_one(words), "memory shows in the result"


def _valid() -> list[TensorGrammar]:
    sizes = [(2, 2, (1, 1)), (4, 3, (1, 3)), (6, 4, (1, 1)), (3, 3, (2, 2))]
    return [
        random_grammar(np.random.default_rng(seed), interminals=a, preterminals=b, states=c)
        for seed, (a, b, c) in enumerate(sizes)
    ]


def _saved(grammar: Any) -> Callable[[Path], object]:
    return lambda path: grammar.save(path)


def _bundled(learner: Any) -> Callable[[Path], object]:
    return lambda path: save_models([replace(learner, random_state=seed).fit(_corpus()) for seed in (1, 2)], path)


def _checkpointed(learner: Any) -> Callable[[Path], object]:
    return lambda path: learner.fit(_corpus(), checkpoint=path)


_NUMBERS = "0 -1 1e999 nan inf 99999999999999999999 0.5 -0"
_GRAMMARS = (
    "S -> NP VP [0.5] | 'a' [0.5]\nNP -> 'dogs' [1.0]\nVP -> 'bark' [1.0]\n",
    '1 S -> A B\n0.5 A -> "a"\n0.5 A -> A A\n1 B -> "b"\n',
)
_LOG = (
    '{"event": "start", "step": 0, "seconds": 0.1, "method": "em", "settings": {}, "trees": 3, "words": 9}\n'
    '{"event": "iteration", "step": 1, "seconds": 0.2, "log_likelihood": -3.5, "states": 4}\n'
)
_MANIFEST = (
    '{"key": "k"}\n'
    '{"input": "a.txt", "output": "a.mrg", "input_digest": "0a", "output_digest": "1b", "sentences": 3, '
    '"statuses": {"parsed": 2, "empty": 1}, "bad": ["a.txt:3:1: no"], "error": ""}\n'
)
_SETTINGS = 'method = "em"\nstates = 4\nsmoothing = 0.5\nfix = true\nnames = ["a", "b"]\n'
STORED = {
    "model": Target(
        lambda: _content(*map(_saved, _grammars())), stored, lambda path: _parse(ParserModel.load(path)), share=0.4
    ),
    "bundle": Target(
        lambda: _content(
            *(_bundled(learner) for learner in (_EM, _SPLIT_MERGE)),
        ),
        stored,
        lambda path: _parse(ParserModel.load(path)),
        share=0.4,
    ),
    "corpus": Target(lambda: _content(_saved(_corpus())), stored, _use_corpus, share=0.4),
    "checkpoint-em": Target(lambda: _content(_checkpointed(_EM)), stored, partial(_use_checkpoint, _EM), share=0.3),
    "checkpoint-split-merge": Target(
        lambda: _content(_checkpointed(_SPLIT_MERGE)), stored, partial(_use_checkpoint, _SPLIT_MERGE), share=0.3
    ),
    "checkpoint-teacher": Target(lambda: _content(_resume_teacher), stored, _resume_teacher, share=0.3),
    "checkpoint-search": Target(lambda: _content(_search), stored, _search, share=0.3),
    "training-run": Target(lambda: _content(_recorded), stored, _recorded, share=0.3),
    "checkpoint-lm": Target(
        lambda: _content(partial(_learn_language, "em")), stored, partial(_learn_language, "em"), share=0.3
    ),
    "checkpoint-mix": Target(
        lambda: _content(partial(_learn_language, "mix")), stored, partial(_learn_language, "mix"), share=0.1
    ),
    "checkpoint-induction": Target(lambda: _content(_induce), stored, _induce, share=0.3),
    "checkpoint-rule-network": Target(lambda: _content(_train_rules), stored, _train_rules, share=0.2),
    "induced-model": Target(
        lambda: _content(
            *(_saved(cls(lengths=5, iterations=2).fit(_induction_text())) for cls in (DMV, CCM, DMVCCM)),
            _saved(_SMALL_PCFG.fit(_induction_text())),
        ),
        stored,
        _use_induced,
        share=0.4,
    ),
    "counts": Target(
        lambda: _content(*(_saved(_counts(order, kind)) for order in (1, 2, 3) for kind in ("sentence", "stream"))),
        stored,
        _use_counts,
    ),
    "language-model": Target(lambda: _content(*map(_saved, _models())), stored, _use_model),
}
TEXTS = {
    **TREE_TEXTS,
    "arpa": written(
        "\\data\\ \\end\\ \\1-grams: \\2-grams: ngram 1=3 ngram 2=99 <s> </s> <unk> -99 " + _NUMBERS,
        *_arpa(),
        ending=".arpa",
        use=_use_model,
    ),
    "weighted-grammar": written(
        "-> | ' \" [ ] [0.5] S NP # % 'a' \\ " + _NUMBERS,
        *_GRAMMARS,
        use=lambda path: format_grammar(read_grammar(path)),
    ),
    "berkeley": written("-> _0 _1 _99 [ ] , ( ) ROOT_0 @S_0 UNK \t " + _NUMBERS, *dumps(), use=use_dump, share=0.5),
    "grammar-text": written('-> _0 _9 [ ] , { } : " < > null true ' + _NUMBERS, *texts(), use=use_text, share=0.5),
    "arrow": written("text words PAR1 " + _NUMBERS, *tables(), ending=".arrow", use=use_table),
    "csv": written('text , " "" \r ;', 'id,text\n1,w0 w1\n2,\n3,"w2 ""w0"", w1"\n', ending=".csv", use=use_csv),
    "parquet": written("text words PAR1 " + _NUMBERS, *parquets(), ending=".parquet", use=use_table),
    "config": written(
        '= [ ] { } " \' """ true false 1979-05-27 [[a]] a.b ' + _NUMBERS,
        _SETTINGS,
        ending=".toml",
        use=lambda path: read_config(path, ["method", "states", "smoothing", "fix", "names"]),
    ),
    "tokens": written("-LRB- -RRB- / a/B", "the dog -LRB- barks\n\na b\n", use=lambda path: [*read_tokens(path)]),
    "tagged": written("-LRB- -RRB- / a/B", "the/DT dog/NN\n\na/NN b/VB\n", use=lambda path: [*read_tagged(path)]),
    "conllu": written(
        "1\t 2\t 1-2\t 3.1\t \t_ \t0\t \t9\t # _ \t\t",
        format_as(Tree.parse(TREES[0]), "conllu") + "\n" + format_as(Tree.parse(TREES[1]), "conllu", 2),
        ending=".conllu",
        use=lambda path: [*read_conllu(path)],
    ),
    "sentences": written(
        "( ) (S (NP / a/B \t #FORMAT #BOS _ 1\t",
        "\n".join(TREES),
        "the/DT dog/NN\n\na/NN b/VB\n",
        "the dog , barks .\n\nWhy ?\n",
        use=lambda path: make_text(read_sentences(path), classes=3),
    ),
    "plain-text": written(
        ". ! ? Mr. e.g. ... '' `` -- n't 's $ % http://a.b",
        "Mr. Dog didn't bark. He said: \"No!\" (It's 3.5% e.g. of $5.)\n\nWhy not?\n",
        use=_use_text,
    ),
    "counted-text": written("<s> </s> <unk> a b", "a b c\n\nb a\n", use=lambda path: count_text(path, order=3)),
    "labels": written(
        "* IP* IP-MAT -LRB- # -U+0020-", "# a table\nIP-MAT* IP-MAT\nNP-SBJ NP\nN-* N\n", use=_use_labels
    ),
    "heads": written(
        "left right leftdis leftexcept * # VP", "S left VP S\nNP rightdis NN\n* left\n", use=HeadRules.read
    ),
    "evalb": written(
        "DELETE_LABEL EQ_LABEL CUTOFF_LEN # 10 -1 DEBUG MAX_ERROR",
        "DELETE_LABEL ROOT\nEQ_LABEL ADVP PRT\nCUTOFF_LEN 9\n",
        use=EvalbParameters.read,
    ),
    "log": written('{ } [ ] : , "event" "step" null true "start" "iteration" 1e99 ' + _NUMBERS, _LOG, use=read_log),
    "manifest": written(
        '{ } [ ] : , "key" "k" "input" "bad" "statuses" null true 1e99 ' + _NUMBERS,
        _MANIFEST,
        use=partial(read_manifest, key="k"),
    ),
    **{
        f"matrix-{kind}": written(
            "% %%MatrixMarket coordinate array real pattern symmetric , ; descr <f8 |O " + _NUMBERS,
            *_matrices(kind),
            ending=f".{kind}",
            use=read_matrix,
        )
        for kind in ("csv", "tsv", "mtx", "npy", "npz")
    },
}
HOSTILE = hostile(STORED["model"].originals)
TARGETS = {
    **STORED,
    **TEXTS,
    **HOSTILE,
    **requests(),
    **projects(),
    **encoders(),
    "extreme-weights": Target(_valid, _extreme, _use_poisoned, share=0.05),
}
