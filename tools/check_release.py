"""Check what is about to be published: `python tools/check_release.py DIRECTORY`.

A wheel has the compiled kernels, the included model with its attribution, the types and the licence, and nothing of
tests, treebanks or the machine that built it. An sdist has all that is needed to build and test, and nothing that was
built. Both have the version of the source.
"""

from __future__ import annotations

import re
import sys
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
LARGEST = 25_000_000

NEEDED_IN_WHEEL = (
    r"sapwood/__init__\.py",
    r"sapwood/py\.typed",
    r"sapwood/model/english\.sapwood",
    r"sapwood/kernels/_processor\.[^/]*(so|pyd)",
    r"sapwood/kernels/_plain\.[^/]*(so|pyd)",
    r"sapwood-[^/]+\.dist-info/licenses/LICENSE",
    r"sapwood-[^/]+\.dist-info/licenses/src/sapwood/model/ATTRIBUTION\.md",
    r"sapwood-[^/]+\.dist-info/entry_points\.txt",
)
NEEDED_FOR_X86_64 = r"sapwood/kernels/_avx2\.[^/]*(so|pyd)"
# All that a wheel may hold: the package and its metadata.
ALLOWED_IN_WHEEL = r"sapwood(-[^/]+\.dist-info)?/.*"
NEEDED_IN_SDIST = (
    r"pyproject\.toml",
    r"CMakeLists\.txt",
    r"LICENSE",
    r"README\.md",
    r"PKG-INFO",
    r"src/native/.+\.cpp",
    r"src/sapwood/model/english\.sapwood",
    r"tests/conftest\.py",
    r"tests/data/train\.mrg",
    r"docs/index\.md",
    r"tools/check_release\.py",
)
FORBIDDEN = (
    r".*__pycache__.*",
    r".*\.py[co]",
    r"(?!tests/data/).*\.mrg(\.gz)?",
    r"(build|dist|\.venv|\.git)/.*",
    r"docs/reference/.*",
    r".*\.checkpoint",
    r".*/?\.env",
)
FORBIDDEN_IN_SDIST = (*FORBIDDEN, r".*\.(so|pyd)", r".*\.whl")


def version() -> str:
    """Return the version of the source."""
    text = (REPOSITORY / "src" / "sapwood" / "_version.py").read_text(encoding="utf-8")
    found = re.search(r'__version__ = "(.+)"', text)
    assert found is not None
    return found[1]


def problems_of(
    names: Iterable[str], needed: Iterable[str], forbidden: Iterable[str], allowed: str = ".*"
) -> list[str]:
    """Return what is missing and what should not be there, in words."""
    every = list(names)
    found = [f"nothing like {pattern}" for pattern in needed if not any(re.fullmatch(pattern, name) for name in every)]
    for name in every:
        if any(re.fullmatch(pattern, name) for pattern in forbidden) or not re.fullmatch(allowed, name):
            found.append(f"{name} should not be in it")
    return found


def check_wheel(path: Path) -> list[str]:
    """Return what is wrong with a wheel."""
    tags = re.fullmatch(r"sapwood-([^-]+)-(cp\d+)-(abi3|cp\d+)-([^-]+)\.whl", path.name)
    if tags is None:
        return [f"{path.name}: not the name of a wheel of ours; is there compiled code in it?"]
    found = [] if tags[1] == version() else [f"version {tags[1]}; the source has {version()}"]
    if tags[3] == "abi3" and tags[2] != "cp312":
        found.append(f"a stable interface of {tags[2]}; it begins with cp312")
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
        if (damaged := archive.testzip()) is not None:
            found.append(f"{damaged} is damaged")
    needed = [*NEEDED_IN_WHEEL, NEEDED_FOR_X86_64] if re.search("x86_64|amd64", tags[4]) else NEEDED_IN_WHEEL
    found += problems_of(names, needed, FORBIDDEN, ALLOWED_IN_WHEEL)
    return [f"{path.name}: {problem}" for problem in found]


def check_sdist(path: Path) -> list[str]:
    """Return what is wrong with a source distribution."""
    top = f"sapwood-{version()}"
    if path.name != f"{top}.tar.gz":
        return [f"{path.name}: the source has version {version()}"]
    with tarfile.open(path) as archive:
        members = [member for member in archive.getmembers() if not member.isdir()]
    found = [f"{member.name} is not a regular file" for member in members if not member.isfile()]
    found += [f"{member.name} is outside of {top}" for member in members if not member.name.startswith(f"{top}/")]
    names = [member.name.removeprefix(f"{top}/") for member in members]
    return [f"{path.name}: {problem}" for problem in found + problems_of(names, NEEDED_IN_SDIST, FORBIDDEN_IN_SDIST)]


def check(folder: Path) -> list[str]:
    """Return what is wrong with all that is to be published."""
    wheels, sdists = sorted(folder.glob("sapwood-*.whl")), sorted(folder.glob("sapwood-*.tar.gz"))
    found = [] if wheels else [f"{folder}: no wheel"]
    if len(sdists) != 1:
        found.append(f"{folder}: {len(sdists)} source distributions; there should be one")
    for path in (*wheels, *sdists):
        if path.stat().st_size > LARGEST:
            found.append(f"{path.name}: {path.stat().st_size:,} bytes; at most {LARGEST:,}")
        found += check_wheel(path) if path.suffix == ".whl" else check_sdist(path)
    return found


if __name__ == "__main__":
    problems = check(Path(sys.argv[1]))
    print("\n".join(problems) or "contents: as they should be")
    sys.exit(bool(problems))
