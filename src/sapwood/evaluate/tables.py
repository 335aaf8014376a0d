"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence


def format_table(rows: Sequence[Sequence[str]], texts: Sequence[str] = ()) -> str:
    """Return lines with the first column to the left and the others to the right, a rule below the first.

    `texts`, if there are any, follow the lines as they are, one each.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(width) if index else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    if texts:
        lines = [f"{line}  {text}".rstrip() for line, text in zip(lines, texts, strict=True)]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])
