"""Unmixing: parameters back from moments (Hsu, Kakade and Liang 2012, section 5)."""

from __future__ import annotations

import warnings
from itertools import permutations
from typing import Any

import numpy as np
import pytest

from helpers.effort import slow
from sapwood.errors import SapwoodError, UsageError
from sapwood.identifiability.models.zoo import make_model
from sapwood.identifiability.moment_maps import ModelMoments
from sapwood.identifiability.moment_tables import Tables, match_tables
from sapwood.identifiability.unmixing.constituency import decompose, diagonalise, roots_of
from sapwood.identifiability.unmixing.dependency import _Roots
from sapwood.identifiability.unmixing.unmix import Population, Sentences, UncertainAnswer, project_to_simplex, unmix
from sapwood.induction.learners import _counts, _unmixed_counts
from sapwood.induction.models.dmv import ArgumentsProblem
from sapwood.induction.text import make_text
from sapwood.runtime.executor import LOCAL
from sapwood.runtime.progress import Silent

PRECISE = 1e-8


def solved(*arguments: Any, **options: Any) -> dict[str, np.ndarray]:
    """Return the parameters that unmixing finds."""
    return unmix(*arguments, **options).parameters


def distance(found: dict[str, np.ndarray], truth: dict[str, np.ndarray]) -> float:
    """Return the largest difference, for the best order of states."""
    states = len(truth["pi"])
    return min(
        max(
            abs(found["pi"][list(order)] - truth["pi"]).max(),
            abs(found["T"][np.ix_(order, order)] - truth["T"]).max(),
            abs(found["O"][:, list(order)] - truth["O"]).max(),
        )
        for order in permutations(range(states))
    )


def well_conditioned(stay: float = 0.8) -> dict[str, np.ndarray]:
    """Return a pcfg-ie with 6 words and 3 states that mostly have children like themselves, and words of their own."""
    words = np.full((6, 3), 0.025)
    for state in range(3):
        words[2 * state : 2 * state + 2, state] = 0.5, 0.4
    children = np.full((3, 3), (1 - stay) / 2) + (1.5 * stay - 0.5) * np.eye(3)
    return {"pi": np.array([0.5, 0.3, 0.2]), "T": children, "O": words / words.sum(0)}


class TestConstituents:
    @pytest.mark.parametrize(("words", "states"), [(2, 2), (3, 2), (6, 3), (10, 4), slow(20, 2), slow(20, 5), (5, 5)])
    def test_exact_moments_give_the_parameters_back(self, words: int, states: int) -> None:
        model = make_model("pcfg-ie", words, states)
        precise = 0
        for seed in range(4):
            truth = model.random(np.random.default_rng([words, states, seed]))
            found = solved(model, Population(model, truth, [3]))
            rows = np.concatenate(list(ModelMoments(model, ["123"], [3]).jacobian(truth, np.random.default_rng(0))))
            smallest = np.linalg.svd(rows, compute_uv=False)[-1]
            if smallest < 1e-9:
                continue  # moments that differ by less than rounding have parameters that differ by more than 1e-8
            assert distance(found, truth) < PRECISE
            precise += 1
        assert precise >= 3

    def test_several_lengths(self) -> None:
        model = make_model("pcfg-ie", 4, 2)
        truth = model.random(np.random.default_rng(1))
        found = solved(model, Population(model, truth, range(1, 6)))
        assert distance(found, truth) < PRECISE

    @pytest.mark.slow
    def test_all_lengths_up_to_ten(self) -> None:
        model = make_model("pcfg-ie", 6, 3)
        truth = model.random(np.random.default_rng(0))
        assert distance(solved(model, Population(model, truth, range(1, 11))), truth) < PRECISE

    @pytest.mark.slow
    def test_a_million_sentences(self) -> None:
        model, truth = make_model("pcfg-ie", 6, 3), well_conditioned()
        sentences = model.sample(truth, 3, 1_000_000, np.random.default_rng(0)).words
        found = solved(model, Sentences(sentences, 6))
        model.check(found)
        assert distance(found, truth) < 0.02

    def test_more_sentences_are_better(self) -> None:
        model, truth = make_model("pcfg-ie", 6, 3), well_conditioned()
        sentences = model.sample(truth, 3, 400_000, np.random.default_rng(1)).words
        errors = [distance(solved(model, Sentences(sentences[:count], 6)), truth) for count in (4_000, 400_000)]
        assert errors[1] < errors[0] / 3

    def test_the_seed_decides(self) -> None:
        model, truth = make_model("pcfg-ie", 6, 3), well_conditioned()
        source = Sentences(model.sample(truth, 3, 5_000, np.random.default_rng(1)).words, 6)
        one, same, other = (solved(model, source, random_state=seed)["T"] for seed in (0, 0, 1))
        np.testing.assert_array_equal(one, same)
        assert (one != other).any()


class TestDependencies:
    @pytest.mark.parametrize("words", [2, 3, 5, 10, slow(20)])
    def test_exact_moments_give_the_parameters_back(self, words: int) -> None:
        model = make_model("dep-ies", words)
        for seed in range(5):
            truth = model.random(np.random.default_rng([words, seed]))
            found = solved(model, Population(model, truth, [2, 3]), refine=False)
            assert abs(found["A"] - truth["A"]).max() < PRECISE
            found = solved(model, Population(model, truth, [2, 3, 4, 5]), method="linear", refine=False)
            assert abs(found["A"] - truth["A"]).max() < PRECISE

    def test_eigenvalues_below_minus_a_half(self) -> None:
        """For these the other root of the quadratic equation is the right one."""
        model = make_model("dep-ies", 2)
        truth = {"A": np.array([[0.1, 0.8], [0.9, 0.2]])}
        assert np.linalg.eigvals(truth["A"]).min() == pytest.approx(-0.7)
        np.testing.assert_allclose(
            solved(model, Population(model, truth, [2, 3]), refine=False)["A"], truth["A"], atol=PRECISE
        )

    def test_complex_eigenvalues(self) -> None:
        model = make_model("dep-ies", 3)
        truth = {"A": np.array([[0.1, 0.1, 0.9], [0.8, 0.1, 0.05], [0.1, 0.8, 0.05]])}
        values = np.linalg.eigvals(truth["A"])
        assert abs(values.imag).max() > 0.5
        assert values.real.min() < -0.3
        np.testing.assert_allclose(
            solved(model, Population(model, truth, [2, 3]), refine=False)["A"], truth["A"], atol=PRECISE
        )

    def test_roots_that_no_single_change_would_find(self) -> None:
        """Improving any first choice, one root after the other, is not enough: it ends elsewhere for one of these."""
        model = make_model("dep-ies", 7)
        for seed in range(6):
            rng = np.random.default_rng([7, seed])
            arguments = 0.15 * rng.dirichlet(np.ones(7), 7).T + 0.85 * np.eye(7)[rng.permutation(7)]
            truth = {"A": arguments / arguments.sum(0)}
            found = solved(model, Population(model, truth, [2, 3]), refine=False)
            np.testing.assert_allclose(found["A"], truth["A"], atol=PRECISE)

    def test_wrong_roots_are_changed(self) -> None:
        model = make_model("dep-ies", 5)
        arguments = model.random(np.random.default_rng(0))["A"]
        roots = _Roots(arguments @ arguments + arguments)
        wrong = np.ones(5, int)
        wrong[roots.known] = 0
        assert abs(roots.matrix(wrong) - arguments).max() > 0.1
        right = roots.improve(wrong, lambda choice: float(np.sum((roots.matrix(choice) - arguments) ** 2)))
        np.testing.assert_allclose(roots.matrix(right), arguments, atol=1e-10)

    @pytest.mark.parametrize("method", [slow("quadratic"), slow("linear")])
    def test_from_sentences(self, method) -> None:
        model = make_model("dep-ies", 4)
        truth = model.random(np.random.default_rng(3))
        rng = np.random.default_rng(0)
        sentences = [row for length in (2, 3, 4, 5) for row in model.sample(truth, length, 50_000, rng).words.tolist()]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UncertainAnswer)  # the base algorithm alone fits badly
            found = solved(model, Sentences(sentences, 4), method=method, refine=False)
        model.check(found)
        assert abs(found["A"] - truth["A"]).max() < (0.08 if method == "quadratic" else 0.3)


class TestParts:
    def test_decompose(self) -> None:
        """Lemma 1."""
        rng = np.random.default_rng(0)
        one, two = rng.normal(size=(6, 3)), rng.normal(size=(6, 3))
        found = decompose(one @ two.T, one * np.array([1.0, -2.0, 0.5]) @ two.T, 3)
        assert found is not None
        scaled = np.abs(np.linalg.lstsq(one, found, rcond=None)[0])
        # A permutation with scales: one element in each row and column.
        assert (np.sort(scaled, axis=0)[:-1] < 1e-10).all()
        assert sorted(np.argmax(scaled, axis=0)) == [0, 1, 2]

    def test_symmetric_matrices_have_real_eigenvalues_whatever_the_noise(self) -> None:
        rng = np.random.default_rng(0)
        for _ in range(20):
            one = rng.random((5, 3))
            noise = 0.05 * rng.normal(size=(2, 5, 5))
            x, y = (one @ one.T + matrix + matrix.T for matrix in noise)
            assert decompose(x, y, 3) is not None

    def test_complex_eigenvalues_are_refused(self) -> None:
        assert decompose(np.eye(2), np.array([[0.0, 1.0], [-1.0, 0.0]]), 2) is None

    def test_projection(self) -> None:
        rng = np.random.default_rng(0)
        columns = rng.normal(size=(4, 30))
        found = project_to_simplex(columns)
        np.testing.assert_allclose(found.sum(0), 1, atol=1e-12)
        assert (found >= 0).all()
        # It is the nearest: no other distribution is nearer.
        for _ in range(200):
            other = rng.dirichlet(np.ones(4), 30).T
            assert (np.linalg.norm(found - columns, axis=0) <= np.linalg.norm(other - columns, axis=0) + 1e-12).all()
        inside = rng.dirichlet(np.ones(4), 5).T
        np.testing.assert_allclose(project_to_simplex(inside), inside, atol=1e-15)

    def test_matching_moments(self) -> None:
        model = make_model("pcfg-i", 4, 2)
        rng = np.random.default_rng(0)
        truth = model.random(rng, concentration=3)
        near = model.parameters(model.chart(truth) + 1e-3 * rng.normal(size=model.n_parameters))
        found = match_tables(Tables(model, Population(model, truth, [3]), [3]), near)
        for name, array in truth.items():
            np.testing.assert_allclose(found[name], array, atol=PRECISE)

    def test_diagonalising_several_matrices(self) -> None:
        rng = np.random.default_rng(0)
        rotation = np.linalg.qr(rng.normal(size=(4, 4)))[0]
        matrices = np.array([rotation * rng.normal(size=4) @ rotation.T for _ in range(5)])
        found = diagonalise(matrices)
        np.testing.assert_allclose(found.T @ found, np.eye(4), atol=1e-12)
        turned = found.T @ matrices @ found
        np.testing.assert_allclose(turned * (1 - np.eye(4)), 0, atol=1e-12)
        # With noise no small rotation brings the squares beside the diagonals further down.
        noise = 0.1 * rng.normal(size=matrices.shape)
        noisy = matrices + noise + noise.swapaxes(1, 2)
        best = diagonalise(noisy)

        def beside(v: np.ndarray) -> float:
            return float(np.sum((v.T @ noisy @ v * (1 - np.eye(4))) ** 2))

        for _ in range(50):
            skew = 1e-3 * rng.normal(size=(4, 4))
            turn = np.linalg.solve(np.eye(4) + skew - skew.T, np.eye(4) - skew + skew.T)
            assert beside(best @ turn) >= beside(best) - 1e-12

    @pytest.mark.parametrize("depth", [1, 3, 5])
    def test_roots_of_powers(self, depth: int) -> None:
        """One of them is the matrix: with negative, and with complex eigenvalues."""
        for matrix in (
            np.array([[0.1, 0.8], [0.9, 0.2]]),
            np.array([[0.1, 0.1, 0.9], [0.8, 0.1, 0.05], [0.1, 0.8, 0.05]]),
        ):
            power = np.linalg.matrix_power(matrix, depth)
            roots = list(roots_of(power, depth))
            assert min(abs(root - matrix).max() for root in roots) < 1e-10
            for root in roots:
                np.testing.assert_allclose(np.linalg.matrix_power(root, depth), power, atol=1e-10)


class TestBadArguments:
    def test_everything(self) -> None:
        rng = np.random.default_rng(0)

        def population(name: str, states: int | None, lengths: list[int]):
            model = make_model(name, 3, states)
            return model, Population(model, model.random(rng), lengths)

        for arguments, options, message in [
            (population("pcfg-i", 2, [3]), {"refine": False}, "no base algorithm for pcfg-i;"),
            (population("pcfg-ies", 2, [3]), {"refine": False}, "no base algorithm for pcfg-ies"),
            (population("dep-ie", None, [3]), {"refine": False}, "do not determine dep-ie"),
            (population("pcfg-ie", 2, [2, 4]), {"refine": False}, "of length 3, of lengths 4 and 5"),
            (population("pcfg-ie", 4, [3]), {"refine": False}, "as many words as states"),
            (population("pcfg-ie", 2, [3]), {"tries": 0}, "tries must be at least 1"),
            (population("pcfg-ie", 2, [3]), {"method": "linear"}, "for dep-ies only"),
            (population("pcfg-ie", 2, [3]), {"lengths": [3, 4]}, "no moments of sentences of length 4"),
            (population("dep-ies", None, [2, 3]), {"method": "linear"}, "add other lengths"),
            (population("dep-ies", None, [2, 4]), {"method": "cubic"}, "method is one of"),
        ]:
            with pytest.raises(UsageError, match=message):
                unmix(*arguments, **options)

    def test_words_that_do_not_occur(self) -> None:
        with pytest.raises(UsageError, match="none of the sentences"):
            unmix(make_model("dep-ies", 3), Sentences([[0, 1], [1, 1, 0], [0, 0, 1]], 3))

    def test_too_many_states(self) -> None:
        """States that differ in nothing cannot be told apart."""
        model = make_model("pcfg-ie", 3, 2)
        alike = {"pi": np.array([0.5, 0.5]), "T": np.full((2, 2), 0.5), "O": np.full((3, 2), 1 / 3)}
        with pytest.raises(SapwoodError, match="fit these moments"):
            unmix(model, Population(model, alike, [3]))


@pytest.mark.parametrize("words", [2, 3, 5, 8])
def test_the_symmetric_moment_suggests_the_roots(words: int) -> None:
    """`near` alone, without what `improve` makes of it, chooses right: whether roots are above -1/2 or below."""
    below = 0
    for seed in range(10):
        rng = np.random.default_rng([words, seed])
        arguments = 0.2 * rng.dirichlet(np.ones(words), words).T + 0.8 * np.eye(words)[rng.permutation(words)]
        arguments /= arguments.sum(0)
        values, vectors = np.linalg.eig(arguments)
        pi = np.abs(vectors[:, np.argmax(values.real)].real)
        pi /= pi.sum()
        below += (values.real < -0.5).any()
        roots = _Roots(arguments @ arguments + arguments)
        chosen = roots.near(arguments * pi + (arguments * pi).T, pi)
        np.testing.assert_allclose(roots.matrix(chosen), arguments, atol=1e-8)
    assert below >= 2


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("lengths", [[3], [4, 5]])
def test_either_product_alone_gives_the_parameters_back(
    symmetric: bool, lengths: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The columns of `A` come from `Psi_1` and `Psi_tau`, and from the symmetric `Phi_1` and `Phi_tau`."""
    model, truth = make_model("pcfg-ie", 6, 3), well_conditioned()

    def one_of_them(x: np.ndarray, y: np.ndarray, rank: int) -> np.ndarray | None:
        return decompose(x, y, rank) if np.array_equal(x, x.T) == symmetric else None

    monkeypatch.setattr("sapwood.identifiability.unmixing.constituency.decompose", one_of_them)
    monkeypatch.setattr(
        "sapwood.identifiability.unmixing.constituency.diagonalise",
        lambda matrices: np.full(matrices.shape[1:], np.nan),
    )
    assert distance(solved(model, Population(model, truth, lengths), refine=False), truth) < PRECISE


def test_all_slices_together_give_the_parameters_back(monkeypatch: pytest.MonkeyPatch) -> None:
    model, truth = make_model("pcfg-ie", 6, 3), well_conditioned()
    monkeypatch.setattr("sapwood.identifiability.unmixing.constituency.decompose", lambda *_: None)
    assert distance(solved(model, Population(model, truth, [3]), refine=False), truth) < PRECISE


@pytest.mark.parametrize("lengths", [[4, 5], [5, 6, 7], [4, 5, 6, 7]])
def test_without_a_sentence_of_length_three(lengths: list[int]) -> None:
    """`A diag(pi) (T^3)^T diag(A^T eta) A^T` is in the row space for lengths 4 and 5, and `T^5` for 5, 6 and 7."""
    model, truth = (
        make_model("pcfg-ie", 4, 2),
        {
            "pi": np.array([0.7, 0.3]),
            "T": np.array([[0.8, 0.1], [0.2, 0.9]]),
            "O": np.array([[0.6, 0.1], [0.2, 0.1], [0.1, 0.3], [0.1, 0.5]]),
        },
    )
    found = solved(model, Population(model, truth, lengths), refine=False)
    order = np.argsort(found["pi"])[::-1]
    emitted = (found["O"] @ found["T"])[:, order]
    assert abs(emitted - truth["O"] @ truth["T"]).max() < 1e-9
    assert distance(found, truth) < PRECISE


def test_starts_of_em_are_found_from_short_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise SapwoodError("no")

    monkeypatch.setattr("sapwood.induction.learners.unmix", refuse)
    text = make_text([["a", "b", "a", "b", "a", "b"][:length] for length in (2, 3, 4, 5, 6)], classes=0)
    problem = ArgumentsProblem(text, (6,), LOCAL, estimate="smoothed", prior=0.1)
    with pytest.raises(UsageError, match="from the 3 sentences of up to 4 words: no;"):
        _unmixed_counts("dep-i", problem, 0, Silent())


def test_starts_of_em_have_no_negative_counts() -> None:
    """Parameters that were found from few sentences can be a little below zero."""
    found = _counts("root", (3,), {"pi": np.array([-0.1, 0.6, 0.5])}, 22)
    np.testing.assert_allclose(found, [0, 12, 10])
    pair = {"Al": np.array([[0.5, 1.5], [0.5, -0.5]]), "Ar": np.eye(2)}
    np.testing.assert_allclose(
        _counts("attach", (2, 2, 2), pair, 90), 20 * np.array([[[0.5, 0.5], [1.5, 0]], [[1, 0], [0, 1]]])
    )


def test_the_base_algorithm_from_few_sentences() -> None:
    """Candidates are chosen by all moments: with the paper's product alone the mean error of these is 0.17."""
    model, truth = make_model("pcfg-ie", 6, 3), well_conditioned()
    sources = [Sentences(model.sample(truth, 3, 5_000, np.random.default_rng(seed)).words, 6) for seed in range(12)]
    with warnings.catch_warnings():  # it does not fit well
        warnings.simplefilter("ignore", UncertainAnswer)
        start = [solved(model, source, tries=6, refine=False) for source in sources]
    fitted = [solved(model, source, tries=6) for source in sources]
    errors = [np.mean([distance(each, truth) for each in group]) for group in (start, fitted)]
    assert errors[0] < 0.13
    assert errors[1] < 0.1


class TestFits:
    """What the fit adds to the base algorithm, and does where there is none."""

    def test_it_is_near_the_best_that_can_be(self) -> None:
        """Errors are of the size of their standard errors."""
        model, truth = make_model("pcfg-ie", 6, 3), well_conditioned()
        found = unmix(model, Sentences(model.sample(truth, 3, 100_000, np.random.default_rng(0)).words, 6))
        assert found.evidence is not None
        order = min(
            permutations(range(3)), key=lambda order: abs(found.parameters["pi"][list(order)] - truth["pi"]).max()
        )
        error = found.parameters["O"][:, list(order)] - truth["O"]
        pulls = error / found.evidence.standard_errors["O"][:, list(order)]
        assert np.sqrt(np.mean(pulls**2)) < 2
        assert found.evidence.largest_error < 0.05

    @pytest.mark.parametrize(
        ("name", "words", "states", "lengths"),
        [("pcfg-i", 4, 2, [3]), ("dep-i", 3, None, [3]), ("dep-ie", 4, None, [2, 3])],
    )
    def test_models_without_a_base_algorithm(
        self, name: str, words: int, states: int | None, lengths: list[int]
    ) -> None:
        model = make_model(name, words, states)
        truth = model.random(np.random.default_rng(0))
        found = unmix(model, Population(model, truth, lengths))
        assert found.base == "search"
        assert found.start is None
        at = Tables(model, Population(model, truth, lengths), lengths)
        np.testing.assert_allclose(at.predicted(found.parameters), at.measured, atol=1e-10)

    def test_fewer_words_than_states(self) -> None:
        model = make_model("pcfg-ie", 2, 3)
        assert unmix(model, Population(model, model.random(np.random.default_rng(0)), [5])).base == "search"

    def test_what_does_not_fit_is_tried_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """From a bad start this ends in a local maximum; the misfit says so, and random starts are drawn again."""
        model, truth = make_model("pcfg-ie", 6, 3), well_conditioned(0.7)
        source = Sentences(model.sample(truth, 3, 50_000, np.random.default_rng(0)).words, 6)
        rounds: list[int] = []
        from sapwood.identifiability.unmixing import unmix as unmixing

        race = unmixing._race

        def first_round_fails(tables: Tables, starts: Any, report: Any) -> Any:
            rounds.append(len(starts))
            even = {block.name: np.full(block.shape, 1 / block.outcomes) for block in model.blocks}
            return race(tables, [even] if len(rounds) == 1 else starts, report)

        monkeypatch.setattr(unmixing, "_race", first_round_fails)
        found = unmix(model, source)
        assert rounds[:2] == [8, 5]
        assert found.evidence is not None
        assert found.evidence.fits
