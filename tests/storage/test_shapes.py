"""Public functions say what shapes their arrays have, and the tests check that they do."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from helpers import shape_checks

SOURCE = Path(__file__).resolve().parents[2] / "src" / "sapwood"


def modules(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*.py")) if not path.name.startswith("_") and path.name != "shapes.py")


def bare_arrays(annotation: ast.expr | None) -> bool:
    """Return whether an annotation names arrays without their shape."""
    if annotation is None:
        return False
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) in shape_checks.NAMES:
        return False
    if ast.unparse(annotation) in ("np.ndarray", "ndarray", "Array", "numpy.ndarray"):
        return True
    return any(bare_arrays(child) for child in ast.iter_child_nodes(annotation) if isinstance(child, ast.expr))


def missing(path: Path) -> Iterator[str]:
    """Yield the public functions and fields of a module that do not state the shapes of their arrays."""

    def walk(body: list[ast.stmt], prefix: str) -> Iterator[str]:
        for node in body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield from walk(node.body, f"{node.name}.")
            elif isinstance(node, ast.AnnAssign) and prefix and bare_arrays(node.annotation):
                yield f"{path}:{node.lineno}: {prefix}{ast.unparse(node.target)}"
            elif isinstance(node, ast.FunctionDef) and (not node.name.startswith("_") or node.name == "__init__"):
                arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                if any(bare_arrays(argument.annotation) for argument in arguments) or bare_arrays(node.returns):
                    yield f"{path}:{node.lineno}: {prefix}{node.name}"

    yield from walk(ast.parse(path.read_text(encoding="utf-8")).body, "")


@pytest.mark.parametrize("path", list(modules(SOURCE)), ids=lambda path: str(path.relative_to(SOURCE)))
def test_public_functions_state_their_shapes(path):
    assert not list(missing(path))


def test_a_wrong_shape_is_found():
    from sapwood.grammar.emissions import offsets_of

    assert offsets_of(np.array([2, 3])).tolist() == [0, 2, 5]
    with pytest.raises(shape_checks.ShapeError, match=r"offsets_of\(sizes\): int64\[1, 2\] is no Num"):
        offsets_of(np.array([[2, 3]]))
    with shape_checks.switched_off():
        offsets_of(np.array([[2, 3]]))


if __name__ == "__main__":
    for folder in sys.argv[1:] or [SOURCE]:
        for module in modules(Path(folder)) if Path(folder).is_dir() else [Path(folder)]:
            for line in missing(module):
                print(line)
