"""The component of spaCy, with spaCy itself."""

from __future__ import annotations

import json
import pickle

import pytest

spacy = pytest.importorskip("spacy", reason="spaCy is not installed")

from spacy.tokens import Doc, DocBin  # noqa: E402

from sapwood.errors import SapwoodError, UsageError  # noqa: E402
from sapwood.inference import Parser  # noqa: E402
from sapwood.learn import PCFG  # noqa: E402
from sapwood.trees import Corpus, Tree  # noqa: E402

TEXT = 'The old dog barks loudly.  She said "no" to the cat.\n\nIt rained.'


@pytest.fixture(scope="module")
def nlp():
    pipeline = spacy.blank("en")
    pipeline.add_pipe("sentencizer")
    pipeline.add_pipe("sapwood", config={"alternatives": 3})
    return pipeline


@pytest.fixture(scope="module")
def doc(nlp):
    return nlp(TEXT)


def test_trees_are_those_of_the_parser(doc):
    sentences = list(doc.sents)
    assert len(sentences) == 3
    words = [[token.text for token in sentence if not token.is_space] for sentence in sentences]
    parser = Parser(marginals=True, alternatives=3)
    assert parser.model.preparation.tokeniser.rewrite is False  # this treebank has straight quotes
    spelled = words
    for sentence, tokens, written in zip(sentences, words, spelled, strict=True):
        expected = parser.parse_one(written)
        tree = sentence._.tree
        assert tree.words() == tokens
        assert tree.spans() == expected.tree.spans()
        assert tree.tags() == expected.tree.tags()
        assert sentence._.parse_status == "parsed"
        assert [score for _, score in sentence._.alternatives] == [score for _, score in expected.alternatives]


def test_constituents(doc):
    assert {span.label_ for span in doc._.constituents} >= {"ROOT", "S", "NP", "VP"}
    np = next(span for span in doc._.constituents if span.label_ == "NP")
    assert np.text == "The old dog"
    assert doc.text[np.start_char : np.end_char] == "The old dog"
    assert np._.labels == ("NP",)
    assert 0 < np._.confidence <= 1
    assert np._.parse_string == "(NP (DT The) (JJ old) (NN dog))"
    assert np._.parent.label_ == "S"
    assert [child.text for child in np._.children] == ["The", "old", "dog"]
    first = next(iter(doc.sents))
    assert [span.label_ for span in first._.constituents][:2] == ["ROOT", "S"]
    assert all(first.start <= span.start < span.end <= first.end for span in first._.constituents)
    vp = next(span for span in doc._.constituents if span.label_ == "VP")
    assert [child.label_ for child in vp._.children][:1] == [""]
    assert vp._.children[-1].end == vp.end
    whole = doc[doc[0].i : first.end]
    assert whole._.parent is None
    assert doc[1:3]._.labels == ()
    assert doc[1:3]._.confidence is None
    with pytest.raises(UsageError, match="no phrase"):
        doc[1:3]._.parse_string  # noqa: B018
    with pytest.raises(UsageError, match="not a sentence"):
        doc[1:3]._.tree  # noqa: B018
    assert doc[0:1]._.parse_string == "(DT The)"


def test_documents_have_all_trees_and_their_alternatives(nlp, doc):
    sentences = list(doc.sents)
    assert doc._.trees == [sentence._.tree for sentence in sentences]
    assert doc._.alternatives == [sentence._.alternatives for sentence in sentences]
    assert [len(best) for best in doc._.alternatives] == [3, 3, 2]
    assert all(sentence._.log_probability < 0 for sentence in sentences)
    assert nlp("")._.trees == nlp("")._.alternatives == []
    # The pipeline says what it is for.
    assert "doc._.trees" in nlp.analyze_pipes()["summary"]["sapwood"]["assigns"]


def test_several_processes_give_the_same(nlp, doc):
    (found,) = nlp.pipe([TEXT], n_process=2)
    assert found.user_data["sapwood"] == doc.user_data["sapwood"]


def test_pipe_gives_the_same(nlp, doc):
    texts = [TEXT, "", "   ", "Dogs bark."] * 40
    docs = list(nlp.pipe(texts, batch_size=7))
    assert [found.text for found in docs] == texts
    assert docs[0].user_data["sapwood"] == doc.user_data["sapwood"]
    assert docs[1]._.constituents == docs[2]._.constituents == []
    threaded = spacy.blank("en")
    threaded.add_pipe("sentencizer")
    threaded.add_pipe("sapwood", config={"alternatives": 3, "threads": 2})
    assert [one.user_data["sapwood"] for one in threaded.pipe(texts)] == [one.user_data["sapwood"] for one in docs]


def test_documents_can_be_saved(nlp, doc):
    again = Doc(nlp.vocab).from_bytes(doc.to_bytes())
    assert [(span.start, span.end, span.label_) for span in again._.constituents] == [
        (span.start, span.end, span.label_) for span in doc._.constituents
    ]
    (from_bin,) = DocBin(store_user_data=True, docs=[doc]).get_docs(nlp.vocab)
    assert json.loads(json.dumps(from_bin.user_data["sapwood"])) == doc.user_data["sapwood"]


def test_the_pipeline_can_be_saved(nlp, doc, tmp_path):
    trees = [Tree.parse("(ROOT (X (A dogs) (B bark) (C .)))"), Tree.parse("(ROOT (X (A dogs) (B sleep) (C .)))")]
    PCFG().fit(Corpus.from_trees(trees)).save(tmp_path / "own.sapwood")
    own = spacy.blank("en")
    own.add_pipe("sapwood", config={"model": str(tmp_path / "own.sapwood"), "confidences": False, "set_tags": True})
    expected = own("dogs bark.")
    assert [token.tag_ for token in expected] == ["A", "B", "C"]
    assert [span.label_ for span in expected._.constituents] == ["ROOT", "X"]
    assert expected._.constituents[1]._.confidence is None
    own.to_disk(tmp_path / "saved")
    data = own.to_bytes()
    (tmp_path / "own.sapwood").unlink()
    again = spacy.load(tmp_path / "saved")
    assert again("dogs sleep.").user_data["sapwood"] == own("dogs sleep.").user_data["sapwood"]
    assert again.get_pipe("sapwood").settings["confidences"] is False
    other = spacy.blank("en")
    other.add_pipe("sapwood")
    other.from_bytes(data)
    assert other("dogs sleep.").user_data["sapwood"] == own("dogs sleep.").user_data["sapwood"]
    nlp.to_disk(tmp_path / "english")
    assert spacy.load(tmp_path / "english")(TEXT).user_data["sapwood"] == doc.user_data["sapwood"]
    component = pickle.loads(pickle.dumps(nlp.get_pipe("sapwood")))
    assert component(nlp.make_doc("Dogs bark .")).user_data["sapwood"][0]["tree"].startswith("(ROOT")


def test_quotes_are_as_the_treebank_has_them(tmp_path):
    tree = Tree.parse("(ROOT (X (`` ``) (A dogs) ('' '')))")
    PCFG().fit(Corpus.from_trees([tree] * 3)).save(tmp_path / "own.sapwood")
    nlp = spacy.blank("en")
    nlp.add_pipe("sapwood", config={"model": str(tmp_path / "own.sapwood"), "alternatives": 1})
    doc = nlp('"dogs"')
    assert str(doc[:]._.tree) == "(ROOT (X (`` \") (A dogs) ('' \")))"
    assert doc[:]._.alternatives[0][0] == doc[:]._.tree


def test_without_sentences_a_document_is_one():
    nlp = spacy.blank("en")
    nlp.add_pipe("sapwood", config={"max_words": 4})
    doc = nlp("Dogs bark. Cats sleep.")
    (parse,) = doc.user_data["sapwood"]
    assert parse["status"] == "too long"
    assert doc[:]._.tree.words() == ["Dogs", "bark", ".", "Cats", "sleep", "."]
    assert doc[:]._.parse_status == "too long"


@pytest.mark.parametrize("text", ["\n\nIt rained.", "  It rained.", "It rained.\n \n", "She slept.\n\nIt rained."])
def test_white_space_around_a_sentence_changes_nothing(nlp, text):
    plain = next(iter(nlp("It rained.").sents))
    *_, sentence = nlp(text).sents
    tokens = [token for token in sentence if not token.is_space]
    if not tokens:  # white space alone is a sentence of its own here
        sentence, *_ = nlp(text).sents
    for name in ("labels", "parse_string", "confidence", "parse_status", "log_probability"):
        assert getattr(sentence._, name) == getattr(plain._, name), name
    assert sentence._.tree == plain._.tree
    assert sentence._.parent is None
    assert [child.text for child in sentence._.children] == [child.text for child in plain._.children]
    assert [(one.label_, one.text) for one in sentence._.constituents] == [
        (one.label_, one.text) for one in plain._.constituents
    ]


def test_a_wrong_model_is_an_error_at_once(tmp_path):
    pipeline = spacy.blank("en")
    with pytest.raises(SapwoodError, match="no-such-model: no such file or directory, nor an installed model"):
        pipeline.add_pipe("sapwood", config={"model": "no-such-model"})
    (tmp_path / "text.sapwood").write_text("not a model")
    with pytest.raises(SapwoodError, match="not a sapwood file"):
        pipeline.add_pipe("sapwood", config={"model": str(tmp_path / "text.sapwood")})
    assert pipeline.pipe_names == []


def test_a_saved_pipeline_does_not_need_the_file_of_its_model(tmp_path):
    trees = [Tree.parse("(ROOT (S (NP (PRP it)) (VP (VBD rained)) (. .)))")]
    PCFG().fit(Corpus.from_trees(trees)).save(tmp_path / "mine.sapwood")
    pipeline = spacy.blank("en")
    pipeline.add_pipe("sapwood", config={"model": str(tmp_path / "mine.sapwood")})
    pipeline.to_disk(tmp_path / "saved")
    (tmp_path / "mine.sapwood").unlink()
    again = spacy.load(tmp_path / "saved")
    assert [str(tree) for tree in again("it rained .")._.trees] == list(map(str, trees))


def test_phrases_with_gaps_are_spans_of_their_parts(tmp_path):
    line = "(S (VP (VB 0=is) (JJ 2=rich)) (NP 1=John))"
    trees = [Tree.parse(line, format="discbracket")] * 3
    PCFG().fit(PCFG.prepare(trees)).save(tmp_path / "gaps.sapwood")
    pipeline = spacy.blank("en")
    pipeline.add_pipe("sentencizer")
    pipeline.add_pipe("sapwood", config={"model": str(tmp_path / "gaps.sapwood"), "alternatives": 1, "set_tags": True})
    doc = pipeline("is John rich")
    (sentence,) = doc.sents
    assert str(sentence._.tree) == f"(ROOT {line})"
    assert sentence._.alternatives[0][0] == sentence._.tree
    assert [token.tag_ for token in doc] == ["VB", "NP", "JJ"]
    assert [(span.text, span.label_) for span in doc._.constituents if span.label_ == "VP*"] == [
        ("is", "VP*"), ("rich", "VP*"),
    ]  # fmt: skip
    assert doc[0:1]._.parse_string == "(VP* (VB is))"
