"""What benchmarks of smaller models measure, and the records they write."""

from __future__ import annotations

from argparse import Namespace
from itertools import islice
from pathlib import Path

import pytest

import _records
import low_rank
import minimising
from sapwood.automata import compare
from sapwood.automata.wcfg.convert import from_weighted_grammar
from sapwood.automata.wcfg.files import read_grammar

STICK = """\
S -> NP VP [1.0]
NP -> D N [0.7] | NP PP [0.3]
VP -> V NP [0.7] | VP PP [0.3]
PP -> P NP [1.0]
D -> 'the' [0.5] | 'a' [0.5]
N -> 'dog' [0.5] | 'man' [0.3] | 'stick' [0.2]
V -> 'saw' [0.6] | 'hit' [0.4]
P -> 'with' [1.0]
"""


def test_svta_star_steps_back_from_the_border(tmp_path):
    """Near the border, six and seven states of this grammar lose all trees."""
    (tmp_path / "stick.txt").write_text(STICK)
    automaton = from_weighted_grammar(read_grammar(tmp_path / "stick.txt"))
    options = Namespace(methods=["SVTA*"], states=[6, 7, 8], ranks=[], seeds=0)
    problem = Namespace(name="stick", automaton=automaton)
    found = list(islice(low_rank.approximations(problem, options, set()), 3))
    assert [(method, size) for method, size, *_ in found] == [("SVTA*", 6), ("SVTA*", 7), ("SVTA*", 8)]
    distances = [compare(automaton, smaller).relative for *_, smaller, _ in found]
    assert distances[:2] == pytest.approx([0.1585, 0.1585], abs=1e-3)
    assert distances[2] == pytest.approx(0, abs=1e-6)


@pytest.fixture
def written(monkeypatch):
    """The records that are written."""
    found = []
    monkeypatch.setattr(_records, "add", found.append)
    return found


@pytest.fixture
def bank(tmp_path) -> Path:
    """A directory with three files."""
    (tmp_path / "bank").mkdir()
    for part in ("train", "dev", "test"):
        (tmp_path / "bank" / f"{part}.mrg").write_text(f"(S {part})\n")
    return tmp_path / "bank"


def test_records_of_minimised_grammars(written, bank):
    full = {"contender": minimising.ORIGINAL, "bytes": 4_000_000, "dev": 87.0, "test": 85.0, "ms": 3.0}
    made = {"contender": minimising.DEFAULT, "bytes": 1_000_000, "dev": 87.5, "test": 84.5, "ms": 1.5}
    minimising.write_record(bank, "pivot+em", 2, [full, made])
    [one] = written
    _records.check(one)
    assert (one["id"], one["seeds"], one["describes"]["kind"]) == ("bank/pivot+em-24-minimised", [2], "minimise")
    figures = one["figures"]
    assert (figures["gain_f1"], figures["smaller"], figures["faster"], figures["file_mb"]) == (-0.5, 4, 2, 1)
    assert one["command"].startswith("python benchmarks/minimising.py DATA/bank --methods pivot+em --seeds 2 ")
    assert minimising.DEFAULT in minimising.CONTENDERS


def test_records_of_the_low_rank_study(written, bank):
    options = Namespace(parsing=False, vertical=2, horizontal=0)
    result = dict.fromkeys(("weights", "l2", "relative", "perplexity", "positive", "ms", "seconds"), 0.5)
    result |= {"error": None, "right": [1.0, 2.0, 3.0], "brackets": [50.0, 40.0, 30.0]}
    name = low_rank.record_name("SVTA*", 20)
    low_rank.write_record(options, bank, name, 0, low_rank.flat_figures(result), "--methods 'SVTA*' --states 20")
    [one] = written
    _records.check(one)
    assert one["id"] == "bank/low-rank-svta-star-20-vertical-2"
    assert "error" not in one["figures"]
    assert (one["figures"]["right_20"], one["figures"]["words_40_f1"]) == (2, 30)
    assert one["command"] == (
        "python benchmarks/low_rank.py DATA/bank --methods 'SVTA*' --states 20 --vertical 2 --records"
    )
