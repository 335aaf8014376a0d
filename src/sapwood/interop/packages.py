"""Models as Python packages, which pip installs and `sapwood.load("is")` finds by name.

A package is a wheel without compiled code (`py3-none-any`): a folder with the model, one line of Python with its path,
the model card and the attribution of its training data; and, next to the folder, the metadata that pip reads, with an
entry point of the group `sapwood.models`. The same arguments give the same content. The wheel has no dependencies:
its users have sapwood already, and a model file records its own format.

A model may come from anybody, and pip runs what it installs. So the Python file is the same in all packages, headers
are only written from values that match strict patterns, and everything else is data: the model as it is, and text in
which nothing of the model is markup.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import re
import unicodedata
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sapwood._version import __version__
from sapwood.errors import InputError, UsageError, shortened
from sapwood.model.installed import GROUP, INCLUDED, NAME
from sapwood.model.parser_model import ParserModel
from sapwood.storage.files import atomic_write, explained
from sapwood.storage.json_values import json_problem

_VERSION = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9}){0,5}((a|b|rc)[0-9]{1,9})?(\.post[0-9]{1,9})?")
# SPDX expressions; the identifiers themselves are not checked.
_LICENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]{0,63}( (AND|OR|WITH) [A-Za-z0-9][A-Za-z0-9.+-]{0,63}){0,9}")
# Method of a model in the summary; a model with any other is described without it.
_METHOD = re.compile(r"[a-z0-9]+([ +-][a-z0-9]+){0,9}")
# Punctuation in names of languages; letters, marks and digits of any script are allowed as well.
_IN_LANGUAGES = " -'’(),."
_LONGEST, _LARGEST = 80, 1 << 53
# Characters with a meaning in Markdown, which are escaped in what comes from the model.
_MARKUP = re.compile(r"[\\`*_{}\[\]()<>#+!|~&-]")
# Figures of `sapwood eval --json` in the model card, with their titles.
_FIGURES = {
    "f1": "F1",
    "precision": "precision",
    "recall": "recall",
    "exact": "exact matches, %",
    "tag_accuracy": "tags, %",
    "scored": "sentences",
}
_COMPONENTS = {"crf": "forest CRF", "span_scorer": "span scorer", "cell_pruner": "cell pruner"}
_ENTRY_TIME = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, kw_only=True)
class PackageCard:
    """Description of a packaged model.

    Attributes
    ----------
    name
        Name for `sapwood.load` and `--model`: letters, digits, `_` and `-`, such as `is` or `de-news`.
    language
        Name of the language, for the card and the summary.
    licence
        Licence of the model as an SPDX expression: `CC-BY-4.0`.
    attribution
        Sources of the training data, with their authors and licences (Markdown).
    figures
        Values of `EvaluationResult.to_dict`, or output of `sapwood eval --json`, by the name of the test set.
    about
        Intended use and limitations of the model (Markdown).
    treebank
        Name of the treebank that the model was trained on.
    version
        Version of the package.
    """

    name: str
    language: str
    licence: str
    attribution: str
    figures: Mapping[str, Mapping[str, Any]]
    about: str = ""
    treebank: str = ""
    version: str = "1.0.0"

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise UsageError(
                f"{shortened(self.name)!r} cannot be the name of a model: at most 60 small letters, digits, _ and -, "
                "such as is or de-news"
            )
        if self.name in INCLUDED:
            raise UsageError(
                f"{self.name!r} is the name of the included model; choose another, such as {self.name}-news"
            )
        if not _is_language(self.language):
            raise UsageError(
                "the language must be one or a few words on one line, such as Icelandic, of at most "
                f"{_LONGEST} characters"
            )
        if self.treebank and not (self.treebank.isprintable() and len(self.treebank) <= _LONGEST):
            raise UsageError(f"the name of the treebank must be one line of at most {_LONGEST} characters")
        if not _LICENCE.fullmatch(self.licence):
            raise UsageError(
                f"{shortened(self.licence)!r} is not an SPDX expression, such as CC-BY-4.0 or LicenseRef-Mine"
            )
        if not _VERSION.fullmatch(self.version):
            raise UsageError(f"{shortened(self.version)!r} is not a version, such as 1.0.0")
        if not self.attribution.strip():
            raise UsageError(
                "the attribution is empty; say what the model was trained on, who made that, and its licence"
            )
        for what, text in (("attribution", self.attribution), ("description", self.about)):
            if any(unicodedata.category(character) in ("Cs", "Cc") for character in set(text) - set("\t\n\r\f")):
                raise UsageError(f"the {what} has control characters; give plain text or Markdown")
        for name, values in self.figures.items():
            if not isinstance(values, Mapping) or not all(_is_number(values.get(key)) for key in _FIGURES):
                raise UsageError(f"figures of {shortened(str(name))!r}: not what `sapwood eval --json` prints")
        if problem := json_problem(self.figures):
            raise UsageError(f"the figures are not what `sapwood eval --json` prints: {problem}")

    @property
    def module(self) -> str:
        """Name of the Python module."""
        return f"sapwood_model_{self.name.replace('-', '_')}"

    @property
    def distribution(self) -> str:
        """Name of the package for pip."""
        return f"sapwood-model-{self.name}"

    @property
    def wheel(self) -> str:
        """Name of the wheel."""
        return f"{self.module}-{self.version}-py3-none-any.whl"

    def format(self, model: ParserModel, content: bytes, use: Sequence[str] | None = None) -> str:
        """Return the model card in Markdown, given the model, its file, and how to use it (by default, the wheel)."""
        grammar = model.grammar
        states, training = grammar.states, grammar.info.get("training")
        components = [title for name, title in _COMPONENTS.items() if getattr(model, name) is not None]
        facts = {
            "language": _plain(self.language),
            "treebank": _plain(self.treebank or "see below"),
            "licence": self.licence,
            "method": _plain(grammar.info.get("method", "unknown")),
            "settings": _settings(grammar.info.get("settings")),
            "grammars": str(len(model.grammars)),
            "symbols": f"{len(grammar.symbols):,} with {states.min()} to {states.max()} states",
            "rules": f"{len(grammar.rules):,}",
            "words": f"{grammar.lexicon.n_words:,}",
            "components": ", ".join(components) or "none",
            "trained on": _trained_on(training),
            "size": f"{len(content):,} bytes",
            "SHA-256": hashlib.sha256(content).hexdigest(),
            "made with": f"sapwood {__version__}",
        }
        lines = [
            f"# {self.distribution} {self.version}",
            "",
            "| | |",
            "|---|---|",
            *(f"| {key} | {facts[key]} |" for key in facts),
            "",
        ]
        if use is None:
            use = [
                f"    pip install {self.wheel}",
                f"    sapwood parse --model {self.name} sentences.txt",
                "",
                f'In Python: `sapwood.Parser("{self.name}")`.',
            ]
        lines += ["## Use", "", *use, ""]
        if self.figures:
            lines += [
                "## Figures",
                "",
                "Scores of `sapwood eval`, with bootstrap intervals: brackets by EVALB's rules, every sentence parsed.",
                "",
            ]
            lines += ["| | " + " | ".join(_FIGURES.values()) + " |", "|---" * (len(_FIGURES) + 1) + "|"]
            for what, values in self.figures.items():
                cells = [f"{values[key]:,}" if key == "scored" else _with_interval(values, key) for key in _FIGURES]
                lines.append(f"| {_plain(what)} | " + " | ".join(cells) + " |")
            lines.append("")
        if self.about.strip():
            lines += ["## Intended use", "", self.about.strip(), ""]
        return "\n".join([*lines, "## Training data", "", self.attribution.strip(), ""])

    def figures_file(self) -> bytes:
        """Return the file with all figures, which is JSON."""
        return json.dumps(self.figures, ensure_ascii=True, allow_nan=False, indent=1).encode() + b"\n"


def read_model(model: str | os.PathLike[str]) -> tuple[ParserModel, bytes]:
    """Return the model in a file, and the content of the file."""
    loaded = ParserModel.load(Path(model))  # refuses devices, which have no end
    with explained(Path(model)):
        return loaded, Path(model).read_bytes()


def write_package(model: str | os.PathLike[str], folder: str | os.PathLike[str], **described: Any) -> Path:
    """Write a wheel with a model and return its path.

    Parameters
    ----------
    model
        The model file, with one grammar or several.
    folder
        Existing folder to write the wheel to.
    described
        The description of `PackageCard`: `name`, `language`, `licence`, `attribution`, `figures`, `about`, `treebank`
        and `version`.
    """
    card = PackageCard(**described)
    loaded, content = read_model(model)
    module, info = card.module, f"{card.module}-{card.version}.dist-info"
    readme = card.format(loaded, content)
    method = str(loaded.grammar.info.get("method", ""))
    known = method if len(method) <= _LONGEST and _METHOD.fullmatch(method) else "a grammar"
    metadata = {
        "Metadata-Version": "2.4",
        "Name": card.distribution,
        "Version": card.version,
        "Summary": f"{card.language}: a model for sapwood ({known})",
        "License-Expression": card.licence,
        "License-File": "ATTRIBUTION.md",
        "Requires-Python": ">=3.11",
        "Description-Content-Type": "text/markdown",
    }
    wheel = {
        "Wheel-Version": "1.0",
        "Generator": f"sapwood {__version__}",
        "Root-Is-Purelib": "true",
        "Tag": "py3-none-any",
    }
    files: dict[str, bytes] = {
        f"{module}/__init__.py": _CODE,
        f"{module}/{_FILE}": content,
        f"{module}/README.md": readme.encode(),
        f"{module}/figures.json": card.figures_file(),
        f"{info}/licenses/ATTRIBUTION.md": card.attribution.encode(),
        f"{info}/entry_points.txt": f"[{GROUP}]\n{card.name} = {module}:MODEL\n".encode(),
        f"{info}/WHEEL": _headers(wheel).encode(),
        f"{info}/METADATA": f"{_headers(metadata)}\n{readme}".encode(),
    }
    path = Path(folder, card.wheel)
    with atomic_write(path) as stream:
        stream.write(_wheel(files, f"{info}/RECORD"))
    return path


def read_figures(paths: Sequence[str | os.PathLike[str]]) -> dict[str, dict[str, Any]]:
    """Return the output of `sapwood eval --json` in files, by their names without suffixes."""
    found: dict[str, dict[str, Any]] = {}
    for path in paths:
        with explained(Path(path)):
            text = Path(path).read_bytes()
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        is_result = isinstance(value, dict) and not json_problem(value)
        if not is_result or not all(_is_number(value.get(key)) for key in _FIGURES):
            raise InputError(f"{path}: not what `sapwood eval --json` prints")
        found[Path(path).stem] = value
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LARGEST


def _is_language(text: str) -> bool:
    inside = all(unicodedata.category(letter)[0] in "LMN" or letter in _IN_LANGUAGES for letter in text)
    return inside and len(text) <= _LONGEST and text[:1].isalpha() and text == text.strip()


def _plain(value: object, longest: int = _LONGEST) -> str:
    """Return a value of a model as text for a cell of Markdown: one line, no markup, not long."""
    text = "".join(letter if letter.isprintable() else " " for letter in str(value)[:longest])
    return _MARKUP.sub(lambda found: found[0] if found[0] in "+-" else "\\" + found[0], text).strip() or "unknown"


def _with_interval(values: Mapping[str, Any], key: str) -> str:
    """Return a figure with its confidence interval, if there is one."""
    intervals = values.get("intervals")
    interval = intervals.get(key) if isinstance(intervals, Mapping) else None
    if not isinstance(interval, Sequence) or len(interval) != 2 or not all(map(_is_number, interval)):
        return f"{values[key]:.2f}"
    return f"{values[key]:.2f} ({interval[0]:.2f} to {interval[1]:.2f})"


def _settings(settings: object) -> str:
    """Return the settings of the learner that are numbers and names."""
    if not isinstance(settings, Mapping):
        return "unknown"
    shown = (
        f"{name} {value}" for name, value in settings.items() if isinstance(value, str | bool) or _is_number(value)
    )
    return _plain(", ".join(shown), 400)


def _trained_on(training: object) -> str:
    counts = [training.get(name) for name in ("trees", "words")] if isinstance(training, Mapping) else []
    if not counts or not all(_is_number(count) for count in counts):
        return "unknown"
    trees, words = counts
    return f"{trees:,} trees, {words:,} words"


def _headers(values: Mapping[str, str]) -> str:
    """Return headers of a file of metadata; a value that is not one line of printable characters is an error."""
    for name, value in values.items():
        if not value.isprintable() or not value.strip():
            raise UsageError(f"{name}: {shortened(value)!r} cannot be written into the metadata of a package")
    return "".join(f"{name}: {value}\n" for name, value in values.items())


# The same bytes in every package: nothing of a model or of an argument becomes code.
_FILE = "model.sapwood"
_CODE = b'''"""A model for sapwood, which finds it by its name."""

from pathlib import Path

MODEL = Path(__file__).with_name("model.sapwood")
'''


def _wheel(files: Mapping[str, bytes], record: str) -> bytes:
    """Return a wheel archive of files, with the list of their digests."""
    rows = []
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:

        def add(name: str, content: bytes) -> None:
            entry = zipfile.ZipInfo(name, _ENTRY_TIME)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)

        for name, content in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            rows.append(f"{name},sha256={digest},{len(content)}\n")
            add(name, content)
        add(record, "".join([*rows, f"{record},,\n"]).encode())
    return stream.getvalue()
