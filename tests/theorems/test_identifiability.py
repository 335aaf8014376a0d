"""Section 4 of Hsu, Kakade and Liang (2012): which parsing models are locally identifiable, and from what (figure 2).

Where the figure and exact ranks differ, the tests state what is true, and why.
"""

from __future__ import annotations

from itertools import product
from math import comb

import numpy as np
import pytest

from sapwood.identifiability import ModelMoments, exact_moments, make_model
from sapwood.identifiability.algebra.fields import PRIMES, PrimeField
from sapwood.identifiability.algebra.simplices import from_chart, random_point, to_tensors
from sapwood.identifiability.identify import check_identifiability, exact_rank
from sapwood.identifiability.moment_maps import rows_of

CONSTITUENCY = ("pcfg-i", "pcfg-ie")
DEPENDENCY = ("dep-i", "dep-ie", "dep-ies")


def deficiency(name: str, words: int, states: int, moments: str, length: int, eta: int | str = 1) -> int:
    """Return the dimension of the set of parameters with the same moments."""
    model = make_model(name, words, None if name.startswith("dep") else states)
    return model.n_parameters - exact_rank(ModelMoments(model, [moments], [length], eta))


def sizes(name: str, most: int = 4) -> list[tuple[int, int]]:
    if name.startswith("dep"):
        return [(d, 0) for d in range(2, most + 1)]
    return [(d, k) for d in range(2, most + 1) for k in range(2, d + 1)]


def reversible(name: str, words: int) -> bool:
    """Return whether a model is a stationary chain of two words: `A diag(pi)` is symmetric, and L = 2 is enough."""
    return name == "dep-ies" and words == 2


@pytest.mark.parametrize("name", ["pcfg", *CONSTITUENCY, *DEPENDENCY])
def test_pairs_of_first_words(name: str) -> None:
    """phi_12: no for all but dep-ie and dep-ies, and for those iff L >= 3 (or `reversible`)."""
    for (d, k), length in product(sizes(name), (2, 3, 4, 6)):
        yes = (name in ("dep-ie", "dep-ies") and length >= 3) or reversible(name, d)
        assert (deficiency(name, d, k, "12", length) == 0) == yes


@pytest.mark.parametrize("name", [*CONSTITUENCY, *DEPENDENCY])
def test_all_pairs(name: str) -> None:
    """phi_**: yes iff L >= 4 (constituency) or L >= 3 (dependencies)."""
    least = 4 if name in CONSTITUENCY else 3
    for (d, k), length in product(sizes(name), (2, 3, 4, 6)):
        assert (deficiency(name, d, k, "**", length) == 0) == (length >= least or reversible(name, d))


@pytest.mark.parametrize("name", [*CONSTITUENCY, *DEPENDENCY])
@pytest.mark.parametrize("moments", ["123", "***", "all"])
def test_triples(name: str, moments: str) -> None:
    """phi_123, phi_***, phi_all: yes iff L >= 3."""
    for (d, k), length in product(sizes(name), (2, 3, 4, 6)):
        if moments != "123" or length > 2:
            assert (deficiency(name, d, k, moments, length) == 0) == (length >= 3 or reversible(name, d))


@pytest.mark.parametrize("name", DEPENDENCY)
def test_slices_of_dependencies(name: str) -> None:
    """phi_{***e1}: yes iff L >= 3, as in the figure. phi_{123e1}: so for dep-ie and dep-ies only."""
    for (d, k), length in product(sizes(name), (3, 4, 6)):
        assert deficiency(name, d, k, "***eta", length) == 0
        found = deficiency(name, d, k, "123eta", length)
        # dep-i has 2 d^2 - d - 1 parameters, and phi_{123 eta} is d^2 numbers.
        assert found == (d * d - d - 1 if name == "dep-i" else 0)


class TestWhereTheFigureIsWrong:
    def test_two_words_of_a_stationary_model(self) -> None:
        """dep-ies with L = 2 (figure 2: no) is identifiable for d = 2; for more words C(d - 1, 2) dimensions are lost.

        `A diag(pi)` has equal row and column sums, so what can be added to it without changing its symmetric part is a
        flow along circles of words, and there are none through two words only.
        """
        for d in range(2, 7):
            assert deficiency("dep-ies", d, 0, "12", 2) == comb(d - 1, 2)

    @pytest.mark.parametrize("eta", [1, "random"])
    def test_one_slice_is_never_enough_for_hidden_states(self, eta: int | str) -> None:
        """phi_{123 eta} (figure 2: yes iff L >= 3) is no for all d >= k >= 2 and all L.

        It is one matrix `O N O^T`, for some N of size (k, k). For any invertible G whose columns sum to 1, `O G` and
        `G^-1 N G^-T` make the same matrix, so it has at most `(d - 1) k + k^2 - k (k - 1) = d k` dimensions (exactly
        that, and for phi_12, whose sum is 1, one less). But pcfg-ie has `d k + k^2 - k - 1` parameters.
        """
        for (d, k), length in product(sizes("pcfg"), (3, 4, 6)):
            for name, more in (("pcfg-ie", 0), ("pcfg-i", k * (k - 1)), ("pcfg", k * (k * k - 1) - k * (k - 1))):
                assert deficiency(name, d, k, "123eta", length, eta) == k * k - k - 1 + more

    @pytest.mark.parametrize("length", [3, 4, 5])
    def test_slices_of_all_triples(self, length: int) -> None:
        """phi_{***e1} (figure 2: yes iff L >= 3) is no for L = 3 and k >= 3; yes for k = 2, and for L >= 4."""
        for d, k in sizes("pcfg", 5):
            wanted = {"pcfg-i": k - 2, "pcfg-ie": (k - 2) * (k + 1) // 2}
            for name in CONSTITUENCY:
                assert deficiency(name, d, k, "***eta", length) == (wanted[name] if length == 3 else 0)

    @pytest.mark.parametrize("k", [2, 3, 5])
    def test_why_three_slices_are_too_few(self, k: int) -> None:
        """The proof of the last one, which `benchmarks/figure2.py` counts by (`three_slices`).

        With L = 3, all of phi_{***e1} is sums of elements of three matrices: of two words each, the third being e_1.
        They are `O X O^T`, `O Y O^T` and `O Z O^T`, and share the cells in which two words are e_1: with `b` for that
        word in the basis, `X b = Y b`, `X^T b = Z b`, `Y^T b = Z^T b`. These are 3 k - 1 equations; so
        `k (d - k) + 3 k^2 - (3 k - 1)` dimensions are left, k - 2 fewer than pcfg-i has parameters. Sentences of
        pcfg-ie are as probable backwards, so that X is the transpose of Z and Y is symmetric.
        """
        rng = np.random.default_rng(k)
        d, b = k + 2, rng.random(k)
        unit = np.eye(k)
        ahead, across = np.kron(unit, b), np.kron(b, unit)  # X b and X^T b, of the elements of X in rows
        none = np.zeros((k, k * k))
        shared = np.block([[ahead, -ahead, none], [across, none, -ahead], [none, across, -across]])
        assert np.linalg.matrix_rank(shared) == 3 * k - 1
        left = k * (d - k) + 3 * k * k - (3 * k - 1)
        assert make_model("pcfg-i", d, k).n_parameters - left == k - 2
        left = k * (d - k) + k * k + k * (k + 1) // 2 - k
        assert make_model("pcfg-ie", d, k).n_parameters - left == (k - 2) * (k + 1) // 2
        for name in CONSTITUENCY:
            model = make_model(name, d, k)
            parameters = model.random(rng)
            whole = exact_moments(model, parameters, "all", 3)
            slices = [whole[:, :, 0], whole[:, 0], whole[0]]
            # Columns and rows are in one space of k dimensions.
            assert np.linalg.matrix_rank(np.hstack([*slices, *(each.T for each in slices)]), 1e-12) == k
            assert np.allclose(whole, whole.transpose(2, 1, 0)) == (name == "pcfg-ie")
            # Indices that are the same, and all others, are sums of elements of the slices.
            every = exact_moments(model, parameters, "***eta", 3)
            np.testing.assert_allclose(every[0, 1, 2], slices[0])
            np.testing.assert_allclose(every[0, 1, 0][0], slices[2].sum(1))
            np.testing.assert_allclose(np.diag(every[0, 0, 1]), slices[1].sum(1))

    def test_slices_along_any_other_vector(self) -> None:
        """With an eta without zeros, phi_{***eta} has phi_** in it (where two indices are the same): yes iff L >= 3."""
        for (d, k), name in product(sizes("pcfg"), CONSTITUENCY):
            assert deficiency(name, d, k, "***eta", 3, "random") == 0
            assert deficiency(name, d, k, "***eta", 2, "random") > 0


@pytest.mark.parametrize(("words", "states"), [(3, 3), (4, 3), (5, 4)])
@pytest.mark.parametrize("name", ["pcfg-i", "pcfg-ie"])
def test_slices_as_section_5_2_uses_them(name: str, words: int, states: int) -> None:
    """With pairs, and slices in all orders, the figure is right about three words, where slices alone are too few."""
    model = make_model(name, words, states)
    assert check_identifiability(model, ["**", "***eta"], 3, numerical=False).identifiable
    assert not check_identifiability(model, "***eta", 3, numerical=False).identifiable
    assert not check_identifiability(model, "**", 3, numerical=False).identifiable


class TestPCFGs:
    @pytest.mark.parametrize("length", [3, 4, 5, 8])
    def test_not_from_whole_sentences(self, length: int) -> None:
        """Not even from phi_all (figure 2); the set of equivalent parameters has dimension k (k - 1)."""
        for d, k in sizes("pcfg"):
            assert deficiency("pcfg", d, k, "all", length) == k * (k - 1)

    @pytest.mark.parametrize(("words", "states"), [(4, 3), (2, 3), (3, 2)])
    def test_why(self, words: int, states: int) -> None:
        """States can be mixed: with `1^T G = 1^T`, `G pi`, `(G (x) G) B G^-1`, `O G^-1` gives the same sentences.

        So no PCFG with positive parameters is identifiable, for any length and any moments. Here: the k (k - 1)
        directions of this group are independent, and the Jacobian of phi_all takes each of them to zero, exactly.
        """
        field, k = PrimeField(), states
        model = make_model("pcfg", words, states)
        moments = ModelMoments(model, ["all"], [5])
        rng = np.random.default_rng(0)
        point = random_point(model.blocks, field, rng)
        tensors = to_tensors(model.blocks, point, field)
        rows = rows_of(model.blocks, tensors, moments.functionals(tensors, rng, model.n_parameters))
        directions = []
        for a, c in product(range(k - 1), range(k)):
            # A matrix whose columns sum to zero: the derivative of G at the identity.
            g = np.zeros((k, k))
            g[a, c], g[k - 1, c] = 1, -1
            pairs = np.kron(g, np.eye(k)) + np.kron(np.eye(k), g)
            moved = {
                "pi": field.matmul(g, point["pi"][:, None])[:, 0],
                "B": field.reduce(field.matmul(pairs, point["B"]) - field.matmul(point["B"], g)),
                "O": -field.matmul(point["O"], g),
            }
            assert not any(field.reduce(array.sum(0, keepdims=True)).any() for array in moved.values())
            directions.append(np.concatenate([moved[block.name][:-1].reshape(-1) for block in model.blocks]))
        columns = np.array(directions).T
        assert field.rank(columns) == k * (k - 1)
        assert not field.matmul(rows, columns).any()

    def test_mixed_states_in_numbers(self) -> None:
        """The same, at a finite distance and in float64."""
        model, rng = make_model("pcfg", 3, 2), np.random.default_rng(0)
        parameters = model.random(rng, concentration=5)
        mix = np.array([[0.95, 0.02], [0.05, 0.98]])
        back = np.linalg.inv(mix)
        other = {
            "pi": mix @ parameters["pi"],
            "B": np.kron(mix, mix) @ parameters["B"] @ back,
            "O": parameters["O"] @ back,
        }
        model.check(other)
        sentences = list(product(range(3), repeat=4))
        np.testing.assert_allclose(
            model.log_likelihood(parameters, sentences), model.log_likelihood(other, sentences), rtol=1e-12
        )
        assert abs(other["O"] - parameters["O"]).max() > 0.005


class TestExamplesInTheText:
    def test_dep_ie_with_two_words(self) -> None:
        """mu = (A diag(pi) + diag(pi) A^T) / 2: the equivalence class has dimension C(d, 2)."""
        for d in range(2, 6):
            assert deficiency("dep-ie", d, 0, "12", 2) == comb(d, 2)

    def test_parameter_counting(self) -> None:
        """pcfg-ie with L = 2 and d >= 2 k: more constraints than parameters, and still not identifiable.

        (The text counts `k^2 + (d - 1) k` parameters; pi, T and O have one less.)
        """
        model = make_model("pcfg-ie", 8, 3)
        assert model.n_parameters == 3**2 + 7 * 3 - 1 < 64
        assert deficiency("pcfg-ie", 8, 3, "12", 2) > 0

    def test_pcfgs_are_not_identifiable_where_states_are_alike(self) -> None:
        """The exceptional set: where all states have the same words, nothing of B can be found."""
        field, model = PrimeField(PRIMES[1]), make_model("pcfg-ie", 3, 2)
        point = random_point(model.blocks, field, np.random.default_rng(0))
        point["O"] = np.repeat(point["O"][:, :1], 2, axis=1)
        tensors = to_tensors(model.blocks, point, field)
        moments = ModelMoments(model, ["all"], [4])
        result = moments.functionals(tensors, np.random.default_rng(1), model.n_parameters)
        assert field.rank(rows_of(model.blocks, tensors, result)) < model.n_parameters == exact_rank(moments)


class TestTheoremOne:
    def test_full_rank_means_alone_nearby(self) -> None:
        """Where the Jacobian has full rank, steps in all directions change the moments by about their length."""
        from sapwood.identifiability import exact_moments

        model, rng = make_model("pcfg-ie", 3, 2), np.random.default_rng(4)
        parameters = model.random(rng, concentration=5)
        moments = ModelMoments(model, ["***"], [3])
        values = np.linalg.svd(np.concatenate(list(moments.jacobian(parameters, rng))), compute_uv=False)
        chart, before = model.chart(parameters), exact_moments(model, parameters, "***", 3)
        for _ in range(50):
            way = rng.normal(size=len(chart))
            way *= 1e-4 / np.linalg.norm(way)
            after = exact_moments(model, from_chart(model.blocks, chart + way), "***", 3)
            assert np.linalg.norm(after - before) > 0.5 * values[-1] * 1e-4

    def test_the_answer_does_not_depend_on_the_point(self) -> None:
        for name, k in (("pcfg-ie", 3), ("dep-i", None)):
            model = make_model(name, 3, k)
            for moments in ("**", "***eta"):
                source = ModelMoments(model, [moments], [3])
                assert len({exact_rank(source, prime, seed) for seed in range(5) for prime in PRIMES[:2]}) == 1


class TestStopping:
    """pcfg-ies, which is not in the paper: pcfg-ie in which states decide whether they become words."""

    def test_given_lengths_one_dimension_is_lost(self) -> None:
        """Whatever L >= 4: whole sentences, of all lengths together, leave one direction free."""
        for d, k in [(2, 2), (3, 2), (4, 3)]:
            for length in (4, 5, 7):
                assert deficiency("pcfg-ies", d, k, "all", length) == 1
        model = make_model("pcfg-ies", 3, 2)
        assert model.n_parameters - exact_rank(ModelMoments(model, ["all"], [2, 3, 4, 5, 6])) == 1
