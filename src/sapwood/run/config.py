"""Settings of a run in a file: one flat TOML table of names and values.

    # run.toml
    method = "pivot+em"
    states = 128
    prior = 0.5

Names are those of the command's options. `tomllib` reads such files; writing a flat table is little enough to do here.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from sapwood.errors import InputError
from sapwood.files import atomic_write, name_of, read_lines

Scalar: TypeAlias = str | int | float | bool
Value: TypeAlias = Scalar | Sequence[Scalar]

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_PLACE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


def read_config(path: str | Path, known: Collection[str]) -> dict[str, Value]:
    """Return the settings in a TOML file, in the order of the file.

    Parameters
    ----------
    path
        The file; `-` is standard input.
    known
        The names that may be in it.

    Raises
    ------
    InputError
        If the file cannot be read, is no TOML, or has a name that is not known or a value that is neither a string, a
        number or a truth value nor a list of those. The message names the file, the line if it is known, and a remedy.
    """
    lines = [line for _, line in read_lines(path)]
    try:
        table = tomllib.loads("".join(lines))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        found = _PLACE.search(str(error))
        line = None if found is None else int(found[1] or len(lines))
        reason = _PLACE.sub("", str(error))
        raise InputError(
            f'{_place(path, line)}: no TOML: {reason}; write lines such as states = 8 or method = "em"'
        ) from None
    for name, value in table.items():
        place = _place(path, _line_of(lines, name))
        if name not in known:
            near = difflib.get_close_matches(name.replace("_", "-"), known, 1)
            remedy = f"did you mean {near[0]}?" if near else f"settings are {', '.join(sorted(known))}"
            raise InputError(f"{place}: there is no setting {name!r}; {remedy}")
        parts = value if isinstance(value, list) else [value]
        if not all(isinstance(part, Scalar) for part in parts):
            raise InputError(f"{place}: {name} is no string, number, truth value or list of those; write one of them")
    return table


def write_config(path: str | Path, values: Mapping[str, Value]) -> None:
    """Write settings to a TOML file, whole or not at all; `read_config` gives the same back, lists for sequences.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_config(f"{folder}/run.toml", {"method": "em", "prior": 0.5})
    ...     read_config(f"{folder}/run.toml", ["method", "prior", "states"])
    {'method': 'em', 'prior': 0.5}
    """
    text = "".join(
        f"{name if _BARE.fullmatch(name) else _written(name)} = {_written(value)}\n" for name, value in values.items()
    )
    with atomic_write(path) as stream:
        stream.write(text.encode("utf-8"))


def _place(path: str | Path, line: int | None) -> str:
    return name_of(path) if line is None else f"{name_of(path)}:{line}"


def _line_of(lines: Sequence[str], name: str) -> int | None:
    """Return the number of the line that sets a name, or opens a table of that name, if one clearly does."""
    setting = re.compile(rf"""\s*\[*\s*["']?{re.escape(name)}["']?\s*[=.\]]""")
    found = [number for number, line in enumerate(lines, 1) if setting.match(line)]
    return found[0] if len(found) == 1 else None


def _written(value: Value) -> str:
    """Return a value in TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        # JSON's strings are TOML's, but for one control character that TOML wants written as an escape.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, float):
        return repr(float(value))
    if isinstance(value, int):
        return str(int(value))
    return f"[{', '.join(map(_written, value))}]"
