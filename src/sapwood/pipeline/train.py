"""Training pipeline: one grammar or several, logged and resumable after an interruption.

`train` is `sapwood train` as a function: the same arguments give the same bytes.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from sapwood.encoders.encoder import Encoder
from sapwood.encoders.lookup import find_encoder
from sapwood.errors import InputError, UsageError, listed
from sapwood.evaluate.dev_set import DevSet
from sapwood.learn.base import Learner
from sapwood.learn.components.forest_crf import ForestCRFTrainer
from sapwood.learn.components.span_scorer import SpanScorerTrainer
from sapwood.learn.registry import DEFAULT_METHOD
from sapwood.learn.semi_supervised.learner import PartialTrees
from sapwood.learn.tagging import held_out_sequences, tagged_corpus
from sapwood.model.parser_model import ParserModel, Sources
from sapwood.pipeline.adaptation import adapt as adapt_model
from sapwood.pipeline.adaptation import check_arguments, prepare_adaptation
from sapwood.pipeline.distillation import distil
from sapwood.pipeline.recipe import Members, first_learner, make_recipe, should_self_train
from sapwood.pipeline.run import run_recipe
from sapwood.pipeline.self_training import SentenceSampler, self_train, self_training_recipes
from sapwood.pipeline.silver import SilverSource
from sapwood.pipeline.unlabelled import Text, TextUse, UnlabelledData
from sapwood.runtime.checkpoint import RunFiles
from sapwood.runtime.context import RunContext
from sapwood.runtime.progress import Progress, Silent
from sapwood.trees.corpus import Corpus
from sapwood.trees.heads.learned import ENOUGH_TREES, learn_head_table
from sapwood.trees.heads.rules import HeadRules, count_labels
from sapwood.trees.lexicon.word_classes import WordClasses
from sapwood.trees.normalise import Normaliser, describe_empties, unknown_empties
from sapwood.trees.partial import PartialTree
from sapwood.trees.tokenise.registry import find_tokeniser
from sapwood.trees.transform import TreeTransform
from sapwood.trees.tree import Tree

# Sequences of words and tags.
Tagged: TypeAlias = Iterable[Sequence[tuple[str, str]]]
Method = TypeVar("Method", str, str | Learner)
# Settings that belong to no method.
_COMMON = frozenset({"random_state", "threads", "workers"})


def train(
    trees: Iterable[Tree] | Corpus | Tagged,
    *,
    sequences: bool = False,
    method: str | Learner | None = None,
    dev: Iterable[Tree] | Tagged | DevSet | None = None,
    ensemble: Members | None = None,
    crf: bool | ForestCRFTrainer | None = None,
    span_scorer: bool | SpanScorerTrainer | None = None,
    encoder: str | Path | Encoder | None = None,
    text: Text | None = None,
    text_use: TextUse | None = None,
    classes: WordClasses | None = None,
    self_train_on: Iterable[Sequence[str]] | None = None,
    silver: Iterable[Tree] | None = None,
    teacher: Sources | None = None,
    gold_weight: int | None = None,
    adapt: Sources | None = None,
    adapt_weight: float | None = None,
    partial: Iterable[PartialTree] | PartialTrees | None = None,
    semi_supervised: Mapping[str, Any] | None = None,
    normaliser: Normaliser | None = None,
    transform: Mapping[str, Any] | None = None,
    tokeniser: str | None = None,
    seed: int | None = None,
    output: str | Path | None = None,
    resume: bool = False,
    log: str | Path | None = None,
    loggers: Sequence[str] = (),
    progress: Progress | None = None,
    **settings: Any,
) -> ParserModel:
    """Train a parser on a treebank: one grammar, or several that parse together.

    This is `sapwood train`: arguments have the meaning and the defaults of its options, and give the same bytes.

    Parameters
    ----------
    trees
        Trees of a treebank, which are prepared as the method requires; or a corpus.
    sequences
        True if they, and `dev`, are sequences of `(word, tag)` instead: the result is a tagger
        (`sapwood.learn.tagging`).
    method
        A learner, or the name of a method, optionally with its `settings`: `train(trees, method="em", states=8)`.
        Without a method or an `ensemble`, the recipe that is best for the size of the treebank is used
        (`sapwood.pipeline.recipe.recommended`); for sequences and for semi-supervised EM, split-merge.
    dev
        Trees for choosing the best grammar and for scoring the result.
    ensemble
        Number of grammars, each with its own seed; or the methods or learners of a mixed ensemble, each of which takes
        the settings it has.
    crf
        Train a CRF over the parse forest, too (`sapwood.learn.components.forest_crf`): True, False, or its trainer.
    span_scorer
        Train a span scorer, too (`sapwood.learn.components.span_scorer`): True, False, or its trainer.
    encoder
        Pretrained encoder whose vectors the span scorer uses as well (`sapwood.encoders.encoder`): a folder, or the
        name of an installed package. The model needs it for parsing, but does not contain it.
    text
        Unlabelled text: the path of a file with one sentence per line, several paths, or sentences as lists of words.
    text_use
        `word-classes`: word classes for the lexicon (`sapwood.lm.word_classes`). `self-training`: word classes, and a
        second model trained on trees that the first one predicts (`sapwood.pipeline.self_training`). `em`:
        semi-supervised EM (`sapwood.learn.semi_supervised.learner`), by packed forests (`em-forests`) or one-best
        trees (`em-best`); `em` alone means forests, if the method supports them. By default self-training for fewer
        than 2,000 trees and without settings of a method, else word classes.
    classes
        Word classes, instead of those of `text`.
    self_train_on
        Sentences for self-training without word classes, instead of `text`.
    silver
        Trees predicted by another parser, to train on as well (`sapwood.pipeline.distillation`). The CRF learns from
        `trees` alone. Silver trees with labels that no gold tree has are skipped.
    teacher
        Model, or the path or name of one, that predicts the silver trees for the sentences of `text`.
    gold_weight
        Weight of a gold tree next to a silver one. Default: 3.
    adapt
        Model, or the path or name of one, to adapt to the trees (`sapwood.pipeline.adaptation`). Methods, components
        and the preparation of trees are those of the model.
    adapt_weight
        Weight of a tree next to one that the model was trained on. By default it is chosen on a quarter of the trees.
    partial
        Partially bracketed sentences, for semi-supervised EM.
    semi_supervised
        Settings of semi-supervised EM: `{"text_weight": 0.5}`.
    normaliser
        Normaliser of the trees.
    transform
        Changes to the binarisation and Markovisation of the method: `{"direction": "head", "vertical": 2}`, by the
        names of the parameters of `TreeTransform`.
    tokeniser
        Tokeniser of plain text, by name (`sapwood.trees.tokenise.registry`). By default the one for English, with
        quotes and hyphens as in the trees.
    seed
        Random seed of all that has one. By default that of the learners.
    output
        File to write the model to. Checkpoints are kept next to it until then, so that
    resume
        can continue an interrupted run, to the same bytes.
    log
        File to write a line to for each iteration.
    loggers
        Names of loggers that get these lines as well (`sapwood.runtime.loggers`).
    progress
        Receives progress reports.
    settings
        Settings of the method; `threads` and `workers` of every method.

    Examples
    --------
    >>> import sapwood
    >>> trees = [sapwood.Tree.parse("(ROOT (S (NP (N dogs)) (VP (V sleep))))")] * 9
    >>> sapwood.train(trees, method="pcfg")
    <ParserModel: <TensorGrammar: 3 symbols (1 states), 1 rules, 2 words>>
    """
    progress, files = progress or Silent(), RunFiles(output, resume=resume, log=log, loggers=loggers)
    if resume and output is None:
        raise UsageError("resume: requires output, next to which the state of training is kept")
    if tokeniser is not None:
        find_tokeniser(tokeniser)
    files.check()
    if adapt is not None or adapt_weight is not None:
        others = {
            "sequences": sequences or None, "method": method, "ensemble": ensemble, "crf": crf,
            "span_scorer": span_scorer, "encoder": encoder, "text": text, "text_use": text_use, "classes": classes,
            "self_train_on": self_train_on, "silver": silver, "teacher": teacher, "gold_weight": gold_weight,
            "partial": partial, "semi_supervised": semi_supervised, "normaliser": normaliser, "transform": transform,
            **{name: value for name, value in settings.items() if name not in _COMMON},
        }  # fmt: skip
        check_arguments(adapt, adapt_weight, [name for name, given in others.items() if given is not None])
        assert adapt is not None
        old = ParserModel.gather(adapt)
        executor = first_learner(seed=seed, **settings).executor
        given: Any = trees, dev
        further, dev_set = prepare_adaptation(old, *given, workers=executor, progress=progress)
        model = adapt_model(
            old, further, dev_set, weight=adapt_weight, seed=seed or 0, workers=executor, files=files, progress=progress
        )
        return _finish(model, tokeniser, output, files)
    unlabelled = UnlabelledData.of(partial, text, text_use, semi_supervised)
    unlabelled.check(sequences=sequences)
    if self_train_on is not None and (sequences or text is not None or partial is not None):
        raise UsageError("self_train_on requires trees, and cannot be used with sequences, text or partial")
    distillation = SilverSource(silver, teacher, gold_weight)
    others = {"sequences": sequences, "partial": partial is not None}
    distillation.check(
        text=text is not None or self_train_on is not None, text_use=text_use,
        refused=[name for name, given in others.items() if given],
    )  # fmt: skip
    method = default_method(method, ensemble, needs_one=sequences or unlabelled.for_em)
    learner = first_learner(method, ensemble=ensemble, seed=seed, **settings)
    corpus = prepare_corpus(
        learner, trees, sequences=sequences, normaliser=normaliser, transform=transform, progress=progress
    )
    if unlabelled.text is not None and (remark := unlabelled.text.remark_on_plain_text(frozenset(corpus.words))):
        progress.note(remark)
    held_out = prepare_dev(learner, dev, corpus, sequences=sequences)
    own_seed = int(getattr(learner, "random_state", 0))
    if classes is None:
        of_text = own_seed if seed is None else seed
        classes = unlabelled.word_classes(of_text, RunContext(workers=learner.executor, progress=progress))
    make = functools.partial(
        make_recipe,
        method,
        ensemble=ensemble,
        crf=crf,
        span_scorer=span_scorer,
        encoder=None if encoder is None else find_encoder(encoder),
        classes=classes,
        seed=seed,
        **settings,
    )
    recommended = method is None and (ensemble is None or isinstance(ensemble, int)) and settings.keys() <= _COMMON
    sentences: Sequence[Sequence[str]] = ()
    if self_train_on is not None:
        if not (sentences := SentenceSampler().sample(self_train_on, own_seed)):
            raise InputError("there is no sentence for self-training")
    elif silver is None and unlabelled.should_self_train(
        teacher is not None or (recommended and should_self_train(corpus.n_trees))
    ):
        sentences = _sample(unlabelled, own_seed, progress)
    if not distillation.is_empty:
        prepared = distillation.prepare(corpus, sentences, learner.executor, progress)
        recipes = self_training_recipes(make, corpus.n_trees, prepared.corpus.n_trees)
        model = distil(recipes, corpus, prepared, held_out, files=files, progress=progress)
    elif sentences:
        recipes = self_training_recipes(make, corpus.n_trees, len(sentences))
        model = self_train(recipes, corpus, sentences, held_out, files=files, progress=progress)
    else:
        recipe = unlabelled.add_to(make(n_trees=corpus.n_trees))
        model = run_recipe(recipe, corpus, held_out, files=files, progress=progress)
    model = model.replace(preparation=replace(model.preparation, heads=_head_table(corpus)))
    return _finish(model, tokeniser, output, files)


def _finish(model: ParserModel, tokeniser: str | None, output: str | Path | None, files: RunFiles) -> ParserModel:
    """Return the model with a tokeniser, saved to its file."""
    if tokeniser is not None:
        style = replace(model.preparation.tokeniser, name=tokeniser)
        model = model.replace(preparation=replace(model.preparation, tokeniser=style))
    if output is not None:
        model.save(output)
        files.clear()
    return model


def _head_table(corpus: Corpus) -> str:
    """Return head rules learned from a sample of the trees; empty if a built-in table fits their labels."""
    chosen = range(0, corpus.n_trees, -(-corpus.n_trees // ENOUGH_TREES))
    trees = [corpus.transform.invert(corpus.tree(index)) for index in chosen]
    return "" if HeadRules.fitting(*count_labels(trees)) is not None else learn_head_table(trees)


def default_method(method: Method | None, ensemble: Members | None, *, needs_one: bool) -> Method | str | None:
    """Return the given method, or split-merge for data that `needs_one` and has no recommended recipe."""
    if needs_one and method is None and (ensemble is None or isinstance(ensemble, int)):
        return DEFAULT_METHOD
    return method


def prepare_corpus(
    learner: Learner,
    trees: Iterable[Tree] | Corpus | Tagged,
    *,
    sequences: bool = False,
    normaliser: Normaliser | None = None,
    transform: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Corpus:
    """Return trees, or tagged sequences, as a learner needs them; parameters are those of `train`."""
    given: Any = trees
    if (sequences or isinstance(trees, Corpus)) and not (normaliser is None and transform is None):
        what = "sequences" if sequences else "a corpus, which is prepared already"
        raise UsageError(f"normaliser and transform are for trees, not for {what}")
    if isinstance(trees, Corpus):
        return trees
    if sequences:
        return tagged_corpus(learner, given, progress=progress)
    if unknown := sorted((transform or {}).keys() - {field.name for field in fields(TreeTransform)}):
        raise UsageError(f"transform: {unknown[0]} is not a parameter of TreeTransform")
    normaliser = normaliser or Normaliser()
    changed = replace(learner.preparation, **{"root": normaliser.root, **(transform or {})})
    corpus = Corpus.from_trees(given, normaliser=normaliser, transform=changed, progress=progress)
    if corpus.dropped and progress is not None:
        progress.note(f"skipped {corpus.dropped} tree(s) that are empty after normalisation")
    if progress is not None and (absent := _absent(normaliser.keep, corpus)):
        progress.note(f"no label has the function tag to keep: {listed(absent)}")
    if normaliser.empties and progress is not None and (remark := _remark_on_empties(corpus)):
        progress.note(remark)
    return corpus


def _absent(keep: Iterable[str], corpus: Corpus) -> list[str]:
    """Return the function tags and labels to keep that no label has."""
    labels = {label for symbol in corpus.symbols for label in symbol.parts.labels} if keep else set()
    return [kept for kept in keep if not any(kept == one or (kept[0] == "-" and kept in one) for one in labels)]


def _remark_on_empties(corpus: Corpus) -> str:
    """Return a remark on leaves that look like empty elements; empty if there are none."""
    tags, leaves = corpus.symbols.bottom, Counter[tuple[str, str]]()
    for symbol, word, count in zip(*(column.tolist() for column in corpus.lexical_counts()), strict=True):
        leaves[tags[symbol], corpus.words[word]] += count
    return describe_empties(unknown_empties(leaves))


def prepare_dev(
    learner: Learner, dev: Iterable[Tree] | Tagged | DevSet | None, corpus: Corpus, *, sequences: bool = False
) -> DevSet | None:
    """Return the development set of a corpus; parameters are those of `train`."""
    given: Any = dev
    if dev is None or isinstance(dev, DevSet):
        return dev
    return held_out_sequences(learner, given, corpus) if sequences else DevSet(given, corpus, workers=learner.executor)


def _sample(unlabelled: UnlabelledData, seed: int, progress: Progress) -> list[Sequence[str]]:
    """Return sentences for self-training; note if there are none."""
    assert unlabelled.text is not None
    sampler = SentenceSampler()
    sentences = sampler.sample(unlabelled.text.sentences(), seed)
    if not sentences:
        length = f"{sampler.min_words} to {sampler.max_words} words"
        progress.note(f"the text has no sentence of {length} for self-training, and is used for word classes only")
    return sentences
