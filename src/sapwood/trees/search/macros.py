"""Macros of tree patterns: `@NAME` stands for a part of a pattern.

A file of macros has a definition per line, as for TGrep2 or as for Tregex:

    @ VERB /^VB[DPZ]?$/;
    SUBJECT<tab>/^NP-SBJ/

A macro may use those above it. Where a name is also a label, `@NAME` is the macro. Lines that begin with # or % are
comments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from sapwood.errors import InputError
from sapwood.storage.files import name_of, read_lines

MOST_CHARACTERS = 2000
_TGREP2 = re.compile(r"@\s*([\w-]+)\s+(.+?)\s*;?\s*\Z", re.DOTALL)
_TREGEX = re.compile(r"@?([\w-]+)\t\s*(.+?)\s*\Z", re.DOTALL)
# Quoted labels and regular expressions, in which nothing is replaced; and uses of macros.
_PIECES = re.compile(r'"(?:\\.|[^"\\])*"|/(?:\\.|[^/\\])*/|@([\w-]+)', re.DOTALL)


def read_macros(path: str | Path) -> dict[str, str]:
    """Read a file of macros."""
    return parse_macros(read_lines(path), source=name_of(path))


def parse_macros(lines: Iterable[tuple[int, str]], *, source: str = "<macros>") -> dict[str, str]:
    """Return macros by name, with the macros in them expanded.

    >>> parse_macros([(1, "@ N /^N/;"), (2, "@ NP (NP < @N)")])["NP"]
    '(NP < /^N/)'
    """
    macros: dict[str, str] = {}
    for number, raw in lines:
        line = raw.strip()
        if not line or line[0] in "#%":
            continue
        found = _TREGEX.match(raw.strip("\r\n ")) or _TGREP2.match(line)
        if found is None:
            raise InputError(f"{source}:{number}: expected a macro, @ NAME PATTERN;, found {line[:60]!r}")
        if found[1] in macros:
            raise InputError(f"{source}:{number}: the macro {found[1]!r} is defined twice")
        expanded = expand_macros(found[2].rstrip("; "), macros)
        if len(expanded) > MOST_CHARACTERS:
            raise InputError(f"{source}:{number}: the macro has more than {MOST_CHARACTERS:,} characters when expanded")
        macros[found[1]] = expanded
    return macros


def expand_macros(pattern: str, macros: Mapping[str, str]) -> str:
    """Return a pattern with the text of macros in their place."""
    return _PIECES.sub(lambda found: macros.get(found[1], found[0]) if found[1] else found[0], pattern)
