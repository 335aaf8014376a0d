"""Files whose notes, `meta` and `info`, say something else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sapwood.storage.arrays import read_arrays, read_header, write_arrays

NOTES = ("meta", "info")


def rewrite_notes(path: Path) -> int:
    """Change every value in the notes of a file; return how many there are."""
    header = read_header(path)
    arrays, metadata = read_arrays(path, kind=header["kind"], version=header["format"])
    changed = _with_other_notes(metadata)
    write_arrays(path, arrays, changed, kind=header["kind"], version=header["format"])
    return _count(metadata)


def other_value(value: Any) -> Any:
    """Return another JSON value of the same type."""
    if isinstance(value, dict):
        return {name: other_value(item) for name, item in value.items()}
    if isinstance(value, list):
        return [other_value(item) for item in value]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 7
    return f"not {value}" if isinstance(value, str) else "something"


def _with_other_notes(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: (other_value if name in NOTES else _with_other_notes)(item) for name, item in value.items()}
    return [_with_other_notes(item) for item in value] if isinstance(value, list) else value


def _count(value: Any) -> int:
    if isinstance(value, dict):
        return sum(len(item) if name in NOTES else _count(item) for name, item in value.items())
    return sum(map(_count, value)) if isinstance(value, list) else 0
