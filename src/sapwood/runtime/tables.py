"""Tables, as text and as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


def html_table(rows: Sequence[Sequence[str]], *, title: str = "", headings: bool = True) -> str:
    """Return an HTML table: the first row has the headings, if any, and the first column is left-aligned.

    Examples
    --------
    >>> html_table([["label", "F1"], ["NP", "87.50"]]).count("<td")
    2
    """
    lines = ["<table>"]
    if title:
        lines.append(f'<caption style="text-align: left">{escape(title)}</caption>')
    for number, row in enumerate(rows):
        kind = "th" if headings and number == 0 else "td"
        cells = [
            f'<{kind} style="text-align: {"right" if column else "left"}">{escape(cell)}</{kind}>'
            for column, cell in enumerate(row)
        ]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return "".join([*lines, "</table>"])


def format_table(rows: Sequence[Sequence[str]], texts: Sequence[str] = ()) -> str:
    """Format rows with the first column left-aligned and the others right-aligned, and a rule below the first row.

    `texts`, if any, are appended to the lines unchanged, one each.
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
