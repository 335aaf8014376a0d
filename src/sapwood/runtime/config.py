"""Configuration file of a run: one flat TOML table of names and values.

    # run.toml
    method = "pivot+em"
    states = 128
    prior = 0.5

Names are those of the command's options. `tomllib` reads such files; writing a flat table is simple enough to do here.
"""

from __future__ import annotations

import difflib
import json
import math
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from sapwood.errors import InputError, UsageError, shortened
from sapwood.storage.files import atomic_write, name_of, read_lines

Scalar: TypeAlias = str | int | float | bool
Value: TypeAlias = Scalar | Sequence[Scalar]

# Bound of integers: more than any setting can be, and fits into 64 bits.
_LARGEST = 1 << 63
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_PLACE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


def read_config(
    path: str | Path, known: Collection[str], *, former: Mapping[str, str] | None = None
) -> dict[str, Value]:
    """Return the settings of a TOML file, in the order of the file.

    A number that is not finite, or that has more than 64 bits, raises a `UsageError`.

    Parameters
    ----------
    path
        The file; `-` is standard input.
    known
        Allowed names.
    former
        Present names by former ones, which are replaced.

    Raises
    ------
    InputError
        If the file cannot be read, is not TOML, or has an unknown name or a value that is neither a string, a number or
        a Boolean nor a list of those. The message names the file, the line if known, and a remedy.
    """
    lines = [line for _, line in read_lines(path)]
    try:
        table = tomllib.loads("".join(lines))
    except (ValueError, RecursionError) as error:
        if not isinstance(error, tomllib.TOMLDecodeError | RecursionError):  # digits beyond Python's limit
            raise UsageError(f"{name_of(path)}: a number with thousands of digits; give one that can be used") from None
        match = _PLACE.search(str(error))
        line = None if match is None else int(match[1] or len(lines))
        reason = _PLACE.sub("", str(error))
        raise InputError(
            f'{_place(path, line)}: not TOML: {reason}; write lines such as states = 8 or method = "em"'
        ) from None
    settings: dict[str, Value] = {}
    for written, value in table.items():
        name, place = (former or {}).get(written, written), _place(path, _line_of(lines, written))
        if name not in known:
            near = difflib.get_close_matches(name.replace("_", "-"), known, 1)
            remedy = f"did you mean {near[0]}?" if near else f"settings are {', '.join(sorted(known))}"
            raise InputError(f"{place}: there is no setting {shortened(name)!r}; {remedy}")
        parts = value if isinstance(value, list) else [value]
        if not all(isinstance(part, Scalar) for part in parts):
            raise InputError(f"{place}: {name} is not a string, number, boolean or list of these; write one of them")
        if not are_usable(parts):
            raise UsageError(f"{place}: {name} is not a number that can be used; give a finite and smaller one")
        if name in settings:
            raise InputError(f"{place}: {name} is set twice, once by its former name; remove one of them")
        settings[name] = value
    return settings


def are_usable(values: Sequence[object]) -> bool:
    """Return whether all numbers among values are finite and fit into 64 bits.

    >>> are_usable([8, 0.5, "em"]), are_usable([float("nan")]), are_usable([10**30])
    (True, False, False)
    """
    whole = all(-_LARGEST <= value < _LARGEST for value in values if isinstance(value, int))
    return whole and all(math.isfinite(value) for value in values if isinstance(value, float))


def write_config(path: str | Path, values: Mapping[str, Value]) -> None:
    """Write settings to a TOML file, atomically; `read_config` returns the same, with lists for sequences.

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
    """Return the number of the line that sets a name, or opens a table of that name, if it is unambiguous."""
    setting = re.compile(rf"""\s*\[*\s*["']?{re.escape(name)}["']?\s*[=.\]]""")
    found = [number for number, line in enumerate(lines, 1) if setting.match(line)]
    return found[0] if len(found) == 1 else None


def _written(value: Value) -> str:
    """Return a value in TOML syntax."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        # JSON strings are TOML strings, except for one control character that TOML requires to be escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, float):
        return repr(float(value))
    if isinstance(value, int):
        return str(int(value))
    return f"[{', '.join(map(_written, value))}]"
