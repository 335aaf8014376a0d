"""The notebooks run, from an empty namespace and an empty folder. (Building the site runs them in Jupyter, too.)"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).resolve().parents[1] / "docs" / "notebooks").glob("*.ipynb"))


def cells(notebook: Path, kind: str) -> list[str]:
    content = json.loads(notebook.read_text(encoding="utf-8"))
    assert (content["nbformat"], content["metadata"]["kernelspec"]["name"]) == (4, "python3")
    return ["".join(cell["source"]) for cell in content["cells"] if cell["cell_type"] == kind]


def test_there_are_three() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["evaluation", "first-steps", "hidden-states"]
    listed = (NOTEBOOKS[0].parent / "index.md").read_text(encoding="utf-8")
    assert all(f"\n{path.stem}\n" in listed for path in NOTEBOOKS)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(notebook: Path, tmp_path: Path) -> None:
    script = tmp_path / "cells.py"
    script.write_text("\n".join(cells(notebook, "code")), encoding="utf-8")
    surroundings = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    outcome = subprocess.run(
        [sys.executable, "-W", "error", script], cwd=tmp_path, env=surroundings, capture_output=True
    )
    assert outcome.returncode == 0, outcome.stderr.decode()
    assert outcome.stdout


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_hold_no_output_and_begin_with_a_title(notebook: Path) -> None:
    content = json.loads(notebook.read_text(encoding="utf-8"))
    assert all(
        not cell["outputs"] and cell["execution_count"] is None for cell in content["cells"] if "outputs" in cell
    )
    assert cells(notebook, "markdown")[0].startswith("# ")
