"""What the commands of `sapwood lm` share: options, and reading models, texts and counts."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import math
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sapwood.cli import _common as common
from sapwood.errors import InputError, ModelError, UsageError
from sapwood.files import STANDARD_STREAM, explained, is_regular, name_of
from sapwood.run.progress import Progress
from sapwood.storage import read_header

if TYPE_CHECKING:
    import numpy as np

    from sapwood.lm.counts import Counts
    from sapwood.lm.latent_model import LatentBigram
    from sapwood.lm.models import AnyModel

BOUNDARIES = ("sentence", "stream")
LONGEST_ORDER = 8
# What kinds of files hold, as messages say it.
_MODELS = {
    "latent-bigram": "a latent bigram model",
    "mixed-order": "a mixed-order model",
    "mixture": "a mixture of language models",
    "ngram-model": "an n-gram model",
}
_HELD = {
    **_MODELS,
    "counts": "counts",
    "model": "a grammar",
    "bundle": "grammars",
    "corpus": "a treebank",
    "checkpoint": "the state of a training run",
}
# What a first run compiles its kernels with.
_TINY = "one two three\ntwo one\nthree two one two\n"
ARPA_NAMES = (".arpa", ".arpa.gz")
_ARPA_START = b"\\data\\"

threads_option = click.option(
    "--threads", type=click.IntRange(min=1, max=1024), help="Threads to work with. [default: all cores]"
)
top_option = click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="How many to show.")
seed_option = click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of every random choice."
)
vocabulary_option = click.option(
    "--vocabulary", type=click.IntRange(min=1), help="Keep only so many words, the most frequent ones."
)
memory_option = click.option(
    "--memory",
    type=click.FloatRange(0.001, 1e6),
    default=4.0,
    show_default=True,
    help="Gigabytes to count in, besides the vocabulary; what needs more goes to temporary files.",
)


def kind_of(path: str) -> str | None:
    """Return what kind of sapwood file this is, or None if it is none; a pipe can be none."""
    if not is_regular(path):
        return None
    try:
        return str(read_header(path).get("kind"))
    except ModelError:
        if path.endswith(".sapwood"):  # a damaged one
            raise
        return None


def held(kind: str) -> str:
    """Return what a file of some kind holds, as messages say it."""
    return _HELD.get(kind, f"a {kind}")


@contextlib.contextmanager
def tiny_text() -> Iterator[str]:
    """Make a file of a few words, to compile kernels with before the work begins."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tiny.txt"
        path.write_text(_TINY, encoding="utf-8")
        yield str(path)


# Models.


def is_arpa(path: str) -> bool:
    """Return whether a file is in the ARPA format, by its name or how it begins."""
    if path.endswith(ARPA_NAMES):
        return True
    try:
        with explained(path), Path(path).open("rb") as stream:
            start = stream.read(4096)
        if start.startswith(b"\x1f\x8b"):
            start = zlib.decompressobj(16 + zlib.MAX_WBITS).decompress(start, 4096)
    except (zlib.error, gzip.BadGzipFile):
        return False
    return start.lstrip().startswith(_ARPA_START)


def load_model(path: str, progress: Progress) -> AnyModel:
    """Read a language model of any kind, ARPA files too, and make it ready to go."""
    if path == STANDARD_STREAM or (Path(path).exists() and not Path(path).is_dir() and not is_regular(path)):
        raise UsageError(f"{name_of(path)}: a model is read from a file; name one")
    common.check_inputs(path)
    arpa = is_arpa(path)
    if not arpa:
        try:
            kind = str(read_header(path).get("kind"))
        except ModelError as error:
            raise ModelError(
                f"{path}: no language model, or damaged at its start; `sapwood lm train` writes models"
            ) from error
        if kind not in _MODELS:
            raise ModelError(f"{path}: holds {held(kind)}, not a language model; `sapwood lm train` writes those")
    import numpy as np

    from sapwood.lm.arpa import read_arpa
    from sapwood.lm.models import load_model as load
    from sapwood.lm.vocabulary import UNKNOWN

    if not arpa:
        model = load(path)
    elif path.endswith(".gz") or not _is_compressed(path):
        model = read_arpa(path)
    else:
        raise InputError(f"{path}: this is compressed; give it a name that ends in .gz")
    with common.compiling_note(progress):
        model.log_probabilities(np.array([UNKNOWN], np.int32))
    return model


def _is_compressed(path: str) -> bool:
    with explained(path), Path(path).open("rb") as stream:
        return stream.read(2) == b"\x1f\x8b"


def latent_part(model: AnyModel, path: str) -> LatentBigram:
    """Return the model if it has states, else its first part that has; that of the word just before, of several."""
    from sapwood.lm.latent_model import LatentBigram
    from sapwood.lm.mixed_order import MixedOrder
    from sapwood.lm.mixture import Mixture

    waiting: list[Any] = [model]
    while waiting:
        part = waiting.pop(0)
        if isinstance(part, LatentBigram):
            return part
        if isinstance(part, MixedOrder):
            return part.lags[0]
        if isinstance(part, Mixture):
            waiting = [*part.models, *waiting]
    raise ModelError(f"{path}: an n-gram model, which has no hidden states; train one with --method em, for instance")


# Texts and counts.


def encode(paths: Sequence[str], model: Any, boundaries: Any = None) -> Iterator[np.ndarray]:
    """Yield the ids of texts, as a model (or counts) sees them."""
    from sapwood.lm.text import encode_text

    for path in paths:
        if (kind := kind_of(path)) is not None:
            raise ModelError(f"{path}: holds {held(kind)}, not text")
    return encode_text(paths, model.vocabulary, boundaries or model.boundaries)


def check_boundaries(boundaries: str | None, model: AnyModel, path: str) -> None:
    """Refuse to find sentences for a model that knows none."""
    if boundaries == "sentence" and model.boundaries == "stream":
        raise UsageError(f"--boundaries sentence: {path} is a model of a stream, which knows no ends of sentences")


def read_counts(
    paths: Sequence[str],
    *,
    order: int | None,
    default_order: int = 2,
    min_count: int,
    vocabulary: int | None,
    boundaries: Any,
    threads: int,
    memory: float,
    progress: Progress,
) -> Counts:
    """Count texts, read counts files, and merge all of that.

    Parameters
    ----------
    paths
        Texts and counts files in any order.
    order, boundaries
        By default (`None`) those of the counts files; of texts alone `default_order`, and sentences.
    min_count, vocabulary
        Words seen less often in all, and all but the most frequent, become `<unk>`.
    threads, memory, progress
        As `count_text` takes them, but for the memory, which is in gigabytes.
    """
    from sapwood.lm.counts import Counts, count_text

    common.check_inputs(*paths)
    kinds = [(path, kind_of(path)) for path in paths]
    for path, kind in kinds:
        if kind is not None and kind != "counts":
            raise ModelError(f"{path}: holds {held(kind)}, neither text nor counts")
    parts = [Counts.load(path, mmap=True) for path, kind in kinds if kind is not None]
    texts = [path for path, kind in kinds if kind is None]
    if parts:
        order = order if order is not None else parts[0].order
        boundaries = boundaries or parts[0].boundaries
        if {part.boundaries for part in parts} != {boundaries}:
            found = " and ".join(sorted({part.boundaries for part in parts}))
            raise UsageError(f"the counts were made with --boundaries {found}, not {boundaries}")
        if order > (most := min(part.order for part in parts)):
            raise UsageError(f"these counts have n-grams of orders up to {most}; --order {order} needs longer ones")
        parts = [dataclasses.replace(part, order=order, tables=part.tables[:order]) for part in parts]
    if texts:
        order = order if order is not None else default_order
        with common.compiling_note(progress), tiny_text() as tiny:
            count_text(tiny, order=order, threads=threads)
        parts.append(
            count_text(
                texts,
                order=order,
                # What one of several parts has too seldom, another may have more often.
                min_count=1 if parts else min_count,
                max_words=None if parts else vocabulary,
                boundaries=boundaries or "sentence",
                threads=threads,
                memory=int(memory * 2**30),
                progress=progress,
            )
        )
    counts = parts[0]
    for part in parts[1:]:
        counts = counts.merge(part)
    counts = counts.cut(min_count, vocabulary)
    if not counts.tokens:
        raise InputError(f"{', '.join(map(name_of, paths))}: no words in it")
    return counts


def finite(value: float) -> float | None:
    """Return the number as JSON can hold it."""
    return value if math.isfinite(value) else None
