"""What is published is checked, and the check finds what is wrong."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

import check_release

VERSION = check_release.version()
WHEEL = (
    "sapwood/__init__.py",
    "sapwood/py.typed",
    "sapwood/model/english.sapwood",
    "sapwood/kernels/_processor.abi3.so",
    "sapwood/kernels/_plain.abi3.so",
    "sapwood/kernels/_avx2.abi3.so",
    f"sapwood-{VERSION}.dist-info/licenses/LICENSE",
    f"sapwood-{VERSION}.dist-info/licenses/src/sapwood/model/ATTRIBUTION.md",
    f"sapwood-{VERSION}.dist-info/entry_points.txt",
)
SDIST = (
    "pyproject.toml",
    "CMakeLists.txt",
    "LICENSE",
    "README.md",
    "PKG-INFO",
    "src/native/a.cpp",
    "src/sapwood/model/english.sapwood",
    "tests/conftest.py",
    "tests/data/train.mrg",
    "docs/index.md",
    "tools/check_release.py",
)


def publish(
    folder: Path, wheel: tuple[str, ...] = WHEEL, sdist: tuple[str, ...] = SDIST, tags: str = "cp312-abi3-linux_x86_64"
) -> None:
    with zipfile.ZipFile(folder / f"sapwood-{VERSION}-{tags}.whl", "w") as archive:
        for name in wheel:
            archive.writestr(name, "")
    with tarfile.open(folder / f"sapwood-{VERSION}.tar.gz", "w:gz") as archive:
        for name in sdist:
            archive.addfile(tarfile.TarInfo(f"sapwood-{VERSION}/{name}"), io.BytesIO())


def test_what_is_right(tmp_path):
    publish(tmp_path)
    assert check_release.check(tmp_path) == []


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"wheel": WHEEL[:-1]}, r"nothing like sapwood-[^/]+\.dist-info/entry_points"),
        ({"wheel": (*WHEEL, "tests/test_x.py")}, "tests/test_x.py should not be in it"),
        ({"wheel": (*WHEEL, "sapwood/wsj.mrg")}, "sapwood/wsj.mrg should not be in it"),
        ({"wheel": (*WHEEL, "sapwood/__pycache__/a.pyc")}, "should not be in it"),
        ({"wheel": tuple(name for name in WHEEL if "_plain" not in name)}, r"nothing like sapwood/kernels/_plain"),
        ({"wheel": tuple(name for name in WHEEL if "_avx2" not in name)}, r"nothing like sapwood/kernels/_avx2"),
        ({"sdist": SDIST[1:]}, r"nothing like pyproject\.toml"),
        ({"sdist": (*SDIST, "src/sapwood/kernels/_plain.abi3.so")}, "_plain.abi3.so should not be in it"),
        ({"sdist": (*SDIST, "data/train.mrg.gz")}, "data/train.mrg.gz should not be in it"),
        ({"tags": "py3-none-any"}, "not the name of a wheel of ours"),
        ({"tags": "cp311-abi3-linux_x86_64"}, "a stable interface of cp311"),
    ],
)
def test_what_is_wrong(tmp_path, changed, problem):
    publish(tmp_path, **changed)
    (found,) = check_release.check(tmp_path)
    assert problem in found


def test_versions_and_numbers_of_files(tmp_path):
    assert check_release.check(tmp_path) == [
        f"{tmp_path}: no wheel",
        f"{tmp_path}: 0 source distributions; there should be one",
    ]
    publish(tmp_path)
    (tmp_path / f"sapwood-{VERSION}.tar.gz").rename(tmp_path / "sapwood-9.9.tar.gz")
    assert check_release.check(tmp_path) == [f"sapwood-9.9.tar.gz: the source has version {VERSION}"]
