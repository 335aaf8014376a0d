"""EM on texts: its objective never falls, its counts are those of all trees, and it goes on where it was."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helpers.enumerate_topologies import binary_trees, spans_of
from induction.test_estep import valence_trees
from sapwood.errors import GrammarError, UsageError
from sapwood.identifiability import fit_em, make_model
from sapwood.induction.em import EMState, Schedule, _advance, run_em
from sapwood.induction.em_model import EMModel, Iteration, divergence, estimated
from sapwood.induction.models.ccm import CCMProblem, DMVCCMProblem, SpanIndex, span_log_weights
from sapwood.induction.models.dmv import (
    ArgumentsProblem,
    DMVProblem,
    StationaryArgumentsProblem,
    TiedArgumentsProblem,
    dmv_counts,
    dmv_weights,
    start_counts,
)
from sapwood.induction.models.pcfg import IndependentPCFGProblem, PCFGProblem, TiedPCFGProblem
from sapwood.induction.models.tensor_pcfg import TensorPCFGProblem, odds_of, right_posteriors
from sapwood.induction.text import Text, make_text
from sapwood.runtime.executor import LOCAL

HIDDEN = (PCFGProblem, IndependentPCFGProblem, TiedPCFGProblem)
ARGUMENTS = (ArgumentsProblem, TiedArgumentsProblem, StationaryArgumentsProblem)


def random_text(seed: int = 0, sentences: int = 40, longest: int = 6) -> Text:
    """Sentences with some structure: a, then things that come in pairs."""
    rng = np.random.default_rng(seed)
    rows = []
    for length in rng.integers(1, longest + 1, sentences):
        word = int(rng.integers(4))
        row = []
        for _ in range(length):
            row.append("abcd"[word])
            word = int(rng.choice([(word + 1) % 4, rng.integers(4)]))
        rows.append(row)
    return make_text(rows, classes=0)


def problems(text: Text, estimate: str, prior: float, lengths=(6,)) -> dict[str, EMModel]:
    shared = {"estimate": estimate}
    found: dict[str, EMModel] = {cls.name: cls(text, lengths, LOCAL, states=3, prior=prior, **shared) for cls in HIDDEN}
    found |= {cls.name: cls(text, lengths, LOCAL, prior=prior, **shared) for cls in ARGUMENTS}
    found["dmv"] = DMVProblem(text, lengths, LOCAL, start="harmonic", power=2.0, prior=prior, **shared)
    found["tensor-pcfg"] = TensorPCFGProblem(
        text, lengths, LOCAL, states=3, rank=4, prior=prior, odds=None, warmup=0, warmup_decay=0, **shared
    )
    return found


NAMES = ["pcfg", "pcfg-i", "pcfg-ie", "dep-i", "dep-ie", "dep-ies", "dmv", "tensor-pcfg"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("estimate", "prior"), [("smoothed", 0.0), ("smoothed", 0.3), ("variational", 0.3)])
def test_the_objective_never_falls(name, estimate, prior):
    problem = problems(random_text(), estimate, prior)[name]
    found = run_em(problem, Schedule(iterations=25, tolerance=-1.0, random_state=1))
    values = np.array(found.objectives[0, 0])
    assert len(values) == 25
    assert (np.diff(values) >= -1e-9 * np.abs(values[1:])).all()
    assert values[-1] > values[0] + 0.5


@pytest.mark.parametrize(("length", "place"), [(0.5, 0.5), (1.5, 1.5), (5.0, 1.25), (9.0, 1.125), (-1.0, 0.0)])
def test_steps_that_are_too_long_are_halved(length, place):
    """Until the objective does not fall; if that does not help, nothing moves."""

    class Parabola:
        exact = False

        def em_step(self, counts, when):
            value = -float((counts["x"][0] - 1) ** 2)
            return value, value, {"x": counts["x"] + length * (1 - counts["x"])}

    found = _advance(Parabola(), EMState({"x": np.zeros(1)}), Iteration(0, 0, 0))
    assert found.counts["x"].tolist() == [place]
    assert (found.iteration, found.step, found.objective) == (1, 1, -1.0)


@pytest.mark.parametrize("name", NAMES)
def test_terminals_that_only_longer_sentences_have(name):
    """All have their place from the first stage on, whatever it shows of them."""
    text = make_text([*[["a", "b"], ["b", "a", "b"]] * 3, ["a", "b", "a", "y", "z"]], classes=0)
    problem = problems(text, "smoothed", 0.3, lengths=(3, 5))[name]
    assert len(np.unique(problem.sentences(0).terminal)) < len(text.terminals)
    begun = problem.begin(np.random.default_rng(0))
    assert {one.name: one.shape for one in problem.families} == {own: array.shape for own, array in begun.items()}
    found = run_em(problem, Schedule(iterations=3, tolerance=-1.0))
    assert all(np.isfinite(values).all() for values in found.objectives.values())


@pytest.mark.parametrize("name", ["dep-i", "dep-ie", "dep-ies"])
def test_a_random_start_counts_as_much_as_the_text(name):
    """So that a prior weighs as much in the first iteration as in others."""
    text = make_text([["a", "b"], ["b", "a", "b"], ["c"]] * 3, classes=0)
    begun = problems(text, "smoothed", 0.3)[name].begin(np.random.default_rng(0))
    often = np.bincount(text.terminal, minlength=3) + 1.0
    np.testing.assert_allclose(begun["attach"].sum(axis=-1), np.broadcast_to(often, begun["attach"].shape[:-1]))
    if "root" in begun:
        assert begun["root"].sum() == pytest.approx(text.n_sentences)


@pytest.mark.parametrize("longest", [1, 2, 3, 9])
def test_spans_are_looked_up_as_they_were_read(longest):
    text = random_text(sentences=10)
    index = SpanIndex(longest)
    numbers = index.read(text)
    restored = SpanIndex.of_table(index.table(numbers), longest)
    for found in (index, restored):
        looked_up = [found.look_up(text.sentence(number)) for number in range(text.n_sentences)]
        np.testing.assert_array_equal(np.concatenate(looked_up), numbers)
    # A yield of more words than that is as good as none; and what was never seen has no number.
    whole = index.look_up([0] * 9)[8]
    assert (whole[0] == 0) == (longest < 9)
    assert index.look_up([99]).tolist() == [[-1, index.contexts[-1, -1]]]


@pytest.mark.parametrize("name", ["pcfg", "pcfg-i", "pcfg-ie", "dep-i", "dep-ie"])
def test_steps_are_those_of_em_with_derivatives(name):
    """The same model by the tape of `sapwood.identifiability.em`: from the same start, the same likelihoods."""
    text = random_text()
    problem = problems(text, "smoothed", 0.0)[name]
    start = problem.normalised(problem.begin(np.random.default_rng(3)))
    names = {"attach": ("A",) if name == "dep-ie" else ("Al", "Ar"), "root": ("pi",)}
    blocks = {}
    for own, array in start.items():
        parts = array if own == "attach" else [array]
        blocks |= {each: part.T for each, part in zip(names.get(own, (own,)), parts, strict=True)}
    model = make_model(name, len(text.terminals), None if name.startswith("dep") else 3)
    rows = [text.sentence(number).tolist() for number in range(text.n_sentences)]
    slow = fit_em(model, rows, start=blocks, iterations=6, accelerate=False, tolerance=0.0)
    problem.begin = lambda _: {key: 100 * value for key, value in start.items()}  # type: ignore[method-assign]
    quick = run_em(problem, Schedule(iterations=7, tolerance=-1.0))
    np.testing.assert_allclose(quick.objectives[0, 0], slow.log_likelihoods, rtol=1e-10)


def test_em_without_any_spans_known_is_inside_outside_by_enumeration():
    """An iteration of tensor-pcfg, with all trees, patterns and states of all sentences one by one."""
    text = make_text([["a", "b", "a", "c"], ["b", "a"], ["c", "a", "b"]], classes=0)
    problem = TensorPCFGProblem(
        text, (4,), LOCAL, "smoothed", states=2, rank=2, prior=0.0, odds=None, warmup=0, warmup_decay=0
    )  # fmt: skip
    theta = problem.normalised(problem.begin(np.random.default_rng(0)))
    value, counts = problem.expect(theta, Iteration(0, 0, 0))
    wanted = {name: np.zeros_like(array) for name, array in theta.items()}
    total = 0.0
    for number in range(text.n_sentences):
        sentence = text.sentence(number)
        ways = []

        def derivations(tree, state, sentence=sentence):
            """Yield weight and uses of each way to derive a tree from a state."""
            for pattern in range(2):
                up = theta["up"][state, pattern]
                for left_weight, left_uses in children("left", pattern, tree[0], sentence):
                    for right_weight, right_uses in children("right", pattern, tree[1], sentence):
                        uses = [("up", state, pattern), *left_uses, *right_uses]
                        yield up * left_weight * right_weight, uses

        def children(side, pattern, child, sentence):
            if isinstance(child, int):
                terminal = 2 + int(sentence[child])
                yield theta[side][pattern, terminal], [(side, pattern, terminal)]
                return
            for state in range(2):
                for weight, uses in derivations(child, state, sentence):
                    yield theta[side][pattern, state] * weight, [(side, pattern, state), *uses]

        for tree in binary_trees(0, len(sentence)):
            for state in range(2):
                for weight, uses in derivations(tree, state):
                    ways.append((theta["root"][state] * weight, [("root", state), *uses]))
        whole = sum(weight for weight, _ in ways)
        total += np.log(whole)
        for weight, uses in ways:
            for name, *place in uses:
                wanted[name][tuple(place)] += weight / whole
    assert value == pytest.approx(total)
    for name, array in wanted.items():
        np.testing.assert_allclose(counts[name], array, atol=1e-12)


def test_the_start_of_heads_is_that_of_trees():
    """Expected over all projective trees, each weighted by the distances of words and heads."""
    from helpers.enumerate_topologies import projective_trees

    text = make_text([["a", "b", "a"], ["b", "a"]], classes=0)
    found = start_counts(text, "harmonic", 2.0, np.random.default_rng(0))
    attach, root = np.zeros((2, 2, 2)), np.zeros(2)
    for number in range(2):
        sentence = text.sentence(number)
        trees = projective_trees(len(sentence))
        weights = [np.prod([1 / abs(w - h) ** 2 for w, h in enumerate(tree) if h >= 0]) for tree in trees]
        for tree, weight in zip(trees, weights, strict=True):
            for word, head in enumerate(tree):
                share = weight / sum(weights)
                if head < 0:
                    root[sentence[word]] += share
                else:
                    attach[int(head < word), sentence[head], sentence[word]] += share
    np.testing.assert_allclose(found.attach, attach)
    np.testing.assert_allclose(found.root, root)
    assert found.stop.sum() == pytest.approx(2 * 5)
    random = [start_counts(text, "random", 2.0, np.random.default_rng(seed)).attach for seed in (0, 0, 1)]
    assert np.array_equal(random[0], random[1])
    assert not np.array_equal(random[0], random[2])


def test_lengths_come_one_after_the_other():
    text = random_text()
    problem = problems(text, "smoothed", 0.1, lengths=(3, 6))["dmv"]
    found = run_em(problem, Schedule(iterations=4, tolerance=-1.0))
    assert list(found.objectives) == [(0, 0), (0, 1)]
    assert found.steps == 8
    again = problems(text.up_to(3), "smoothed", 0.1, lengths=(3,))["dmv"]
    assert run_em(again, Schedule(iterations=4, tolerance=-1.0)).objectives[0, 0] == found.objectives[0, 0]


def test_a_gain_too_small_ends_a_stage():
    problem = problems(random_text(), "smoothed", 0.1)["dmv"]
    found = run_em(problem, Schedule(iterations=500, tolerance=1e-3))
    values = found.objectives[0, 0]
    words = len(problem.sentences(0).word)
    assert len(values) < 100
    assert values[-1] - values[-2] < 1e-3 * words <= values[-2] - values[-3]


def test_the_best_of_several_starts_is_kept():
    """Whichever it is: the first, the last or another."""
    kept = set()
    for seed in range(12):
        problem = problems(random_text(), "smoothed", 0.01)["pcfg"]
        found = run_em(problem, Schedule(iterations=6, tolerance=-1.0, restarts=3, random_state=seed))
        ends = [found.objectives[start, 0][-1] for start in range(3)]
        assert len(set(ends)) == 3
        best = int(np.argmax(ends))
        alone = problems(random_text(), "smoothed", 0.01)["pcfg"]
        start = alone.begin(np.random.default_rng([seed, best]))
        alone.begin = lambda _, start=start: start  # type: ignore[method-assign, misc]
        other = run_em(alone, Schedule(iterations=6, tolerance=-1.0))
        assert all(np.array_equal(found.counts[name], other.counts[name]) for name in other.counts)
        kept.add(best)
    assert kept == {0, 1, 2}


@pytest.mark.parametrize("name", ["dmv", "pcfg", "dep-ies"])
def test_a_run_goes_on_from_any_of_its_states(name, tmp_path):
    """Interrupted after each iteration in turn: the same counts, to the last bit."""
    schedule = Schedule(iterations=3, tolerance=-1.0, restarts=2, random_state=2)
    whole = run_em(problems(random_text(), "smoothed", 0.1, lengths=(3, 6))[name], schedule)
    path = tmp_path / "state"
    for stop in range(1, 12):
        problem = problems(random_text(), "smoothed", 0.1, lengths=(3, 6))[name]
        honest, calls = problem.em_step, []

        def stopping(counts, when, honest=honest, calls=calls, stop=stop):
            calls.append(when)
            if len(calls) > stop:
                raise KeyboardInterrupt
            return honest(counts, when)

        problem.em_step = stopping  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            run_em(problem, schedule, checkpoint=path, key={"a": 1})
        problem.em_step = honest  # type: ignore[method-assign]
        found = run_em(problem, schedule, checkpoint=path, key={"a": 1})
        assert all(np.array_equal(whole.counts[each], found.counts[each]) for each in whole.counts)
        if name == "dep-ies":
            break  # steps that are halved make more calls than iterations
        path.unlink()
    run_em(problem, schedule, checkpoint=path, key={"a": 1})
    with pytest.raises(UsageError, match="other settings or text"):
        run_em(problem, schedule, checkpoint=path, key={"a": 2})


def test_spans_are_held_and_let_go():
    text = random_text().up_to(6, 2)
    odds = odds_of(right_posteriors(text))
    problem = TensorPCFGProblem(
        text, (6,), LOCAL, "smoothed", states=2, rank=3, prior=0.1, odds=odds, warmup=2, warmup_decay=4
    )  # fmt: skip
    powers = [problem.odds_exponent(Iteration(0, 0, number)) for number in range(8)]
    assert powers == [1, 1, 1, 0.75, 0.5, 0.25, 0, 0]
    assert [problem.is_final(Iteration(0, 0, number)) for number in (5, 6)] == [False, True]
    theta = problem.normalised(problem.begin(np.random.default_rng(0)))
    free = TensorPCFGProblem(
        text, (6,), LOCAL, "smoothed", states=2, rank=3, prior=0.1, odds=None, warmup=2, warmup_decay=4
    )
    assert problem.expect(theta, Iteration(0, 0, 7))[0] == free.expect(theta, Iteration(0, 0, 7))[0]
    assert problem.expect(theta, Iteration(0, 0, 0))[0] != free.expect(theta, Iteration(0, 0, 0))[0]
    assert (right_posteriors(text)[: text.lengths[0]] == np.eye(int(text.lengths[0]))[-1]).all()


def test_annealing_makes_trees_alike_at_first():
    text = random_text()
    problem = DMVProblem(text, (6,), LOCAL, "smoothed", start="harmonic", power=2.0, prior=0.1, anneal=0.2, cooling=4)
    assert [round(problem.inverse_temperature(Iteration(0, 0, number)), 9) for number in range(6)] == [
        0.2,
        0.4,
        0.6,
        0.8,
        1,
        1,
    ]
    found = run_em(problem, Schedule(iterations=8, tolerance=1e9))
    assert len(found.objectives[0, 0]) == 6  # not settled before, and then at once


def ccm_problem(cls, text, prior=0.1, lengths=(6,), estimate="smoothed"):
    heads = {"start": "harmonic", "power": 2.0, "prior": prior} if cls is DMVCCMProblem else {}
    return cls(text, lengths, LOCAL, estimate, longest=3, **heads)


@pytest.mark.parametrize("cls", [CCMProblem, DMVCCMProblem])
@pytest.mark.parametrize("estimate", ["smoothed", "variational"])
def test_the_objective_of_spans_never_falls(cls, estimate):
    found = run_em(ccm_problem(cls, random_text(), estimate=estimate), Schedule(iterations=25, tolerance=-1.0))
    values = np.array(found.objectives[0, 0])
    assert (np.diff(values) >= -1e-9 * np.abs(values[1:])).all()
    assert values[-1] > values[0] + 0.5


@pytest.mark.parametrize("cls", [CCMProblem, DMVCCMProblem])
def test_spans_are_counted_as_in_all_trees_one_by_one(cls):
    """Each tree gives every span of its sentence a yield and a context; with heads, their probability, too."""
    text = make_text([["a", "b", "a", "c", "a"], ["b", "a"], ["c", "a", "b"], ["a", "b", "a", "b"]], classes=0)
    problem = ccm_problem(cls, text)
    theta = problem.distributions(problem.begin(np.random.default_rng(0)))
    assert theta["yields"].sum(1) == pytest.approx([1, 1])
    value, counts = problem.expect(theta, Iteration(0, 0, 0))
    wanted = {name: np.zeros_like(array) for name, array in theta.items()}
    total = 0.0
    for number in range(text.n_sentences):
        sentence = text.sentence(number).tolist()
        around = [-1, *sentence, -1]
        n = len(sentence)
        ways = []
        if cls is CCMProblem:
            trees = [(1.0, None, spans_of(tree)) for tree in binary_trees(0, n)]
        else:
            weights = dmv_weights(theta)
            trees = [(weight, uses, spans) for weight, uses, spans, _ in valence_trees(sentence, weights, None)]
        for weight, uses, spans in trees:
            kinds = []
            for i in range(n):
                for j in range(i + 1, n + 1):
                    own = np.array(sentence[i:j] if j - i <= 3 else [], np.int32).tobytes()
                    kind = int(j - i > 1 and (i, j) not in spans)
                    places = (problem.index.yields[own], problem.index.contexts[around[i], around[j + 1]])
                    kinds.append((kind, *places))
                    weight *= theta["yields"][kind, places[0]] * theta["contexts"][kind, places[1]]
            ways.append((weight, uses, kinds))
        whole = sum(weight for weight, *_ in ways)
        total += np.log(whole)
        for weight, uses, kinds in ways:
            for kind, own, context in kinds:
                wanted["yields"][kind, own] += weight / whole
                wanted["contexts"][kind, context] += weight / whole
            if uses is not None:
                for name, part in dmv_counts(uses).items():
                    wanted[name] += weight / whole * part
    assert value == pytest.approx(total)
    for name, array in wanted.items():
        np.testing.assert_allclose(counts[name], array, atol=1e-10)


def test_weights_of_spans_from_their_definition():
    """What was never seen (-1) counts as much as is taken for granted of everything."""
    rng = np.random.default_rng(0)
    yields, contexts = rng.uniform(0, 9, (2, 5)), rng.uniform(0, 9, (2, 4))
    of_span = np.array([[0, 1], [4, 3], [-1, 2], [3, -1], [-1, -1]], np.int32)
    found = span_log_weights(of_span, yields, contexts)
    for (own, context), value in zip(of_span.tolist(), found, strict=True):
        wanted = 1.0
        for number, counts in ((own, yields), (context, contexts)):
            inside = (2 + (counts[0, number] if number >= 0 else 0)) / (counts[0].sum() + 2 * counts.shape[1])
            outside = (8 + (counts[1, number] if number >= 0 else 0)) / (counts[1].sum() + 8 * counts.shape[1])
            wanted *= inside / outside
        assert value == pytest.approx(np.log(wanted))


def test_the_step_of_a_stationary_root_goes_up_the_slope():
    """Counts by probabilities are derivatives, but for a number that all arguments of a head have in common."""
    problem = problems(random_text(), "smoothed", 0.0)["dep-ies"]
    theta = problem.normalised(problem.begin(np.random.default_rng(4)))
    slopes = problem.expect(theta, Iteration(0, 0, 0))[1]["attach"][0] / theta["attach"][0]
    for head in range(4):
        for argument in range(1, 4):
            values = []
            for step in (1e-5, -1e-5):
                moved = {"attach": theta["attach"].copy()}
                moved["attach"][0, head, [argument, 0]] += (step, -step)
                values.append(problem.expect(moved, Iteration(0, 0, 0))[0])
            slope = (values[0] - values[1]) / 2e-5
            assert slopes[head, argument] - slopes[head, 0] == pytest.approx(slope, rel=1e-5, abs=1e-4)


def test_spans_of_several_lengths_are_numbered_alike():
    text = random_text()
    for cls in (CCMProblem, DMVCCMProblem):
        problem = ccm_problem(cls, text, lengths=(4, 6))
        found = run_em(problem, Schedule(iterations=3, tolerance=-1e9))
        assert found.steps == 6
        spans = int((problem.sentences(1).lengths * (problem.sentences(1).lengths + 1) // 2).sum())
        assert found.counts["yields"].sum() == pytest.approx(spans)
        assert found.counts["contexts"].sum() == pytest.approx(spans)
        # All yields of more than three words are one.
        assert max(len(own) for own in problem.index.yields) == 3 * 4


@pytest.mark.parametrize("name", NAMES)
def test_sentences_of_many_words(name):
    """Of forty words there are more trees than a whole number of the machine can count."""
    problem = problems(random_text(sentences=5, longest=60), "smoothed", 0.1, lengths=(60,))[name]
    found = run_em(problem, Schedule(iterations=3, tolerance=-1.0))
    assert max(problem.sentences(0).lengths) > 40
    assert np.isfinite(found.objectives[0, 0]).all()
    assert (np.diff(found.objectives[0, 0]) > 0).all()


def test_estimates():
    counts = np.array([[4.0, 0.0], [0.0, 0.0]])
    np.testing.assert_allclose(estimated(counts, 1.0, "smoothed"), [[5 / 6, 1 / 6], [0.5, 0.5]])
    sparse = estimated(counts, 0.1, "variational")
    assert sparse[0, 1] < estimated(counts, 0.1, "smoothed")[0, 1] / 10
    assert (sparse.sum(1) < 1).all()
    # The divergence by drawing from the posterior.
    rng = np.random.default_rng(0)
    drawn = rng.dirichlet([4.5, 0.5], 200_000)
    from scipy.stats import dirichlet

    def density(alpha):
        return dirichlet.logpdf(np.clip(drawn, 1e-300, 1).T / np.clip(drawn, 1e-300, 1).sum(1), alpha)

    assert divergence(np.array([4.0, 0.0]), 0.5) == pytest.approx(
        float((density([4.5, 0.5]) - density([0.5, 0.5])).mean()), abs=0.02
    )
    assert divergence(counts, 0.0) == 0


def test_what_cannot_be_learned_is_said():
    text = random_text()
    with pytest.raises(UsageError, match="no sentences of 1 to 1 words"):
        problems(make_text([["a", "b"]], classes=0), "smoothed", 0.1, lengths=(1,))
    many = replace(text, terminals=tuple(map(str, range(5000))))
    with pytest.raises(UsageError, match="each pair of 5,000 terminals"):
        problems(many, "smoothed", 0.1)
    problem = problems(text, "smoothed", 0.0)["dmv"]
    nothing = {name: np.zeros_like(array) for name, array in problem.begin(np.random.default_rng(0)).items()}
    nothing["root"][0] = 1.0
    nothing["attach"][:, :, 0] = 1.0
    problem.begin = lambda _: nothing  # type: ignore[method-assign]
    with pytest.raises(GrammarError, match="no probability under the model"):
        run_em(problem, Schedule(iterations=3))
