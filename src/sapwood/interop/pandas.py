"""Data frames of parses, for pandas (`pip install pandas`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, get_args

from sapwood.errors import UsageError
from sapwood.inference.result import ParsedPhrase, ParseResult
from sapwood.trees.heads.rules import HeadRules

if TYPE_CHECKING:
    import pandas as pd

Rows = Literal["sentences", "phrases"]
_SENTENCES = ("sentence", "text", "words", "tree", "log_probability", "status")


def to_pandas(
    results: ParseResult | Iterable[ParseResult],
    rows: Rows = "sentences",
    *,
    labels: Iterable[str] = (),
    heads: HeadRules | None = None,
) -> pd.DataFrame:
    """Return parses as a data frame: one row per sentence, or one per phrase.

    Parameters
    ----------
    results
        One result, or several.
    rows
        `sentences`: number (from 0), text, number of words, tree in brackets, log probability and status of each. If
        any tree has gaps, `gaps` tells which, and these are in discbracket.
        `phrases`: the number of the sentence, and the attributes of `ParsedPhrase`.
    labels, heads
        For phrases: their labels (default: all) and the head rules, as for `ParseResult.phrases`.

    Examples
    --------
    >>> import sapwood
    >>> frame = sapwood.to_pandas(sapwood.Parser().parse_text("She slept. It rained."), "phrases", labels=["NP"])
    >>> frame[["sentence", "label", "start_char", "end_char", "text"]]
       sentence label  start_char  end_char text
    0         0    NP           0         3  She
    1         1    NP          11        13   It
    """
    if rows not in get_args(Rows):
        raise UsageError(f"rows must be one of {', '.join(get_args(Rows))}, not {rows!r}")
    wanted = [labels] if isinstance(labels, str) else list(labels)
    if rows == "sentences" and (wanted or heads is not None):
        raise UsageError("labels and heads are for rows='phrases'")
    try:
        import pandas
    except ImportError:
        raise UsageError("data frames need the package pandas (pip install pandas)") from None
    given = [results] if isinstance(results, ParseResult) else results
    found: list[tuple[Any, ...]] = []
    gaps: list[bool] = []
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise UsageError(_not_results(given))
    for number, result in enumerate(given):
        if not isinstance(result, ParseResult):
            raise UsageError(_not_results(given))
        if rows == "phrases":
            found += ((number, *phrase) for phrase in result.phrases(*wanted, heads=heads))
        else:
            tree = None if result.tree is None else str(result.tree)
            text = " ".join(result.words)
            found.append((number, text, len(result.words), tree, result.log_probability, result.status))
            gaps.append(result.tree is not None and result.tree.has_gaps)
    columns = _SENTENCES if rows == "sentences" else ("sentence", *ParsedPhrase._fields)
    frame = pandas.DataFrame(found, columns=list(columns))
    if any(gaps):
        frame.insert(frame.columns.get_loc("tree") + 1, "gaps", gaps)
    return frame


def _not_results(given: object) -> str:
    """Return the message about something else than results."""
    return (
        f"results are those of `Parser.parse` or `Parser.parse_text`, not {type(given).__name__}; parse a column with "
        "`parser.parse_text(frame['text'])`"
    )
