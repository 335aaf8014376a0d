"""The variant of the kernels that is loaded: the best one that was built and that the processor runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sapwood import kernels
from sapwood.kernels import _processor

# The flags of x86-64-v3 as Linux names them (`abm` is LZCNT, `pni` is SSE3).
FLAGS = {
    *("cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"),
    *("abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"),
}


def choose(monkeypatch: pytest.MonkeyPatch, built: set[str], *, runs_avx2: bool, wanted: str | None = None) -> str:
    monkeypatch.setattr(kernels, "_is_built", lambda name: name in {*built, "processor"})
    monkeypatch.setattr(_processor, "has_x86_64_v3", lambda: runs_avx2)
    return kernels._choose(wanted)


@pytest.mark.parametrize(
    ("built", "runs_avx2", "wanted", "expected"),
    [
        ({"plain", "avx2"}, True, None, "avx2"),
        ({"plain", "avx2"}, False, None, "plain"),
        ({"plain", "avx2"}, True, "plain", "plain"),
        ({"plain"}, True, None, "plain"),
        ({"avx2"}, True, None, "avx2"),
        ({"avx2", "checked"}, True, None, "avx2"),
        ({"avx2", "checked"}, False, "checked", "checked"),
    ],
)
def test_the_best_variant_that_runs_is_loaded(
    monkeypatch: pytest.MonkeyPatch, built: set[str], runs_avx2: bool, wanted: str | None, expected: str
) -> None:
    assert choose(monkeypatch, built, runs_avx2=runs_avx2, wanted=wanted) == expected


@pytest.mark.parametrize("wanted", [None, "avx2"])
def test_a_processor_without_avx2_is_told_how_to_install(monkeypatch: pytest.MonkeyPatch, wanted: str | None) -> None:
    with pytest.raises(ImportError, match=r"x86-64-v3.*SAPWOOD_VARIANTS=all"):
        choose(monkeypatch, {"avx2"}, runs_avx2=False, wanted=wanted)


def test_a_variant_that_was_not_built_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ImportError, match=r"SAPWOOD_KERNELS=plain, but .* are avx2: .*SAPWOOD_VARIANTS=all"):
        choose(monkeypatch, {"avx2"}, runs_avx2=True, wanted="plain")


def test_the_source_alone_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ImportError, match="install the package"):
        choose(monkeypatch, set(), runs_avx2=True)


def test_the_environment_variable_is_read() -> None:
    environment = os.environ | {"SAPWOOD_KERNELS": "nonsense"}
    found = subprocess.run(
        [sys.executable, "-c", "import sapwood.kernels"], env=environment, capture_output=True, encoding="utf-8"
    )
    assert found.returncode != 0
    assert "SAPWOOD_KERNELS=nonsense" in found.stderr


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="the processor's flags are known on Linux only")
def test_the_processor_has_what_the_kernel_reports() -> None:
    found = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    flags = set(found[1].split()) if found else set()
    assert _processor.has_x86_64_v3() == (flags >= FLAGS)
