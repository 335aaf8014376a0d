"""Commands are thin: their bodies read options, call the library and print."""

import ast
from pathlib import Path

import sapwood.cli

_ROOT = Path(str(sapwood.cli.__file__)).parent
_MOST = 60


def _is_command(function: ast.FunctionDef) -> bool:
    calls = (item.func if isinstance(item, ast.Call) else item for item in function.decorator_list)
    return any(ast.unparse(call).endswith(".command") for call in calls)


def _body_lines(function: ast.FunctionDef) -> int:
    """Return the number of lines of the body, without the docstring."""
    body = function.body[ast.get_docstring(function) is not None :]
    return int(body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def test_commands_are_short() -> None:
    lengths = {
        f"{path.relative_to(_ROOT)}:{function.name}": _body_lines(function)
        for path in sorted(_ROOT.rglob("*.py"))
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef) and _is_command(function)
    }
    assert len(lengths) > 20
    assert {name: length for name, length in lengths.items() if length > _MOST} == {}
