"""Start-up of the command: what is not needed is not imported."""

from __future__ import annotations

import importlib
import subprocess
import sys

import click
import pytest

from sapwood.cli import main

# Packages whose import takes 50 ms or more, and ours that need them.
HEAVY = (
    *("dask", "datasets", "distributed", "matplotlib", "nltk", "numba", "pandas", "pyarrow", "spacy"),
    *("ssl", "urllib.request", "uvicorn", "asyncio", "backports.zstd", "huggingface_hub"),
    *("scipy.linalg", "scipy.optimize", "scipy.sparse.linalg", "scipy.spatial", "scipy.special", "scipy.stats"),
    *("sapwood.automata", "sapwood.induction", "sapwood.interop", "sapwood.learn", "sapwood.lm", "sapwood.pipeline"),
    *("sapwood.plots", "sapwood.web", "sapwood.inference.estep"),
)


def imported(*arguments: str) -> set[str]:
    """Return the modules that a command imports."""
    command = [sys.executable, "-X", "importtime", "-m", "sapwood", *arguments]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}


def among(modules: set[str], packages: tuple[str, ...]) -> list[str]:
    return sorted(name for name in modules if any(f"{name}.".startswith(f"{package}.") for package in packages))


@pytest.mark.parametrize("arguments", [("--help",), ("--version",)])
def test_help_imports_neither_numpy_nor_commands(arguments: tuple[str, ...]) -> None:
    found = imported(*arguments)
    assert "sapwood.cli.main" in found
    assert among(found, (*HEAVY, "numpy", "scipy", "sapwood.kernels", "sapwood.cli.options", "sapwood.cli.parse")) == []


def test_parsing_a_sentence_imports_nothing_heavy() -> None:
    found = imported("parse", "-s", "The museum has closed.")
    assert {"numpy", "sapwood.inference.parser"} <= found
    assert among(found, HEAVY) == []


@pytest.mark.parametrize("name", main._COMMANDS)
def test_the_line_of_a_command_is_its_short_help(name: str) -> None:
    module, summary = main._COMMANDS[name]
    command = importlib.import_module(module).command
    assert isinstance(command, click.Command)
    assert summary == command.get_short_help_str(limit=200)
    assert len(summary) <= 60
    assert not command.hidden
