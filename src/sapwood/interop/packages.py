"""Models as Python packages, which pip installs and `sapwood.load("is")` finds by name.

A package is a wheel without compiled code (`py3-none-any`): a folder with the model, one line of Python that says where
it is, the model card and what it was trained on; and beside it the metadata that pip reads, with an entry point of the
group `sapwood.models`. The same arguments give the same content. The wheel names no other package that pip should
fetch: whoever has it has sapwood, and a model file says by itself which format it is in.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import math
import os
import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sapwood._version import __version__
from sapwood.errors import InputError, UsageError
from sapwood.files import atomic_write, explained
from sapwood.grammar.bundle import load_models
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.models import GROUP, INCLUDED, NAME

_VERSION = re.compile(r"\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?")
# An expression of SPDX identifiers; whether there are such licences is for people to say.
_LICENCE = re.compile(r"[A-Za-z0-9.+-]+( (AND|OR|WITH) [A-Za-z0-9.+-]+)*")
# What of `sapwood eval --json` goes into the card, and what it is called there.
_FIGURES = {
    "f1": "F1",
    "precision": "precision",
    "recall": "recall",
    "exact": "exact matches, %",
    "tag_accuracy": "tags, %",
    "scored": "sentences",
}
_ENTRY_TIME = (1980, 1, 1, 0, 0, 0)


def write_package(
    model: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    name: str,
    language: str,
    licence: str,
    attribution: str,
    figures: Mapping[str, Mapping[str, Any]],
    about: str = "",
    version: str = "1.0.0",
) -> Path:
    """Write a wheel with a model and return its path.

    Parameters
    ----------
    model
        The model file, with one grammar or several.
    folder
        Where to write the wheel; it must be there.
    name
        What `sapwood.load` and `--model` will call it: letters, digits, `_` and `-`, such as `is` or `de-news`.
    language
        The language in words, for the card and the summary.
    licence
        Of the model, as an SPDX expression: `CC-BY-4.0`.
    attribution
        What the model was trained on, by whom that was made, and under what licence (Markdown).
    figures
        What `EvaluationResult.to_dict` has, or `sapwood eval --json` printed, by the name of what was parsed.
    about
        What the model is good for and what not (Markdown), for the card.
    version
        Of the package.
    """
    _check(name, language, licence, version)
    if not attribution.strip():
        raise UsageError("the attribution is empty; say what the model was trained on, who made that, and its licence")
    with explained(Path(model)):
        content = Path(model).read_bytes()
    grammars = load_models(Path(model))
    module, distribution = f"sapwood_model_{name.replace('-', '_')}", f"sapwood-model-{name}"
    info = f"{module}-{version}.dist-info"
    card = _card(distribution, name, language, licence, attribution, figures, about, version, grammars, content)
    summary = f"{language}: a model for sapwood ({grammars[0].info.get('method', 'a grammar')})"
    files: dict[str, bytes] = {
        f"{module}/__init__.py": _CODE.format(language=language, name=name).encode(),
        f"{module}/{name}.sapwood": content,
        f"{module}/README.md": card.encode(),
        f"{module}/figures.json": json.dumps(figures, ensure_ascii=False, indent=1).encode() + b"\n",
        f"{info}/licenses/ATTRIBUTION.md": attribution.encode(),
        f"{info}/entry_points.txt": f"[{GROUP}]\n{name} = {module}:MODEL\n".encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: sapwood {__version__}\n"
        "Root-Is-Purelib: true\nTag: py3-none-any\n".encode(),
        f"{info}/METADATA": f"Metadata-Version: 2.4\nName: {distribution}\nVersion: {version}\nSummary: {summary}\n"
        f"License-Expression: {licence}\nLicense-File: ATTRIBUTION.md\nRequires-Python: >=3.11\n"
        f"Description-Content-Type: text/markdown\n\n{card}".encode(),
    }
    path = Path(folder, _wheel_name(name, version))
    with atomic_write(path) as stream:
        stream.write(_wheel(files, f"{info}/RECORD"))
    return path


def read_figures(paths: Sequence[str | os.PathLike[str]]) -> dict[str, dict[str, Any]]:
    """Return what `sapwood eval --json` printed into files, by the names of these without their endings."""
    found: dict[str, dict[str, Any]] = {}
    for path in paths:
        with explained(Path(path)):
            text = Path(path).read_bytes()
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict) or not all(_is_number(value.get(key)) for key in _FIGURES):
            raise InputError(f"{path}: not what `sapwood eval --json` prints")
        found[Path(path).stem] = value
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _check(name: str, language: str, licence: str, version: str) -> None:
    """Raise `UsageError` for what cannot be the name, language, licence or version of a package."""
    if not NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be the name of a model: small letters, digits, _ and -, such as is or de-news"
        )
    if name in INCLUDED:
        raise UsageError(f"{name!r} is the name of the included model; choose another, such as {name}-news")
    if not language.isprintable() or not language.strip():
        raise UsageError("the language must be a word or a few on one line, such as Icelandic")
    if not _LICENCE.fullmatch(licence):
        raise UsageError(f"{licence!r} is no SPDX expression, such as CC-BY-4.0 or LicenseRef-Mine")
    if not _VERSION.fullmatch(version):
        raise UsageError(f"{version!r} is no version, such as 1.0.0")


_CODE = '''"""{language}: a model for sapwood, found by its name: `sapwood.load("{name}")`."""

from pathlib import Path

MODEL = Path(__file__).with_name("{name}.sapwood")
'''


def _card(
    distribution: str,
    name: str,
    language: str,
    licence: str,
    attribution: str,
    figures: Mapping[str, Mapping[str, Any]],
    about: str,
    version: str,
    grammars: Sequence[TensorGrammar],
    content: bytes,
) -> str:
    """Return the model card."""
    grammar = grammars[0]
    states, training = grammar.states, grammar.info.get("training", {})
    facts = {
        "language": language,
        "licence": licence,
        "method": str(grammar.info.get("method", "unknown")),
        "grammars": str(len(grammars)),
        "symbols": f"{len(grammar.symbols):,} with {states.min()} to {states.max()} states",
        "rules": f"{len(grammar.rules):,}",
        "words": f"{grammar.lexicon.n_words:,}",
        "layer": "yes" if grammar.layer is not None else "no",
        "trained on": f"{training['trees']:,} trees, {training['words']:,} words" if training else "unknown",
        "size": f"{len(content):,} bytes",
        "SHA-256": hashlib.sha256(content).hexdigest(),
        "made with": f"sapwood {__version__}",
    }
    lines = [
        f"# {distribution} {version}",
        "",
        "| | |",
        "|---|---|",
        *(f"| {key} | {facts[key]} |" for key in facts),
        "",
    ]
    lines += ["## Use", "", f"    pip install {_wheel_name(name, version)}"]
    lines += [f"    sapwood parse --model {name} sentences.txt", "", f'In Python: `sapwood.Parser("{name}")`.', ""]
    if figures:
        lines += [
            "## Figures",
            "",
            "As `sapwood eval` counts: brackets by the rules of EVALB, every sentence parsed.",
            "",
        ]
        lines += ["| | " + " | ".join(_FIGURES.values()) + " |", "|---" * (len(_FIGURES) + 1) + "|"]
        for what, values in figures.items():
            cells = [f"{values[key]:,}" if key == "scored" else f"{values[key]:.2f}" for key in _FIGURES]
            lines.append(f"| {what} | " + " | ".join(cells) + " |")
        lines.append("")
    if about.strip():
        lines += ["## What it is good for", "", about.strip(), ""]
    return "\n".join([*lines, "## What it was trained on", "", attribution.strip(), ""])


def _wheel_name(name: str, version: str) -> str:
    return f"sapwood_model_{name.replace('-', '_')}-{version}-py3-none-any.whl"


def _wheel(files: Mapping[str, bytes], record: str) -> bytes:
    """Return an archive of files with the list of them and their digests, as wheels have it."""
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
