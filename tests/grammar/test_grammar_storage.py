"""A model file gives back the same grammar to the last bit, or an error."""

from __future__ import annotations

import json
import os
import time

import numpy as np
import pytest
from safetensors.numpy import save

import sapwood
from sapwood.errors import InputError, ModelError, SapwoodError
from sapwood.grammar.tensor_grammar import FORMAT_VERSION, TensorGrammar
from sapwood.learn.lpcfg.pcfg import PCFG
from sapwood.model.file import MODEL_VERSION
from sapwood.storage.arrays import pack_strings, read_arrays, read_header, unpack_strings, write_arrays
from sapwood.testing.grammars import random_grammar
from sapwood.trees.corpus import Corpus
from sapwood.trees.normalise import Normaliser
from sapwood.trees.transform import TreeTransform
from sapwood.trees.tree import Tree


@pytest.fixture
def grammar() -> TensorGrammar:
    return random_grammar(np.random.default_rng(1)).with_info(seed=1, note="Ærø ∑", scores=[1.5, 2.0])


@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize("interminals", [0, 3])
def test_round_trip(tmp_path, real, interminals):
    made = random_grammar(np.random.default_rng(3), interminals=interminals, real=real)
    grammar = TensorGrammar(
        **{
            **made.__dict__,
            "normaliser": Normaliser(function_tags="all"),
            "transform": TreeTransform(vertical=2),
        }
    )
    grammar.save(tmp_path / "a.sapwood")
    again = TensorGrammar.load(tmp_path / "a.sapwood")
    assert again == grammar
    assert again.info == grammar.info
    assert again.normaliser == grammar.normaliser
    assert again.transform == grammar.transform
    for name in ("states", "rules", "tensors", "root", "occupancy", "rule_counts"):
        assert getattr(again, name).tobytes() == getattr(grammar, name).tobytes()
        assert getattr(again, name).dtype == getattr(grammar, name).dtype
    again.save(tmp_path / "b.sapwood")
    assert (tmp_path / "a.sapwood").read_bytes() == (tmp_path / "b.sapwood").read_bytes()


def test_saving_replaces_whole_and_leaves_nothing_else(tmp_path, grammar):
    path = tmp_path / "model"
    path.write_text("something else")
    grammar.save(path)
    assert TensorGrammar.load(path) == grammar
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


def test_truncated(tmp_path, grammar):
    path = tmp_path / "model"
    grammar.save(path)
    content = path.read_bytes()
    for length in sorted({*range(0, len(content), len(content) // 50), 1, 7, 8, 9, len(content) - 1}):
        path.write_bytes(content[:length])
        with pytest.raises(ModelError, match="model"):
            TensorGrammar.load(path)
    path.write_bytes(content + b"\0")
    with pytest.raises(ModelError):
        TensorGrammar.load(path)


def test_flipped_bits(tmp_path, grammar):
    path = tmp_path / "model"
    grammar.save(path)
    content = path.read_bytes()
    header = 8 + int.from_bytes(content[:8], "little")
    rng = np.random.default_rng(0)
    # As many in the small header as in the data, and all of the first bytes.
    positions = [*range(12), *rng.integers(0, header, 150), *rng.integers(header, len(content), 100)]
    found_out = 0
    for position in positions:
        damaged = bytearray(content)
        damaged[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            loaded = TensorGrammar.load(path)
        except SapwoodError:
            found_out += 1
        else:
            # Only what is not part of the grammar (the version of sapwood that wrote it) can go unseen.
            assert position < header
            assert loaded == grammar
            assert loaded.info == grammar.info
    assert found_out >= len(positions) - 10


def test_wrong_kind(tmp_path, grammar):
    Corpus.from_trees([Tree.parse("(S (N a) (V b))")]).save(tmp_path / "corpus")
    with pytest.raises(ModelError, match="corpus: holds a corpus, not a model"):
        TensorGrammar.load(tmp_path / "corpus")
    grammar.save(tmp_path / "model")
    with pytest.raises(ModelError, match="holds a model, not a corpus"):
        Corpus.load(tmp_path / "model")


def test_wrong_kind_that_another_command_shows(tmp_path):
    path = tmp_path / "a b"
    write_arrays(path, {}, {}, kind="counts", version=1)
    with pytest.raises(ModelError) as caught:
        TensorGrammar.load(path)
    assert str(caught.value) == f"{path}: holds a counts, not a model; `sapwood lm show '{path}'` tells what is in it"


def test_newer_format(tmp_path, grammar):
    arrays, metadata = grammar._content()
    write_arrays(tmp_path / "new", arrays, metadata, kind="model", version=MODEL_VERSION + 1)
    with pytest.raises(ModelError, match="upgrade sapwood"):
        TensorGrammar.load(tmp_path / "new")


@pytest.mark.parametrize("version", [1, 2])
def test_older_formats(tmp_path, version):
    """They have names alone, in the notation of their time."""
    corpus = Corpus.from_trees([Tree.parse(r"(S (NP (@ a) (V|\\ b)) (X c) (Y (Z d)))")], transform=TreeTransform(2, 1))
    grammar = PCFG().fit(corpus)
    for thing, kind in ((grammar, "model"), (corpus, "corpus")):
        arrays, metadata = thing._content()
        metadata |= {"info": dict(grammar.info)} if kind == "model" else {}
        old = {name: array for name, array in arrays.items() if not name.startswith("symbols.")}
        assert set(old) < set(arrays)
        write_arrays(tmp_path / kind, old, metadata, kind=kind, version=1 if kind == "corpus" else version)
    assert TensorGrammar.load(tmp_path / "model") == grammar
    again = Corpus.load(tmp_path / "corpus")
    assert again.symbols == corpus.symbols
    assert again.digest() == corpus.digest()


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("symbols.part", lambda array: array + 1, "symbols.part: has values"),
        ("symbols.offsets", lambda array: array[1:], "symbols.offsets: has the shape"),
        ("symbols.intermediate", lambda array: array + 9, "symbols.intermediate: has values"),
        ("symbols.labels", lambda array: array | 0x80, "symbols.labels: .*not UTF-8"),
        ("symbols", lambda array: array[:-1], "symbols: .*cut off"),
    ],
)
def test_wrong_symbols(tmp_path, grammar, name, change, message):
    corpus = Corpus.from_trees([Tree.parse("(S (NP (N a)) (V b) (X c))")])
    for thing, kind in ((grammar, "model"), (corpus, "corpus")):
        arrays, metadata = thing._content()
        metadata |= {"info": {}} if kind == "model" else {}
        wrong = {**arrays, name: change(arrays[name])}
        write_arrays(tmp_path / kind, wrong, metadata, kind=kind, version=FORMAT_VERSION if kind == "model" else 2)
        with pytest.raises(ModelError, match=f"{kind}: .*{message}"):
            type(thing).load(tmp_path / kind)


def test_missing_array_or_wrong_content(tmp_path, grammar):
    arrays, metadata = grammar._content()
    metadata["info"] = {}
    without = {name: array for name, array in arrays.items() if name != "tensors"}
    write_arrays(tmp_path / "a", without, metadata, kind="model", version=FORMAT_VERSION)
    with pytest.raises(ModelError, match="not a complete model"):
        TensorGrammar.load(tmp_path / "a")
    wrong = {**arrays, "tensors": arrays["tensors"] * 2}
    write_arrays(tmp_path / "b", wrong, metadata, kind="model", version=FORMAT_VERSION)
    with pytest.raises(ModelError, match="probabilities sum to"):
        TensorGrammar.load(tmp_path / "b")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"hello",
        b"(S (N a))\n",
        b"\x80\x04\x95pickle",
        b"\x02\0\0\0\0\0\0\0{}",
        b"\x02\0\0\0\0\0\0\0[]",
        b"\xff" * 64,
    ],
)
def test_not_a_model_at_all(tmp_path, content):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(ModelError, match="not a sapwood file"):
        TensorGrammar.load(tmp_path / "x")


@pytest.mark.parametrize("changes", [{"kind": "\x1b[31mred"}, {"kind": 3}, {"sapwood": "\x1b[2J"}, {"format": True}])
def test_what_a_header_says_is_not_shown_as_it_is(tmp_path, changes):
    """Escapes in it would be obeyed by a terminal."""
    entry = {"kind": "other", "format": 99, "sapwood": "1.0", "metadata": {}, "digest": "", **changes}
    (tmp_path / "x").write_bytes(save({}, {"sapwood": json.dumps(entry)}))
    with pytest.raises(ModelError, match="not a sapwood file") as caught:
        sapwood.load(tmp_path / "x")
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("number", [50_000, 1_000_000])
def test_headers_of_very_many_arrays(tmp_path, number):
    tensors = ",".join(f'"a{n}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}' for n in range(number))
    entry = json.dumps({"kind": "model", "format": 1, "sapwood": "1", "metadata": {}, "digest": ""})
    header = f'{{"__metadata__":{{"sapwood":{json.dumps(entry)}}},{tensors}}}'.encode()
    (tmp_path / "x").write_bytes(len(header).to_bytes(8, "little") + header)
    begun = time.monotonic()
    with pytest.raises(ModelError, match=r"claims to hold 50,000 arrays|not a sapwood file"):
        TensorGrammar.load(tmp_path / "x")
    assert time.monotonic() - begun < 5


def test_values_within_values(tmp_path, grammar):
    arrays, metadata = grammar._content()
    deep: list = []
    for _ in range(40):
        deep = [deep]
    write_arrays(tmp_path / "x", arrays, {**metadata, "info": {"deep": deep}}, kind="model", version=FORMAT_VERSION)
    assert TensorGrammar.load(tmp_path / "x") == grammar
    for _ in range(20):
        deep = [deep]
    with pytest.raises(ModelError, match="values more than 50 levels deep"):
        write_arrays(tmp_path / "y", arrays, {**metadata, "info": {"deep": deep}}, kind="model", version=FORMAT_VERSION)
    text = '{"kind": "model", "format": 1, "sapwood": "1", "metadata": ' + '{"a":' * 99_999 + "1" + "}" * 100_000
    (tmp_path / "x").write_bytes(save({}, {"sapwood": text}))
    with pytest.raises(ModelError, match="not a sapwood file"):
        TensorGrammar.load(tmp_path / "x")


def test_pipes_are_no_models(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for read in (TensorGrammar.load, Corpus.load, sapwood.load):
        with pytest.raises(ModelError, match="pipe: a pipe or device"):
            read(tmp_path / "pipe")


def test_no_such_file(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        TensorGrammar.load(tmp_path / "nowhere")
    with pytest.raises(InputError, match="is a directory"):
        TensorGrammar.load(tmp_path)


def test_header_alone(tmp_path, grammar):
    grammar.save(tmp_path / "model")
    header = read_header(tmp_path / "model")
    assert header["kind"] == "model"
    assert header["metadata"]["info"]["note"] == "Ærø ∑"
    assert header["tensors"]["rules"]["shape"] == list(grammar.rules.shape)


def test_mapped_arrays_are_the_same(tmp_path, grammar):
    grammar.save(tmp_path / "model")
    loaded, _ = read_arrays(tmp_path / "model", kind="model", version=FORMAT_VERSION)
    mapped, _ = read_arrays(tmp_path / "model", kind="model", version=FORMAT_VERSION, mmap=True)
    assert loaded.keys() == mapped.keys()
    for name in loaded:
        assert loaded[name].dtype == mapped[name].dtype
        np.testing.assert_array_equal(loaded[name], mapped[name])
    with pytest.raises(ValueError, match="read-only"):
        mapped["tensors"][0] = 1.0


def test_mapped_damage_is_found(tmp_path, grammar):
    path = tmp_path / "model"
    grammar.save(path)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelError, match="damaged"):
        read_arrays(path, kind="model", version=FORMAT_VERSION, mmap=True)
    path.write_bytes(content[:-5])
    with pytest.raises(ModelError, match="damaged"):
        read_arrays(path, kind="model", version=FORMAT_VERSION, mmap=True)


def test_strings():
    for strings in ([], [""], ["", "a", ""], ["Ærø", "日本", "a b", "\ud800"]):
        assert unpack_strings(pack_strings(strings)) == strings
    with pytest.raises(ModelError, match="zero byte"):
        pack_strings(["a\0b"])
