"""A sentence that needs more memory or time than it may take gets a flat tree, and the next one is parsed as ever."""

from __future__ import annotations

import copy
import resource

import pytest

from sapwood import kernels
from sapwood.errors import OutOfMemory, TimedOut, UsageError
from sapwood.inference import Parser

SENTENCE = ["the", "museum", "that", "we", "visited", "last", "summer", "has", "closed", "."]
LONG = (SENTENCE[:-1] * 25)[:200]
MEGABYTE = 1 << 20


@pytest.fixture(scope="module")
def parser() -> Parser:
    return Parser()


def limited(parser: Parser, **limits: object) -> Parser:
    return Parser(parser.model, **limits)  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{}, {"threshold": 0.0}, {"alternatives": 2}, {"decoder": "viterbi"}])
def test_too_little_memory(parser, options):
    small = limited(parser, max_memory=60 * MEGABYTE, **options)
    plain = limited(parser, **options)
    for sentence, status in ((SENTENCE, "parsed"), (LONG, "out of memory"), (SENTENCE, "parsed")):
        result = small.parse_one(sentence)
        assert (result.status, result.failed, result.tree.words()) == (status, status != "parsed", sentence)
        if status == "parsed":
            assert result == plain.parse_one(sentence)
    assert small.parse_one(LONG).tree.depth() == 2


def test_memory_is_what_the_sentence_needs_whatever_came_before(parser):
    """The least limit that is enough for a sentence is the same in fresh memory and behind longer sentences."""

    def enough(used: Parser, size: int) -> bool:
        used.max_memory = size
        return used.parse_one(SENTENCE).status == "parsed"

    used = limited(parser)
    low, high = 1, 64 * MEGABYTE
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(limited(parser), middle) else (middle, high)
    used.parse_one(LONG)
    assert enough(used, high)
    assert not enough(used, high - 1)


def test_an_ensemble_has_one_budget(parser):
    pair = Parser([parser.grammar, parser.grammar], max_memory=60 * MEGABYTE)
    assert [pair.parse_one(words).status for words in (LONG, SENTENCE)] == ["out of memory", "parsed"]


@pytest.mark.parametrize("options", [{}, {"threshold": 0.0}, {"alternatives": 5}])
def test_too_little_time(parser, options):
    hurried = limited(parser, timeout=1e-6, **options)
    assert hurried.parse_one(SENTENCE).status == "timed out"
    hurried.timeout = 1e300
    assert hurried.parse_one(SENTENCE) == limited(parser, **options).parse_one(SENTENCE)


def test_time_is_looked_at_everywhere(parser):
    """A long sentence ends soon after its time, in whichever of its passes that is."""
    hurried = limited(parser, timeout=0.02, alternatives=200)
    assert hurried.parse_one(LONG).status == "timed out"
    with pytest.raises(TimedOut, match=r"a sentence takes longer than 0\.02 seconds; raise `timeout`"):
        hurried.k_best(LONG, 1000)


def test_where_no_flat_tree_would_do_it_is_an_error(parser):
    small = limited(parser, max_memory=MEGABYTE)
    with pytest.raises(OutOfMemory, match="more memory than the 1048576 bytes that it may take; raise `max_memory`"):
        small.k_best(LONG, 2)
    with pytest.raises(OutOfMemory):
        small.parse_one(LONG, phrases=[(0, 2, "NP")])


def test_every_thread_has_its_own(parser):
    small = limited(parser, max_memory=60 * MEGABYTE, threads=3)
    statuses = [result.status for result in small.parse([SENTENCE, LONG, [], SENTENCE] * 5)]
    assert statuses == ["parsed", "out of memory", "empty", "parsed"] * 5


def test_limits_are_copied_and_checked(parser):
    again = copy.copy(limited(parser, max_memory=5, timeout=2.5))
    assert (again.max_memory, again.timeout) == (5, 2.5)
    for name in ("max_memory", "timeout"):
        with pytest.raises(UsageError, match=f"{name} must be positive, not 0"):
            limited(parser, **{name: 0})


def test_memory_that_there_is_not(parser, monkeypatch):
    """Without a limit of ours the system's counts."""
    fresh = limited(parser)
    monkeypatch.setattr(fresh, "_tree", lambda *_: (_ for _ in ()).throw(MemoryError))
    assert fresh.parse_one(SENTENCE).status == "out of memory"


@pytest.mark.skipif(kernels.variant == "checked", reason="the sanitizer needs address space of its own")
def test_memory_that_the_system_refuses(parser):
    fresh = limited(parser, max_words=20_000)
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, before[1]))
    try:
        assert fresh.parse_one(["dog"] * 20_000).status == "out of memory"
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert fresh.parse_one(SENTENCE) == parser.parse_one(SENTENCE)
