"""Behaviour as recorded: weights, parses and outputs have the digests in `digests.json` (`record.py` writes them).

Rounding depends on the processor, the compiler and the libraries, so each environment has a record of its own. Where
none matches, and for entries that its record lacks, the tests are skipped.
"""

from __future__ import annotations

import io

import numpy as np
import pytest
import scipy.io

from golden import recipes
from golden.record import Record, closest, matching, read, updated
from golden.values import digest

_RECORDS = read()
_HERE = matching(_RECORDS, recipes.environment())
_NOT_HERE = f"recorded with other {', '.join(closest(_RECORDS, recipes.environment()))}"


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> recipes.Bench:
    return recipes.Bench(tmp_path_factory.mktemp("golden"))


@pytest.mark.skipif(_HERE is None, reason=_NOT_HERE)
@pytest.mark.parametrize("name", recipes.ENTRIES)
def test_as_recorded(bench: recipes.Bench, name: str) -> None:
    assert _HERE is not None
    if name not in _HERE["digests"]:
        pytest.skip("not recorded in this environment: `python tests/golden/record.py --missing`")
    found = digest(recipes.value(name, bench))
    assert found == _HERE["digests"][name], f"`python tests/golden/record.py --show '{name}'` shows what it is now"


def test_every_entry_is_recorded_in_some_environment() -> None:
    recorded = [set(record["digests"]) for record in _RECORDS]
    assert set().union(*recorded) == set(recipes.ENTRIES)


def test_each_environment_has_one_record() -> None:
    environments = [sorted(record["environment"].items()) for record in _RECORDS]
    assert all(environments.count(one) == 1 for one in environments)


def _record(blas: str, **digests: str) -> Record:
    return {"digests": digests, "environment": {"blas": blas, "kernels": "avx2"}}


def test_another_environment_gets_a_record_of_its_own() -> None:
    records = [_record("a", x="1", y="2")]
    found = updated(records, {"blas": "b", "kernels": "avx2"}, {"x": "3", "z": "4"}, ["x", "y", "z"])
    assert found == [_record("a", x="1", y="2"), _record("b", x="3", z="4")]


def test_a_changed_digest_is_removed_from_other_environments() -> None:
    records = [_record("a", x="1", y="2"), _record("b", x="3", y="4", z="5")]
    found = updated(records, records[1]["environment"], {"x": "6", "y": "4"}, ["x", "y", "z"])
    assert found == [_record("a", y="2"), _record("b", x="6", y="4", z="5")]


def test_an_entry_that_is_gone_is_removed_everywhere() -> None:
    records = [_record("a", x="1", y="2"), _record("b", x="3", y="4")]
    assert updated(records, records[0]["environment"], {}, ["y"]) == [_record("a", y="2"), _record("b", y="4")]


def test_the_record_of_the_same_environment_is_chosen() -> None:
    records = [_record("a", x="1"), _record("b", x="2")]
    assert matching(records, {"kernels": "avx2", "blas": "b"}) is records[1]
    assert matching(records, {"kernels": "avx2", "blas": "b", "numpy": "3"}) is None
    assert matching(records, {"kernels": "plain", "blas": "b"}) is None
    assert closest(records, {"kernels": "plain", "blas": "b"}) == ["kernels"]


def test_other_users_of_threads_are_not_blas() -> None:
    scipy.io.mmwrite(io.BytesIO(), np.eye(1))
    assert "None" not in recipes.environment()["blas"]
