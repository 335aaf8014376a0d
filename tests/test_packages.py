"""`import sapwood` is quick, and everything is there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import sapwood

PACKAGES = sorted(
    path.parent.name
    for path in Path(sapwood.__file__).parent.glob("*/__init__.py")
    if path.parent.name not in ("cli", "testing", "research", "runtime", "storage", "kernels")
)


def test_packages_are_there_without_being_imported_by_name():
    script = "import sapwood, sys\nassert 'numpy' not in sys.modules\n" + "".join(
        f"assert sapwood.{package}.__name__ == 'sapwood.{package}'\n" for package in PACKAGES
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
    assert set(PACKAGES) <= set(dir(sapwood))


def test_other_names_are_not():
    with pytest.raises(AttributeError, match="no attribute 'lmm'"):
        sapwood.lmm  # noqa: B018
