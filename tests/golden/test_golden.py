"""Behaviour as recorded: weights, parses and outputs have the digests in `digests.json` (`record.py` writes them).

Numbers depend, by rounding, on the processor, the compiler and the libraries; where these are others than those
recorded, the tests are skipped.
"""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
import scipy.io

from golden import recipes, values
from golden.record import RECORDED

_CONTENT = json.loads(RECORDED.read_text())
_OTHER = sorted(
    name
    for name, value in (_CONTENT["environment"] | recipes.environment()).items()
    if value != _CONTENT["environment"].get(name)
)
same_rounding = pytest.mark.skipif(bool(_OTHER), reason=f"recorded with other {', '.join(_OTHER)}")


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> recipes.Bench:
    return recipes.Bench(tmp_path_factory.mktemp("golden"))


@same_rounding
@pytest.mark.parametrize("name", recipes.ENTRIES)
def test_as_recorded(bench: recipes.Bench, name: str) -> None:
    found = values.digest(recipes.value(name, bench))
    assert found == _CONTENT["digests"][name], f"`python tests/golden/record.py --show '{name}'` shows what it is now"


def test_every_entry_is_recorded() -> None:
    assert set(_CONTENT["digests"]) == set(recipes.ENTRIES)


def test_other_users_of_threads_are_not_blas() -> None:
    scipy.io.mmwrite(io.BytesIO(), np.eye(1))
    assert "None" not in recipes.environment()["blas"]
