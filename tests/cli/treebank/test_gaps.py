"""Trees with gaps in commands: --gaps, and what refuses them."""

from __future__ import annotations

import json

import pytest

from sapwood.annotation.project import Project
from sapwood.errors import InputError
from sapwood.trees.formats.registry import read_trees
from sapwood.trees.tree import Tree

LINE = "(S (VP (VB 0=is) (JJ 2=rich)) (NP 1=John))"
# Questions with a gap, and sentences without.
TREEBANK = [LINE, "(S (NP 0=John) (VP (VB 1=is) (JJ 2=rich)))", "(S (VP (VB 0=is) (JJ 2=old)) (NP 1=Mary))"] * 4


@pytest.fixture(scope="module")
def run(sapwood):
    """Return the function that runs the command with these arguments."""
    return lambda *arguments: sapwood(arguments)


@pytest.fixture(scope="module")
def files(tmp_path_factory, run):
    folder = tmp_path_factory.mktemp("gaps")
    (folder / "x.dbr").write_text("\n".join(TREEBANK) + "\n", encoding="utf-8")
    (folder / "x.txt").write_text("is John rich\nJohn is rich\n", encoding="utf-8")
    made = run("train", folder / "x.dbr", "--method", "pcfg", "-q", "-o", folder / "x.sapwood")
    assert made.code == 0, made.err
    return folder


def test_convert_keeps_closes_or_splits_gaps_or_refuses(files, run):
    given = ["convert", files / "x.dbr"]
    assert run(*given, "--to", "discbracket").out.splitlines() == TREEBANK
    assert run(*given, "--gaps", "close").out.splitlines()[0] == "(S (VP (VB is)) (NP John) (JJ rich))"
    assert run(*given, "--gaps", "split").out.splitlines()[0] == "(S (VP* (VB is)) (NP John) (VP* (JJ rich)))"
    assert run(*given, "--normalise", "--to", "export").out.splitlines()[2:6] == [
        "is\tVB\t--\t--\t500", "John\tNP\t--\t--\t501", "rich\tJJ\t--\t--\t500", "#500\tVP\t--\t--\t501",
    ]  # fmt: skip
    split = files / "split.mrg"
    assert run(*given, "--gaps", "split", "-o", split).code == 0
    assert run("convert", split, "--gaps", "join", "--to", "discbracket").out.splitlines() == TREEBANK
    refused = run(*given)
    assert refused.code == 3
    assert "--gaps close, --gaps split" in refused.err


def test_split_writes_discbracket(files, run):
    made = run("split", files / "x.dbr", "--dev", "2", "--test", "0", "-o", files / "parts")
    assert made.code == 0, made.err
    lines = [(files / "parts" / f"{part}.dbr").read_text(encoding="utf-8").splitlines() for part in ("train", "dev")]
    assert (len(lines[1]), sorted(lines[0] + lines[1])) == (2, sorted(TREEBANK))


def test_parses_have_gaps_and_are_scored(files, run):
    model = files / "x.sapwood"
    parsed = run("parse", files / "x.txt", "-m", model)
    assert parsed.out.splitlines() == [
        "(ROOT (S (VP (VB 0=is) (JJ 2=rich)) (NP 1=John)))", "(ROOT (S (NP 0=John) (VP (VB 1=is) (JJ 2=rich))))",
    ]  # fmt: skip
    first, second = map(
        json.loads, run("parse", files / "x.txt", "-m", model, "--json", "--marginals").out.split("\n")[:2]
    )
    assert (first["gaps"], "gaps" in second) == (True, False)
    assert second["tree"] == "(ROOT (S (NP John) (VP (VB is) (JJ rich))))"
    assert [row[:3] for row in first["marginals"]][:3] == [[0, 3, "S"], [0, 1, "VP*"], [2, 3, "VP*"]]
    found = json.loads(run("eval", files / "x.dbr", "-m", model, "--json").out)
    assert (found["f1"], found["disc_f1"], found["disc_gold"]) == (100.0, 100.0, 8)
    assert "disc_f1" in found["intervals"]
    closed = json.loads(run("eval", files / "x.dbr", "--gaps", "close", "-m", model, "--json").out)
    assert (closed["f1"] < 100, closed["disc_gold"], closed["disc_predicted"]) == (True, 0, 8)
    out = files / "x.parsed.dbr"
    assert run("convert", files / "x.dbr", "--to", "discbracket", "-o", out).code == 0
    both = ["compare", files / "x.dbr", out, model]
    assert "discontinuous F1" in run(*both).out
    assert json.loads(run(*both, "--json").out)["disc_f1"]["difference"] == 0.0


def test_other_outputs_of_a_parse(files, run):
    model = files / "x.sapwood"
    refused = run("parse", files / "x.txt", "-m", model, "--to", "brackets")
    assert (refused.code, "discbracket" in refused.err) == (3, True)
    drawn = run("parse", files / "x.txt", "-m", model, "--to", "draw")
    assert drawn.out.splitlines()[3:7] == ["┌─┴─┐", "VP  │", "├───│────┐", "VB  NP   JJ"]
    phrases = run("parse", files / "x.txt", "-m", model, "--phrases", "VP").out.splitlines()
    assert phrases[1].split("\t")[1:4] == ["VP", "0", "3"]
    assert phrases[1].endswith("is ... rich")


def test_all_commands_follow_the_option(files, run, tmp_path):
    """What closes gaps, or refuses them, does so in every command that has the option."""
    few = tmp_path / "few.dbr"
    few.write_text("\n".join(TREEBANK[:2]) + "\n", encoding="utf-8")
    assert "VP*" in run("check", few).out
    assert "VP*" not in run("check", few, "--gaps", "close").out
    closed = tmp_path / "closed.mrg"
    assert run("convert", files / "x.dbr", "--gaps", "close", "-o", closed).code == 0
    agree = json.loads(run("agree", files / "x.dbr", closed, "--json").out)
    assert agree["equal"] < agree["sentences"]
    agree = json.loads(run("agree", files / "x.dbr", closed, "--gaps", "close", "--json").out)
    assert agree["equal"] == agree["sentences"]


def test_hits_of_a_treebank_with_gaps_are_all_in_discbracket(files, run, tmp_path):
    """Trees without gaps, too: a file of both would be read as brackets, if such a tree comes first."""
    plain = tmp_path / "plain.dbr"
    plain.write_text("\n".join(reversed(TREEBANK[:2])) + "\n", encoding="utf-8")
    found = tmp_path / "found.txt"
    found.write_text(run("search", "S", plain).out, encoding="utf-8")
    assert found.read_text(encoding="utf-8").splitlines() == TREEBANK[1::-1]
    assert [tree.has_gaps for tree in read_trees(found)] == [False, True]


def test_annotation_refuses_gaps_and_takes_parts(files, tmp_path):
    with pytest.raises(InputError, match="--gaps split"):
        Project.create(tmp_path / "one", drafts=[Tree.parse(LINE, format="discbracket")])
    Project.create(tmp_path / "two", drafts=list(read_trees(files / "x.dbr", gaps="split")))
    assert "(VP* (VB is))" in (tmp_path / "two" / "drafts.mrg").read_text(encoding="utf-8")


def test_search_follows_dominance_and_precedence(files, run):
    def count(pattern: str, *options: str) -> str:
        return run("search", pattern, files / "x.dbr", "--count", *options).out

    # The phrase with a gap is above both words, and neither before nor after what stands in the gap.
    assert count("VP < VB < JJ").startswith("12 matches")
    assert count("VP .. NP").startswith("0 matches")
    assert count("NP , VB").startswith("8 matches")
    assert count("VB . NP").startswith("8 matches")
    assert count("NP . (JJ > VP)").startswith("8 matches")
    assert count("VP* .. NP", "--gaps", "split").startswith("8 matches")
    # Names, too: the word after the subject belongs to the phrase around it.
    assert count("VP=v < (VB . (NP=n . (JJ > =v)))").startswith("8 matches")
    assert count("NP=n . (JJ=j !> NP) : (VP < =j .. =n)").startswith("0 matches")
    rules = files / "rules.txt"
    rules.write_text("VP=v < VB\n\nrelabel v XP\n", encoding="utf-8")
    done = run("rewrite", rules, files / "x.dbr")
    assert done.out.splitlines() == [line.replace("VP", "XP") for line in TREEBANK]
    assert run("rewrite", rules, files / "x.dbr", "--to", "brackets").code == 3
    rules.write_text("VP=v < VB\n\ninsert (A a) $+ v\n", encoding="utf-8")
    refused = run("rewrite", rules, files / "x.dbr")
    assert (refused.code, "--gaps split" in refused.err) == (3, True)
    lines = run("search", "VP < JJ", files / "x.dbr", "--json").out.splitlines()
    match = json.loads(lines[0])["matches"][0]
    assert (match["start"], match["end"]) == (0, 3)
