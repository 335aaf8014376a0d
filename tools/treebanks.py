"""Fetch the treebanks and texts that the tables were made with, and bring them into the form that the commands take.

    python tools/treebanks.py fetch gum icepahc -o data          # download and prepare
    python tools/treebanks.py prepare gum gum-master.zip -o data # prepare what was downloaded before

`docs/data.md` says what each is, who made it, and what its licence allows. Preparing reads the archive without
unpacking it, and writes `train.mrg`, `dev.mrg` and `test.mrg`, one tree a line, as published but for line breaks (of
IcePaHC lemmas and numbers are left out, too). How many trees there are in each part is printed beside what the tables
had: the corpora grow, so a later version has more.
"""

from __future__ import annotations

import argparse
import gzip
import io
import re
import sys
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from sapwood import Bars, Tree
from sapwood.errors import InputError, SapwoodError
from sapwood.storage.files import atomic_write, explained
from sapwood.trees.formats.brackets import parse_trees

# Genres of GUM whose texts are CC BY or CC BY-SA; of Reddit the words themselves are not published.
OPEN_GENRES = ("academic", "bio", "court", "interview", "news", "voyage")
CLOSED_GENRE = "reddit"
# Of IcePaHC, in each row of 19 blocks of 50 trees the last one is for development.
BLOCK, ROW = 50, 19

Parts = dict[str, list[str]]


class Source(NamedTuple):
    """Where something comes from, its licence, how it is prepared, and how many lines the tables' version had."""

    url: str
    licence: str
    prepare: Callable[[zipfile.ZipFile], dict[str, Parts]]
    lines: dict[str, tuple[int, ...]]


def members(archive: zipfile.ZipFile, pattern: str) -> Iterator[tuple[str, str]]:
    """Yield the names (without folders) and texts of the files whose paths match, in the order of their names."""
    found = sorted(name for name in archive.namelist() if re.search(pattern, name))
    if not found:
        raise InputError(f"{archive.filename}: no file like {pattern} in it; is it the right archive?")
    for name in found:
        try:
            text = archive.read(name).decode("utf-8-sig")
        except (UnicodeDecodeError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
            raise InputError(f"{archive.filename}: {name} cannot be read ({error}); download it again") from error
        yield PurePosixPath(name).name, text


def trees_of(name: str, text: str) -> Iterator[Tree]:
    """Yield the trees of a text; errors name the file and the line."""
    return parse_trees(enumerate(io.StringIO(text), 1), source=name)


def gum(archive: zipfile.ZipFile) -> dict[str, Parts]:
    """Prepare GUM by its official split: all of it but Reddit, and the part with open licences."""
    ((_, listing),) = members(archive, r"(^|/)splits\.md$")
    part, parts = "", {}
    for line in listing.splitlines():
        if heading := re.match(r"#+\s*(\w+)\s*$", line):
            part = heading[1].lower()
        elif entry := re.match(r"\s*[*-]\s*(GUM_\w+)\s*$", line):
            parts[entry[1]] = part
    whole: Parts = {"train": [], "dev": [], "test": []}
    opened: Parts = {"train": [], "dev": [], "test": []}
    for name, text in members(archive, r"(^|/)const/GUM_\w+\.ptb$"):
        document = name.removesuffix(".ptb")
        genre = document.split("_")[1]
        if genre == CLOSED_GENRE:
            continue
        if parts.get(document) not in whole:
            raise InputError(f"{archive.filename}: splits.md does not say which part {document} belongs to")
        lines = [str(tree) for tree in trees_of(name, text)]
        whole[parts[document]] += lines
        if genre in OPEN_GENRES:
            opened[parts[document]] += lines
    return {"gum": whole, "gum-open": opened}


def icepahc(archive: zipfile.ZipFile) -> dict[str, Parts]:
    """Prepare IcePaHC: texts by their names, which begin with the year, in blocks to train and dev."""
    parts: Parts = {"train": [], "dev": []}
    number = 0
    for name, text in members(archive, r"(^|/)finished/[^/]+\.psd$"):
        for tree in trees_of(name, text):
            if (words := without_lemmas(tree)) is not None:
                parts["dev" if number // BLOCK % ROW == ROW - 1 else "train"].append(str(words))
                number += 1
    return {"icepahc": parts}


def without_lemmas(tree: Tree) -> Tree | None:
    """Return a tree of IcePaHC with words in place of `word-lemma`, and without the number of the sentence."""

    def visit(node: Tree, below: list[Tree | None]) -> Tree | None:
        if node.label == "ID":
            return None
        if node.word is not None:
            return Tree(node.label, word=word_of(node.word))
        children = [child for child in below if child is not None]
        return Tree(node.label, children) if children else None

    return tree.fold(visit)


def word_of(leaf: str) -> str:
    """Return the word of `word-lemma`: the part before the middle hyphen; traces and comments have no lemma.

    >>> [word_of(leaf) for leaf in ("menn-maður", "*T*-1", "0", ",-,", "norður-evrópa-norður-evrópa", "---")]
    ['menn', '*T*-1', '0', ',', 'norður-evrópa', '-']
    """
    hyphens = [place for place, character in enumerate(leaf) if character == "-"]
    middle = hyphens[len(hyphens) // 2] if len(hyphens) % 2 else 0
    return leaf if leaf.startswith(("*", "{", "<")) or middle == 0 else leaf[:middle]


def wsj_sample(archive: zipfile.ZipFile) -> dict[str, Parts]:
    """Prepare the sample of the Penn Treebank that NLTK has: files 1 to 159, 160 to 179 and 180 to 199."""
    parts: Parts = {"train": [], "dev": [], "test": []}
    for name, text in members(archive, r"(^|/)combined/wsj_\d{4}\.mrg$"):
        number = int(name[4:8])
        part = "train" if number < 160 else "dev" if number < 180 else "test"
        parts[part] += [str(tree) for tree in trees_of(name, text)]
    return {"wsj-sample": parts}


def brown(archive: zipfile.ZipFile) -> dict[str, Parts]:
    """Prepare the words of the Brown corpus, one sentence a line, without tags."""
    lines = []
    for _, text in members(archive, r"(^|/)c[a-r]\d\d$"):
        for line in text.splitlines():
            if line.strip():
                lines.append(" ".join(token.rpartition("/")[0] for token in line.split()))
    return {"brown": {"brown": lines}}


NLTK = "https://raw.githubusercontent.com/nltk/nltk_data/gh-pages/packages/corpora/"
SOURCES = {
    "gum": Source(
        "https://github.com/amir-zeldes/gum/archive/refs/heads/master.zip",
        "annotations CC BY 4.0; texts CC BY, CC BY-SA or CC BY-NC-SA by genre (gum-open: no NC)",
        gum,
        {"gum": (10224, 1575, 1464), "gum-open": (3707, 438, 491)},
    ),
    "icepahc": Source(
        "https://github.com/antonkarl/icecorpus/archive/refs/heads/master.zip",
        "CC BY 4.0",
        icepahc,
        {"icepahc": (65700, 3650)},
    ),
    "wsj-sample": Source(
        NLTK + "treebank.zip",
        "(C) Linguistic Data Consortium; for non-commercial research and illustration: do not share it or models of it",
        wsj_sample,
        {"wsj-sample": (3396, 273, 245)},
    ),
    "brown": Source(NLTK + "brown.zip", "free for non-commercial research", brown, {"brown": (57340,)}),
}


def prepare(name: str, archive: Path, folder: Path) -> Iterator[str]:
    """Write the parts of what is in an archive to folders, and yield a line for each that says what was written."""
    source = SOURCES[name]
    with explained(archive):
        try:
            opened = zipfile.ZipFile(archive)
        except zipfile.BadZipFile as error:
            raise InputError(f"{archive}: not a ZIP archive, or one that is cut short; download it again") from error
    with opened:
        for treebank, parts in source.prepare(opened).items():
            where = folder / treebank
            where.mkdir(parents=True, exist_ok=True)
            for part, lines in parts.items():
                write(where / (f"{part}.txt.gz" if name == "brown" else f"{part}.mrg"), lines)
            counts = tuple(len(lines) for lines in parts.values())
            same = (
                "as in the tables"
                if counts == source.lines[treebank]
                else f"the tables: {_shown(source.lines[treebank])}"
            )
            yield f"{where}: {_shown(counts)} lines ({same})"


def _shown(counts: Iterable[int]) -> str:
    return " / ".join(f"{count:,}" for count in counts)


def write(path: Path, lines: list[str]) -> None:
    """Write lines, whole or not at all."""
    content = "".join(f"{line}\n" for line in lines).encode()
    with atomic_write(path) as stream:
        stream.write(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def fetch(name: str, folder: Path) -> Path:
    """Download an archive, unless it is there, and return its path."""
    path = folder / f"{name}.zip"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    url = SOURCES[name].url
    try:
        with urllib.request.urlopen(url, timeout=60) as answer, atomic_write(path) as stream:
            total = int(answer.headers.get("Content-Length") or 0) or None
            with Bars().stage(f"{name}.zip", total, "bytes") as stage:
                while block := answer.read(1 << 16):
                    stream.write(block)
                    stage.step(len(block))
    except OSError as error:
        raise InputError(f"{url}: cannot be fetched ({error}); download it by hand and use `prepare`") from error
    return path


def main(arguments: list[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    fetching = commands.add_parser("fetch", help="download and prepare")
    fetching.add_argument("names", nargs="+", choices=SOURCES, metavar=f"{{{','.join(SOURCES)}}}")
    preparing = commands.add_parser("prepare", help="prepare an archive that is here")
    preparing.add_argument("name", choices=SOURCES)
    preparing.add_argument("archive", type=Path)
    for command in (fetching, preparing):
        command.add_argument("-o", "--output", type=Path, default=Path("data"), help="folder to write to [data]")
    options = parser.parse_args(arguments)
    try:
        for name in options.names if options.command == "fetch" else [options.name]:
            print(f"{name}: {SOURCES[name].licence}", file=sys.stderr)
            archive = fetch(name, options.output) if options.command == "fetch" else options.archive
            for line in prepare(name, archive, options.output):
                print(line)
    except SapwoodError as error:
        print(f"treebanks: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
