"""JSON values from files: what numbers, texts and nesting are accepted, whatever they stand for.

JSON as Python reads it has NaN, integers of any length and halves of surrogate pairs, none of which can be printed as
JSON or as UTF-8 again. Nothing that is read from a file has them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

# Limits of values: depth of nesting, length of texts, values in all, size of integers.
_DEEPEST, _LONGEST, _MOST, _LARGEST = 50, 1 << 20, 1 << 20, 1 << 64


def json_problem(value: Any) -> str:
    """Return the problem with a JSON value, if any.

    >>> json_problem({"method": "em", "scores": [0.5, float("nan")]})
    'a number that is not finite'
    """
    stack, seen = [(value, 0)], 0
    while stack:
        one, depth = stack.pop()
        seen += 1
        if seen > _MOST:
            return f"more than {_MOST:,} values"
        if isinstance(one, Mapping | list | tuple):
            if depth >= _DEEPEST:
                return f"values more than {_DEEPEST} levels deep"
            if isinstance(one, Mapping):
                stack += ((name, depth) for name in one)
            stack += ((inner, depth + 1) for inner in (one.values() if isinstance(one, Mapping) else one))
        elif isinstance(one, str):
            if len(one) > _LONGEST:
                return f"a text of {len(one):,} characters"
            if not is_unicode(one):
                return "half a character (a lone surrogate)"
        elif isinstance(one, int):
            if abs(one) >= _LARGEST:
                return "an integer of more than 64 bits"
        elif isinstance(one, float):
            if not math.isfinite(one):
                return "a number that is not finite"
        elif one is not None:
            return f"a value of type {type(one).__name__}"
    return ""


def is_unicode(text: str) -> bool:
    """Return whether a text can be encoded: it has no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def with_finite_numbers(value: Any) -> Any:
    """Return a JSON value with null in place of each number that is not finite.

    >>> with_finite_numbers({"score": float("-inf")})
    {'score': None}
    """
    if isinstance(value, Mapping):
        return {name: with_finite_numbers(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [with_finite_numbers(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
