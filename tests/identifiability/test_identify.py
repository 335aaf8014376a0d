"""`check_identifiability`: models, functions of one's own, and what it says."""

from __future__ import annotations

import json

import numpy as np
import pytest

from sapwood.errors import UsageError
from sapwood.identifiability import (
    MODELS,
    MOMENTS,
    Block,
    FunctionMoments,
    JacobianMoments,
    ModelMoments,
    check_identifiability,
    make_model,
)
from sapwood.identifiability.algebra.autodiff import Tensor, concatenate
from sapwood.identifiability.algebra.fields import PRIMES, PrimeField, Reals
from sapwood.identifiability.algebra.simplices import random_parameters, random_point, to_tensors
from sapwood.identifiability.identify import exact_rank
from sapwood.identifiability.moment_maps import rows_of


def small(name: str, words: int = 3, states: int = 2):
    return make_model(name, words, None if name.startswith("dep") else states)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("moments", MOMENTS)
def test_both_ways_to_the_rank_agree(name: str, moments: str) -> None:
    for length in (3, 4):
        found = check_identifiability(small(name), moments, length, eta="random")
        assert found.numerical is not None
        assert found.certificate is not None
        assert found.numerical.rank == found.certificate.rank == found.rank
        assert found.numerical.gap > 100
        assert found.identifiable == (found.deficiency == 0)
        assert len(found.numerical.singular_values) == found.parameters


def test_rank_of_combinations_is_that_of_all_entries_modulo_a_prime() -> None:
    """The Jacobian of every entry, in the prime field, has the rank that the combinations have."""
    from sapwood.identifiability.algebra.autodiff import constant

    field = PrimeField()
    for name in MODELS:
        for moments in MOMENTS:
            model = ModelMoments(small(name), [moments], [3])
            rng = np.random.default_rng(0)
            tensors = to_tensors(model.blocks, random_point(model.blocks, field, rng), field)
            (observation,) = model.observations(field, rng)
            rows = [
                rows_of(model.blocks, tensors, model.model.expectation(tensors, constant(field, weights))[:, 0])
                for weights in observation.entries()
            ]
            assert field.rank(np.concatenate(rows)) == exact_rank(model)


def test_many_parameters_see_one_random_eta() -> None:
    """The Jacobian is computed in parts, all with the same `eta`: else there were more moments than there are."""
    model = make_model("pcfg", 3, 5)  # 134 parameters
    found = check_identifiability(model, "123eta", 4, eta="random")
    assert found.moments == 9
    assert found.numerical is not None
    assert found.rank == found.numerical.rank == 9


def test_too_many_moments_are_combined() -> None:
    model = make_model("dep-ie", 3)
    found = check_identifiability(model, "all", 11)
    assert found.moments == 3**11
    assert found.numerical is not None
    assert found.numerical.rank == found.rank == 8


def test_lengths_and_moments_together() -> None:
    model = make_model("pcfg-i", 3, 3)
    ranks = [check_identifiability(model, "12", length).rank for length in (2, 5, [2, 5])]
    assert ranks[2] > max(ranks[:2])
    assert check_identifiability(model, ["12", "123"], 3).rank == 20


def test_yes_takes_one_prime_and_no_as_many_as_asked_for() -> None:
    yes = check_identifiability(make_model("dep-ie", 3), "12", 3, trials=3).certificate
    no = check_identifiability(make_model("dep-ie", 3), "12", 2, trials=3).certificate
    assert yes is not None
    assert no is not None
    assert (yes.primes, yes.error) == (PRIMES[:1], 0)
    assert no.primes == PRIMES[:3]
    assert no.error == pytest.approx(float(np.prod([6 * 4 / prime for prime in PRIMES[:3]])), rel=1e-9, abs=0)


def test_the_seed_decides() -> None:
    model = make_model("pcfg-ie", 3, 2)
    values = [
        check_identifiability(model, "123", random_state=seed).numerical.singular_values.tolist() for seed in (0, 0, 1)
    ]
    assert values[0] == values[1] != values[2]


def test_what_can_move() -> None:
    """With one word of each sentence, and all others unknown, only mixtures are seen."""
    found = check_identifiability(make_model("dep-ie", 3), "1", 1)
    pi, arguments = found.movements
    assert str(pi) == "pi is determined"
    assert (arguments.dimensions, arguments.alone, arguments.free) == (6, 6, 6)
    assert str(arguments) == "A can move in 6 of 6 dimensions, in all of them by itself"
    assert not pi.moving.any()
    assert arguments.moving.all()
    assert "A can move in 6" in found.describe()


def test_directions_change_nothing() -> None:
    """A small step along a direction that is said to be free changes moments only by its square."""
    from sapwood.identifiability.algebra.simplices import from_chart
    from sapwood.identifiability.moments import exact_moments

    model = make_model("pcfg", 3, 2)
    rng = np.random.default_rng(0)
    parameters = random_parameters(model.blocks, rng, 5.0)
    moments = ModelMoments(model, ["all"], [3])
    rows = np.concatenate(list(moments.jacobian(parameters, rng)))
    _, values, vectors = np.linalg.svd(rows)
    assert values[-2] < 1e-14 < 1e-5 < values[-3]
    chart = model.chart(parameters)
    before = exact_moments(model, parameters, "all", 3)
    for step in (1e-3, 1e-4):
        after = exact_moments(model, from_chart(model.blocks, chart + step * vectors[-1]), "all", 3)
        assert abs(after - before).max() < step**2


def test_to_dict_is_json() -> None:
    found = check_identifiability(make_model("pcfg", 2, 2), "12", 2).to_dict()
    again = json.loads(json.dumps(found, allow_nan=False))
    assert again == found
    assert found["deficiency"] == found["parameters"] - found["rank"]
    assert found["directions"][0]["words"].startswith("pi can move")


class TestFunctions:
    """Three throws of a coin that was drawn from several: identifiable from counts of heads, if there are enough."""

    @staticmethod
    def throws(coins: int, count: int) -> FunctionMoments:
        def moments(p):
            coin, heads = p["coin"].reshape(coins), p["heads"][:, 0]
            power, found = coin, []
            for _ in range(count):
                power = power * heads
                found.append(power.sum(1).reshape(1))
            return concatenate(found, axis=1)

        return FunctionMoments([Block("coin", coins), Block("heads", 2, coins)], moments, degree=count)

    @pytest.mark.parametrize(("coins", "count", "rank"), [(2, 2, 2), (2, 3, 3), (3, 4, 4), (3, 5, 5), (3, 7, 5)])
    def test_written_with_tensors(self, coins: int, count: int, rank: int) -> None:
        found = check_identifiability(self.throws(coins, count))
        assert found.rank == rank
        assert found.identifiable == (count >= 2 * coins - 1)
        assert found.certificate is not None
        assert found.moments is None

    def test_wrong_shapes(self) -> None:
        with pytest.raises(UsageError, match=r"shape \(1, moments\)"):
            check_identifiability(FunctionMoments([Block("p", 2)], lambda p: p["p"]))

    def test_only_derivatives(self) -> None:
        exact = self.throws(2, 3)

        def jacobian(chart: np.ndarray) -> np.ndarray:
            coin, *heads = chart
            first, second = heads
            return np.array(
                [
                    [first**n - second**n, n * coin * first ** (n - 1), n * (1 - coin) * second ** (n - 1)]
                    for n in (1, 2, 3)
                ]
            )

        found = check_identifiability(JacobianMoments(exact.blocks, jacobian), numerical=False)
        assert found.identifiable
        assert found.certificate is None
        assert found.numerical is not None
        parameters = random_parameters(exact.blocks, np.random.default_rng(0))
        ours = np.concatenate(list(exact.jacobian(parameters, np.random.default_rng(0))))
        chart = np.array([parameters["coin"][0], *parameters["heads"][0]])
        np.testing.assert_allclose(ours, jacobian(chart), rtol=1e-12)

    def test_wrong_derivatives(self) -> None:
        with pytest.raises(UsageError, match=r"\(moments, 1\)"):
            check_identifiability(JacobianMoments([Block("p", 2)], lambda _: np.ones((2, 2))))

    def test_division_by_zero_everywhere(self) -> None:
        def moments(p):
            return (p["p"] - p["p"]).reshape(2).reciprocal()

        with pytest.raises(UsageError, match="divide by zero"):
            check_identifiability(FunctionMoments([Block("p", 2)], moments))

    def test_rational_functions(self) -> None:
        """Odds determine a probability; a constant determines nothing."""

        def odds(p):
            return p["p"][:, :1, 0] * p["p"][:, 1:, 0].reciprocal()

        def constant_(p: dict[str, Tensor]) -> Tensor:
            return p["p"].sum(1)

        assert check_identifiability(FunctionMoments([Block("p", 2)], odds)).identifiable
        assert check_identifiability(FunctionMoments([Block("p", 2)], constant_)).rank == 0


class TestBadArguments:
    def test_everything(self) -> None:
        model = make_model("dep-ie", 3)
        for arguments, message in [
            ({"moments": "13"}, "named 1, 12"),
            ({"moments": "123", "length": 2}, "have fewer"),
            ({"length": []}, "at least one kind"),
            ({"eta": 4, "moments": "123eta"}, "numbered from 1 to 3"),
            ({"trials": 0}, "at least 1"),
        ]:
            with pytest.raises(UsageError, match=message):
                check_identifiability(model, **arguments)


def test_one_word_has_nothing_to_find() -> None:
    found = check_identifiability(make_model("dep-ies", 1), "1", 1)
    assert (found.identifiable, found.rank, found.parameters) == (True, 0, 0)


def test_reals_have_no_reduction() -> None:
    value = np.array([1e300])
    assert Reals().reduce(value) is value


def test_the_bound_on_the_error_holds_and_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a small field "no" is often wrong, but not more often than the certificate says."""
    monkeypatch.setattr("sapwood.identifiability.identify.PRIMES", (101,))
    model, wrong = TestFunctions.throws(2, 3), []
    for seed in range(300):
        found = check_identifiability(model, random_state=seed, numerical=False)
        assert found.certificate is not None
        if not found.identifiable:
            wrong.append(found)
    assert len(wrong) >= 3
    for found in wrong:
        assert found.certificate.error == pytest.approx((found.rank + 1) * 4 / 101, rel=1e-12, abs=0)
        assert len(wrong) / 300 <= found.certificate.error
        assert f"wrong with a probability of at most {found.certificate.error:.0e}" in found.describe()
        assert found.to_dict()["certificate"]["error"] == found.certificate.error


@pytest.mark.parametrize(("values", "rank", "gap"), [((2, 1e-3, 1e-15), 2, 1e12), ((2, 1e-3), 2, 1e-3 / 2**-51)])
def test_the_gap_between_singular_values(values: tuple[float, ...], rank: int, gap: float) -> None:
    """To the largest that does not count; if there is none, to the precision of the largest of all."""
    rows = np.concatenate([np.diag(values), np.zeros((40, len(values)))])
    blocks = [Block(f"p{number}", 2) for number in range(len(values))]
    found = check_identifiability(JacobianMoments(blocks, lambda _: rows)).numerical
    assert found is not None
    assert found.rank == rank
    assert found.gap == pytest.approx(gap, rel=1e-6)
