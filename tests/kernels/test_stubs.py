"""The stub of the kernels, which type checkers read, is that of the compiled modules."""

from __future__ import annotations

import ast
import importlib
import importlib.util
from pathlib import Path

import pytest

import stubs
from sapwood import kernels
from sapwood.kernels import _processor


@pytest.mark.parametrize("variant", ["plain", "avx2"])
def test_the_stub_is_that_of_the_compiled_module(variant: str) -> None:
    name = f"sapwood.kernels._{variant}"
    if importlib.util.find_spec(name) is None or (variant == "avx2" and not _processor.has_x86_64_v3()):
        pytest.skip(f"no {variant} kernels here")
    made = stubs.generate(importlib.import_module(name))
    assert made == stubs.STUB.read_text(encoding="utf-8"), "build the kernels, then run `python tools/stubs.py`"


def test_every_kernel_has_types_and_names_its_arguments() -> None:
    tree = ast.parse(stubs.STUB.read_text(encoding="utf-8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    constants = {ast.unparse(node.target) for node in tree.body if isinstance(node, ast.AnnAssign)}
    typed = {node.name for node in (*functions, *classes)} | constants
    assert {name for name in dir(kernels._module) if not name.startswith("_")} <= typed
    assert not [node.name for node in functions if node.args.posonlyargs]


def test_the_stub_is_installed_with_the_package() -> None:
    installed = Path(kernels.__file__).with_suffix(".pyi")
    assert installed.read_text(encoding="utf-8") == stubs.STUB.read_text(encoding="utf-8")
