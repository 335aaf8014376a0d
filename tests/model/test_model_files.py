"""Model files: the components by name in format 5, and the same model from files of older formats."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helpers.made_up import made_up_treebank
from sapwood import Parser, ParserModel, TensorGrammar, default_model_path, train
from sapwood.errors import GrammarError, ModelError
from sapwood.learn.components.forest_crf import ForestCRFTrainer
from sapwood.learn.components.span_scorer import SpanScorerTrainer
from sapwood.model import ParsingDefaults
from sapwood.model.cell_pruner import CellPruner
from sapwood.model.file import BUNDLE, MODEL, MODEL_FILE, MODEL_VERSION, load_models
from sapwood.storage.arrays import read_arrays, read_header, write_arrays

TREES = made_up_treebank(60, 1)
WORDS = [tree.words() for tree in made_up_treebank(10, 2)]
OLD = {"crf": "layer", "span_scorer": "network", "cell_pruner": "closing"}


@pytest.fixture(scope="module")
def model() -> ParserModel:
    """Return a model with everything that a model can have."""
    trained = train(
        TREES,
        method="em",
        states=2,
        iterations=2,
        ensemble=2,
        crf=ForestCRFTrainer(folds=2, epochs=1, bits=8, min_count=1),
        span_scorer=SpanScorerTrainer(embedding=3, hidden=2, layers=2, span_hidden=3, epochs=1),
        tokeniser="blanks",
    )
    weights = np.random.default_rng(0).normal(size=1 << 8).astype(np.float16).astype(np.float32)
    pruner = CellPruner(weights, -9.0, np.arange(2, dtype=np.int32))
    return trained.replace(cell_pruner=pruner, defaults=ParsingDefaults(threshold=1e-4))


def rewrite(source, target, change, version=MODEL_VERSION):
    """Write a model file again with other content."""
    arrays, metadata = read_arrays(source, kind="model", version=MODEL_VERSION)
    change(arrays, metadata)
    write_arrays(target, arrays, metadata, kind="model", version=version)


def trees_of(model):
    return [(str(result.tree), result.log_probability) for result in Parser(model).parse(WORDS)]


def test_a_file_has_the_whole_model(model, tmp_path):
    model.save(tmp_path / "m")
    header = read_header(tmp_path / "m")
    assert (header["kind"], header["format"]) == ("model", 5)
    assert header["metadata"].keys() == {"grammars", "preparation", "components", "defaults", "meta"}
    assert header["metadata"]["components"].keys() == OLD.keys()
    assert {name.partition(".")[0] for name in header["tensors"]} == {"0", "1", *OLD}
    again = ParserModel.load(tmp_path / "m")
    assert again == model
    assert again.digest() == model.digest()
    assert (again.preparation, again.defaults, again.meta) == (model.preparation, model.defaults, model.meta)
    assert [one.info for one in again.grammars] == [one.info for one in model.grammars]
    assert trees_of(again) == trees_of(model)
    again.save(tmp_path / "n")
    assert (tmp_path / "n").read_bytes() == (tmp_path / "m").read_bytes()
    assert load_models(tmp_path / "m") == list(model.grammars)
    with pytest.raises(ModelError, match="holds several grammars"):
        TensorGrammar.load(tmp_path / "m")
    model.replace(grammars=model.grammars[:1]).save(tmp_path / "one")
    assert TensorGrammar.load(tmp_path / "one") == model.grammar


def test_every_part_of_a_model_counts(model):
    models = [model, *(model.replace(**{name: None}) for name in OLD)]
    models += [model.replace(grammars=model.grammars[:1]), model.replace(defaults=ParsingDefaults())]
    assert len({one.digest() for one in models}) == len(models)
    assert all((one == other) == (one is other) for one in models for other in models)
    assert model.replace(meta={"note": "for people"}) == model


def test_components_that_are_not_known_are_refused_by_name(model, tmp_path):
    def add(arrays, metadata):
        arrays["tagger.weights"] = np.zeros(3, np.float32)
        metadata["components"]["tagger"] = {"bits": 3}

    model.save(tmp_path / "m")
    rewrite(tmp_path / "m", tmp_path / "new", add)
    for load in (ParserModel.load, load_models, Parser):
        with pytest.raises(
            ModelError, match="new: has a component 'tagger', which this version does not know; upgrade"
        ):
            load(tmp_path / "new")
    rewrite(tmp_path / "m", tmp_path / "newer", add, MODEL_VERSION + 1)
    with pytest.raises(ModelError, match="reads up to format 5; upgrade sapwood"):
        ParserModel.load(tmp_path / "newer")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda arrays, told: told["components"].pop("crf"), "layer.places: the array or its metadata is missing"),
        (lambda arrays, told: arrays.pop("span_scorer.table"), "no array of a model"),
        (lambda arrays, told: arrays.pop("crf.values"), "crf.values: missing"),
        (lambda arrays, told: arrays["cell_pruner.words"].__setitem__(-1, 10**6), "closing.words"),
        (lambda arrays, told: told["defaults"].update(threshold=1.5), "threshold must be at least 0"),
        (lambda arrays, told: told["defaults"].update(speed=3), "defaults.speed"),
        (lambda arrays, told: told["preparation"].pop("tokeniser"), "preparation.tokeniser"),
        (lambda arrays, told: told["preparation"]["tokeniser"].pop("name"), "preparation.tokeniser.name"),
        (lambda arrays, told: told["preparation"].update(transform={"up": 3}), "up"),
        (lambda arrays, told: told["grammars"].clear(), "a model without grammars"),
        (lambda arrays, told: told["grammars"][1].update(layer={}), "no value that is known"),
        (lambda arrays, told: told["grammars"][1]["shared"].append("magic"), "magic: missing in the first"),
        (lambda arrays, told: arrays.update({"2.rules": arrays["0.rules"]}), "there are 2 parts"),
        (lambda arrays, told: arrays.pop("0.rules"), "rules"),
    ],
)
def test_damage_is_found(model, tmp_path, change, message):
    model.save(tmp_path / "m")
    rewrite(tmp_path / "m", tmp_path / "bad", change)
    with pytest.raises(ModelError, match=message):
        ParserModel.load(tmp_path / "bad")


def old_content(model, number, info):
    """Return what older formats store of a grammar: components with the first, and the rest in `info`."""
    arrays, metadata = model.grammars[number]._content()
    for name, old in OLD.items() if number == 0 else ():
        component = getattr(model, name)
        arrays |= component.to_arrays()
        metadata[old] = component.metadata()
    return arrays, {**metadata, "info": {**model.grammars[number].info, **info}}


def test_a_file_of_format_4_is_the_same_model(model, tmp_path):
    one = model.replace(grammars=model.grammars[:1])
    info = {"tokeniser": {"name": "blanks", "rewrite": True}, "threshold": 1e-4, **model.meta}
    info["tokeniser"]["rewrite"] = model.preparation.tokeniser.rewrite
    MODEL.write(tmp_path / "m", *old_content(one, 0, info))
    assert read_header(tmp_path / "m")["format"] == 4
    found = ParserModel.load(tmp_path / "m")
    assert found == one
    assert found.meta == model.meta
    assert trees_of(tmp_path / "m") == trees_of(one)
    found.save(tmp_path / "n")
    assert ParserModel.load(tmp_path / "n") == one


def test_a_bundle_is_the_same_model(model, tmp_path):
    info = {"tokeniser": {"name": "blanks", "rewrite": model.preparation.tokeniser.rewrite}, "threshold": 1e-4}
    content = [old_content(model, number, info) for number in range(2)]
    arrays = {f"{number}.{name}": array for number, (own, _) in enumerate(content) for name, array in own.items()}
    BUNDLE.write(tmp_path / "m", arrays, {"members": [{**metadata, "shared": []} for _, metadata in content]})
    assert ParserModel.load(tmp_path / "m") == model
    assert trees_of(tmp_path / "m") == trees_of(model)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_bare_grammars_of_older_formats(tmp_path, version):
    """They have neither tokeniser nor components, and the usual defaults."""
    arrays, metadata = train(TREES, method="pcfg").grammar._content(as_it_is=True)
    write_arrays(tmp_path / "m", arrays, {**metadata, "info": {}}, kind="model", version=version)
    found = ParserModel.load(tmp_path / "m")
    assert not found.components
    assert (found.preparation.tokeniser.name, found.defaults) == ("penn", ParsingDefaults())
    assert Parser(found).parse_one(WORDS[0]).tree is not None


def test_the_included_model_can_be_saved_anew(tmp_path):
    included = ParserModel.load(default_model_path())
    included.save(tmp_path / "m")
    again = ParserModel.load(tmp_path / "m")
    assert again == included
    assert MODEL_FILE.version == read_header(tmp_path / "m")["format"]
    [one], [other] = (list(Parser(model)("It rained, and the museum has closed.")) for model in (included, again))
    assert one == other


def test_what_does_not_fit_is_refused(model):
    with pytest.raises(GrammarError, match="transform of the grammar is not that of the model"):
        model.replace(
            preparation=replace(model.preparation, transform=replace(model.preparation.transform, vertical=3))
        )
    bad = replace(model.span_scorer, weights=model.span_scorer.weights[:-1])
    with pytest.raises(GrammarError, match=r"network\.weights: has"):
        model.replace(span_scorer=bad).validate()
    assert model.validate() is model
