"""Parameters of bracket scoring: the settings of EVALB's `.prm` files, and those of disco-dop for trees with gaps.

Three sets are built in. `default` ignores only the root's label and empty elements, so punctuation counts. `collins`
also ignores punctuation tags and treats ADVP and PRT as one label, like the COLLINS.prm that comes with EVALB: the
setting of most published results on English. `proper` ignores the root and all punctuation, by its tag or by the word,
like the proper.prm of disco-dop: the setting of most published results on trees with gaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from sapwood.errors import InputError, shortened
from sapwood.storage.files import name_of, read_lines, whole_number

UNLABELED: Final = "*"

Groups = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class EvalbParameters:
    """Settings of bracket scoring, with their keys in `.prm` files in brackets.

    Parameters
    ----------
    delete_labels
        Labels that do not count [DELETE_LABEL]. A tag is deleted with its word; a phrase label loses only its bracket,
        not its content.
    delete_labels_for_length
        Tags whose words do not count in the length of a sentence [DELETE_LABEL_FOR_LENGTH].
    quote_labels
        Tags that are easily confused over a quotation mark or apostrophe [QUOTE_LABEL]; see
        `sapwood.evaluate.brackets`.
    equal_labels, equal_words
        Groups of labels, and of words, that count as the same [EQ_LABEL, EQ_WORD]. Groups that share a member are
        merged.
    cutoff_len
        Sentences up to this length get a separate summary [CUTOFF_LEN].
    labeled
        Require labels to agree for brackets to match [LABELED].
    delete_words
        Words that do not count [DELETE_WORD].
    delete_root_tags
        Words that the gold tree attaches to the root do not count [DELETE_ROOT_PRETERMS].
    disc_only
        Only phrases with gaps count [DISC_ONLY].
    by_gold
        Words are deleted from both trees by the tags of the gold tree, as in disco-dop; EVALB uses the tags of each
        tree. True for files with any of the last three keys.
    max_error
        Stop when more sentences than this are in error [MAX_ERROR]; None never stops.
    debug
        Kept from the file and otherwise unused [DEBUG].
    name
        Name of these settings in reports.
    """

    delete_labels: frozenset[str] = frozenset()
    delete_labels_for_length: frozenset[str] = frozenset()
    quote_labels: frozenset[str] = frozenset()
    equal_labels: Groups = ()
    equal_words: Groups = ()
    cutoff_len: int = 40
    labeled: bool = True
    max_error: int | None = None
    debug: int = 0
    delete_words: frozenset[str] = frozenset()
    delete_root_tags: bool = False
    disc_only: bool = False
    by_gold: bool = False
    name: str = field(default="custom", compare=False)

    @classmethod
    def read(cls, path: str | Path) -> EvalbParameters:
        """Read a `.prm` file; missing keys get EVALB's defaults (MAX_ERROR: never stop).

        A line is a key and its value, or a comment after `#`.
        """
        labels: dict[str, list[str]] = {key: [] for key in _LABEL_KEYS}
        pairs: dict[str, list[tuple[str, ...]]] = {key: [] for key in _PAIR_KEYS}
        numbers: dict[str, int] = {}
        for line, text in read_lines(path):
            key, *values = text.split() or ["#"]
            place = f"{name_of(path)}:{line}"
            if key.startswith("#"):
                continue
            if key in labels:
                labels[key] += _values(key, values, 1, place)
            elif key in pairs:
                pairs[key].append(tuple(_values(key, values, 2, place)))
            elif key in _NUMBER_KEYS:
                numbers[key] = _number(key, _values(key, values, 1, place)[0], place)
            else:
                raise InputError(f"{place}: unknown key {key!r}; the keys of a parameter file are {_ALL_KEYS}")
        settings: dict[str, Any] = {
            **{_LABEL_KEYS[key]: frozenset(found) for key, found in labels.items()},
            **{_PAIR_KEYS[key]: tuple(found) for key, found in pairs.items()},
            **{_NUMBER_KEYS[key]: number for key, number in numbers.items()},
        }
        for name, usual in (("labeled", True), ("disc_only", False), ("delete_root_tags", False)):
            settings[name] = bool(settings.get(name, usual))
        settings["by_gold"] = bool(labels["DELETE_WORD"] or numbers.keys() & {"DISC_ONLY", "DELETE_ROOT_PRETERMS"})
        return cls(**settings, name=name_of(path))

    @cached_property
    def label_names(self) -> Mapping[str, str]:
        """Canonical name of each label of `equal_labels`: the first of its group."""
        return _first_of_group(self.equal_labels)

    @cached_property
    def word_names(self) -> Mapping[str, str]:
        """Canonical form of each word of `equal_words`: the first of its group."""
        return _first_of_group(self.equal_words)

    @cached_property
    def deleted_phrases(self) -> frozenset[str]:
        """Phrase labels that do not count: `delete_labels` and all labels equal to one of them.

        As in EVALB, equality is ignored when words are deleted by their tags.
        """
        names = self.label_names
        deleted = {names.get(label, label) for label in self.delete_labels}
        return self.delete_labels | {label for label, name in names.items() if name in deleted}


_LABEL_KEYS: Final = {
    "DELETE_LABEL": "delete_labels",
    "DELETE_LABEL_FOR_LENGTH": "delete_labels_for_length",
    "QUOTE_LABEL": "quote_labels",
    "DELETE_WORD": "delete_words",
}
_PAIR_KEYS: Final = {"EQ_LABEL": "equal_labels", "EQ_WORD": "equal_words"}
_NUMBER_KEYS: Final = {
    "DEBUG": "debug",
    "MAX_ERROR": "max_error",
    "CUTOFF_LEN": "cutoff_len",
    "LABELED": "labeled",
    "DISC_ONLY": "disc_only",
    "DELETE_ROOT_PRETERMS": "delete_root_tags",
}
# Keys that are 0 or 1, and what these mean.
_SWITCHES: Final = {
    "LABELED": ("compare spans only", "labels too"),
    "DISC_ONLY": ("score all phrases", "only those with gaps"),
    "DELETE_ROOT_PRETERMS": ("score all words", "without those below the root"),
}
_ALL_KEYS: Final = ", ".join(sorted({**_LABEL_KEYS, **_PAIR_KEYS, **_NUMBER_KEYS}))


def _values(key: str, values: list[str], wanted: int, place: str) -> list[str]:
    if len(values) != wanted:
        expected = "one value" if wanted == 1 else f"{wanted} values"
        found = shortened(" ".join(values)) or "nothing"
        raise InputError(f"{place}: {key} takes {expected}, found {found} (comments need a line of their own)")
    return values


def _number(key: str, value: str, place: str) -> int:
    number = whole_number(value)
    if number is None:
        raise InputError(f"{place}: {key} takes a whole number from 0, found {shortened(value)!r}")
    if key in _SWITCHES and number > 1:
        off, on = _SWITCHES[key]
        raise InputError(f"{place}: {key} is 0 ({off}) or 1 ({on}), found {value!r}")
    return number


def _first_of_group(groups: Iterable[tuple[str, ...]]) -> Mapping[str, str]:
    """Return member -> first member of its group, after merging groups that share a member."""
    place: dict[str, int] = {}
    # For each member, an earlier member of its group; for the first, itself.
    earlier: dict[str, str] = {}

    def first(member: str) -> str:
        while earlier[member] != member:
            earlier[member] = member = earlier[earlier[member]]
        return member

    for group in groups:
        for member in group:
            place.setdefault(member, len(place))
            earlier.setdefault(member, member)
        firsts = {first(member) for member in group}
        earlier.update(dict.fromkeys(firsts, min(firsts, key=place.__getitem__)))
    return {member: first(member) for member in place}


_NOT_IN_THE_SENTENCE: Final = frozenset({"ROOT", "TOP", "S1", "VROOT", "", "-NONE-"})

# Punctuation in NEGRA and TIGER, Alpino and Lassy, and the Penn Treebank; and as words, whatever their tag.
_PUNCTUATION_TAGS: Final = frozenset(
    [
        "$,",
        "$(",
        "$[",
        "$.",
        "PUNCT",
        "punct",
        "LET[]",
        "LET()",
        "LET",
        "let[]",
        "let()",
        "let",
        ",",
        ":",
        "``",
        "''",
        ".",
    ]
)
_PUNCTUATION_WORDS: Final = frozenset(
    [*".,:;'`\"-()/&$!?«»", "``", "''", "!!!", "??", "???", "..", "..."],
)

PARAMETER_SETS: Final[Mapping[str, EvalbParameters]] = MappingProxyType(
    {
        "default": EvalbParameters(
            delete_labels=_NOT_IN_THE_SENTENCE,
            delete_labels_for_length=frozenset({"-NONE-"}),
            name="default",
        ),
        "collins": EvalbParameters(
            delete_labels=_NOT_IN_THE_SENTENCE | {",", ":", "``", "''", "."},
            delete_labels_for_length=frozenset({"-NONE-"}),
            equal_labels=(("ADVP", "PRT"),),
            name="collins",
        ),
        "proper": EvalbParameters(
            delete_labels=_NOT_IN_THE_SENTENCE | _PUNCTUATION_TAGS | {"NOPARSE"},
            delete_words=_PUNCTUATION_WORDS,
            equal_labels=(("ADVP", "PRT"),),
            equal_words=(("-LRB-", "("), ("-RRB-", ")")),
            by_gold=True,
            name="proper",
        ),
    }
)


def get_parameters(name_or_path: str | Path) -> EvalbParameters:
    """Return a built-in set (`default`, `collins`, `proper`) or read a `.prm` file.

    A built-in name takes precedence over a file of that name; `./default` or a `Path` means the file.
    """
    if isinstance(name_or_path, str) and name_or_path in PARAMETER_SETS:
        return PARAMETER_SETS[name_or_path]
    if not Path(name_or_path).exists():
        raise InputError(
            f"{name_or_path}: neither a file nor a built-in set of parameters ({', '.join(PARAMETER_SETS)})"
        )
    return EvalbParameters.read(name_or_path)
