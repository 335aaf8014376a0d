"""Print exact versions of all that sapwood and its extras need, as installed here.

python tools/constraints.py > constraints.txt
"""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

REPOSITORY = Path(__file__).resolve().parents[1]
# Extras for those who work on sapwood, not for those who use it.
INNER = ("dev", "docs")
# What environments bring along and keep up to date themselves.
LEFT_OUT = ("pip", "setuptools")
HEAD = """\
# Versions of everything that sapwood and its extras need, which passed the tests together:
#     pip install -c constraints.txt '.[web]'
# Made by tools/constraints.py, with Python {version}. Newer versions are allowed by pyproject.toml, and mostly work.
"""


def normal(name: str) -> str:
    """Return the name of a package as indices spell it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def wanted() -> list[Requirement]:
    """Return what sapwood and its extras ask for."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [one for name, ones in project["optional-dependencies"].items() if name not in INNER for one in ones]
    return [Requirement(one) for one in (*project["dependencies"], *extras)]


def versions() -> dict[str, str]:
    """Return the versions of what they ask for, and what that asks for, as installed."""
    found: dict[str, str] = {}
    waiting = [(requirement, frozenset({""})) for requirement in wanted()]
    while waiting:
        requirement, extras = waiting.pop()
        if requirement.marker is not None and not any(requirement.marker.evaluate({"extra": name}) for name in extras):
            continue
        name = normal(requirement.name)
        if name in LEFT_OUT or (name in found and not requirement.extras):
            continue
        try:
            installed = distribution(name)
        except PackageNotFoundError:
            sys.exit(f"{name} is not installed; install sapwood with all its extras first")
        found[name] = installed.version
        inner = frozenset({"", *requirement.extras})
        waiting += [(Requirement(text), inner) for text in installed.requires or []]
    return found


if __name__ == "__main__":
    print(HEAD.format(version="{}.{}".format(*sys.version_info)), end="")
    for name, version in sorted(versions().items()):
        print(f"{name}=={version}")
