"""The commands of the README are those that `.ci/run` runs, and each does all that it needs."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]


def lines_of(name: str) -> list[str]:
    return (REPOSITORY / name).read_text(encoding="utf-8").splitlines()


def test_the_readme_installs_and_parses_in_one_line() -> None:
    (command,) = (line for line in lines_of("README.md") if re.match(r"pip install \. && ", line))
    sentence = command.removeprefix("pip install . && sapwood parse -s ")
    # The README shows what it prints.
    assert f"$ sapwood parse -s {sentence}" in lines_of("README.md")


def test_the_readme_installs_and_tests_in_one_line_and_so_do_the_checks() -> None:
    (command,) = (line for line in lines_of("README.md") if line.endswith("python -m pytest"))
    assert command == 'pip install -e ".[dev]" && python -m pytest'
    assert f"{command} || exit" in lines_of(".ci/run")


def test_the_checks_run_what_the_default_run_leaves_out() -> None:
    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"][
        "ini_options"
    ]
    assert "-m 'not slow'" in settings["addopts"]
    thorough = 'python -m pytest -m "slow or hypothesis" --hypothesis-profile thorough'
    assert f"slow() {{ installed && {thorough}; }}" in lines_of(".ci/nightly")
