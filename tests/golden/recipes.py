"""Recipes of all that is recorded, and the only module here that names things of the library.

Where something is renamed (a module, an option, a field of JSON, a method), this module follows, and digests stay as
they are: fields are hashed without their names, and texts that are now spelt otherwise are listed in `SPELLINGS`.
"""

from __future__ import annotations

import contextlib
import io
import json
import platform
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg  # loads the BLAS of SciPy, too
from threadpoolctl import threadpool_info, threadpool_limits

import sapwood
from golden import values
from sapwood import kernels
from sapwood.cli.main import run as run_command
from sapwood.inference.cp_decomposition import DECODERS as CP_DECODERS
from sapwood.model import ParserModel

HERE = Path(__file__).resolve().parent
DATA = HERE.parent / "data"

# Fields of JSON that differ from run to run, or with the length of names: times, speeds and sizes of files.
DROPPED = {"bytes", "seconds", "sentences_per_second", "time"}
# Texts of outputs that have been renamed since the digests were recorded, each with what it was called then.
SPELLINGS = {
    "relaxed": "loosened",
    "flat": "fallback",
    "tensor-pcfg": "l-pcfg",
    "explicit": "steps",
    " nats per word": " nats a word",
}
# Settings that have been renamed since then: model files hold them in the order of their names.
RENAMED = {
    "anchor_shrinkage": "kappa",
    "batch_words": "words",
    "dense_learning_rate": "dense_rate",
    "embed_dropout": "word_dropout",
    "embedding": "input",
    "eval_every": "every",
    "feature_groups": "groups",
    "feature_triples": "combinations",
    "hidden": "half",
    "l1": "lasso",
    "l2": "ridge",
    "learning_rate": "rate",
    "max_features": "most_looks",
    "max_words": "longest",
    "min_count": "least",
    "min_posterior": "least",
    "min_feature_count": "least",
    "min_support": "support",
    "prune_below": "closing",
    "rare_threshold": "rare",
    "rule_prior": "strength",
    "smoothing_half_count": "fading",
    "smoothing_iterations": "settle",
    "span_hidden": "inner",
    "stepwise_batches": "batches",
    "stepwise_power": "step_power",
    "teacher_seed": "teacher_state",
    "teacher_weight": "trust",
    "unk_alpha": "unseen",
    "unlabelled_as": "text_use",
    "warmup": "hold",
    "warmup_decay": "release",
}

QUIET, JSON, OUTPUT, ONE_THREAD = ("-q",), ("--json",), ("-o",), ("--threads", "1")
# Commands that take the last of these, and those that do not take the first.
THREADED = {"train", "parse", "minimise", "induce", "eval", "tag", "compare", "diagnose", "select", "anchors"}
THREADED |= {"lm train", "lm count"}
NEVER_QUIET = {"identify", "models", "plot"}

DECODERS = ("max-rule", "max-rule-sum", "recall", "f1", "max-rule-absolute", "viterbi")
PRODUCT_DECODERS = DECODERS[:4]
FORMATS = ("brackets", "pretty", "export", "tiger", "discbracket", "tokens", "tagged", "draw", "conllu", "svg", "latex")

# Settings with which each method takes about a tenth of a second.
SMALL = "--min-support 10 --states 4"
METHODS = {
    "split-merge": "--method split-merge --cycles 2 --iterations 4 --smoothing-iterations 2",
    "pivot+em": f"--method pivot+em {SMALL} --iterations 3",
    "em": "--method em --states 2 --iterations 5 --restarts 2",
    "spectral": f"--method spectral {SMALL}",
    "cluster": f"--method cluster {SMALL} --iterations 2",
    "pivot": f"--method pivot {SMALL}",
    "pcfg": "--method pcfg",
}
ONE_CYCLE = "--method split-merge --cycles 1 --iterations 3 --smoothing-iterations 2"
# The same methods in other ways, and other things to learn from.
VARIANTS = {
    "split-merge head": f"{ONE_CYCLE} --binarise head --vertical 2",
    "split-merge collapsed": f"{ONE_CYCLE} --unaries collapsed",
    "split-merge partial": f"{ONE_CYCLE} --partial partial.mrg",
    "split-merge classes": f"{ONE_CYCLE} --text train.txt",
    "split-merge forests": "--method split-merge --cycles 1 --iterations 3 --text dev.txt --text-use em-forests",
    "em prior": "--method em --states 2 --iterations 6 --prior 0.1 --eval-every 2 --stop f1 --dev dev.mrg",
    "spectral auto": "--method spectral --min-support 10 --states auto --features simple",
    "spectral search": "--method spectral --min-support 10 --states search --searched 3 --dev dev.mrg",
    "spectral probabilities": f"--method spectral {SMALL} --weights non-negative --polish 2 --dev dev.mrg",
    "spectral one": f"--method spectral {SMALL} --nodes one --dropout 0.2 --seed 3",
    "pivot fit": f"--method pivot {SMALL} --columns fit --solver frank-wolfe",
    "pcfg left": "--method pcfg --binarise left --vertical 1 --horizontal 2 --function-tags none",
    "ensemble": "--ensemble pivot+em,spectral --min-support 10",
    "two": "--ensemble split-merge,pivot+em --cycles 1 --min-support 10 --states 4 --no-crf --no-span-scorer",
    "layer": f"{METHODS['split-merge']} --crf --no-span-scorer",
    "full": f"{METHODS['split-merge']} --crf --span-scorer --dev dev.mrg",
    "default": "--dev dev.mrg --log default.jsonl",
}
MINIMISED = {
    "merging": "full.sapwood --trees train.mrg --dev dev.mrg",
    "merging less": "split-merge.sapwood --trees train.mrg --budget 0.5 --precision single --cell-recall 1 "
    "--min-probability 0",
    "projection": "split-merge.sapwood --method projection --cost-of-states 2 --trees train.mrg",
    "projection l2": "split-merge.sapwood --tolerance 0.01 --distance",
    "projection gamma": "split-merge.sapwood --weighting gamma --budget 0.5",
    "projection base": "pcfg.sapwood --symbols base --cost-of-states 2 --trees train.mrg",
    "projection none": "pcfg.sapwood --symbols none --cost-of-states 4",
    "cp": "pcfg.sapwood --method cp --rank 12 --seed 3 --dev dev.mrg",
}
LANGUAGE_MODELS = {
    "em": "--method em --states 4 --iterations 5",
    "em batches": "--method em --states 4 --iterations 5 --stepwise-batches 3",
    "pivot": "--method pivot --states 4 --iterations 5 --anchor-count 3",
    "pivot+em": "--method pivot+em --states 4 --iterations 5 --anchor-count 3",
    "mixed-order": "--method mixed-order --states 4 --iterations 5",
    "kn": "--method kn",
    "mkn": "--method mkn --order 4",
    "mix": "--method mix --states 4 --iterations 5 --anchor-count 3",
}
INDUCED = {
    "l-pcfg": "--model tensor-pcfg --states 2 --iterations 6 --warmup 1 --warmup-decay 2",
    "dmv": "--model dmv --iterations 4 --lengths 4,10",
    "ccm": "--model ccm --iterations 3",
    "dmv+ccm": "--model dmv+ccm --iterations 3",
    "pcfg": "--model pcfg --states 2 --iterations 4 --restarts 2",
    "pcfg-i": "--model pcfg-i --states 2 --iterations 4",
    "pcfg-ie": "--model pcfg-ie --states 2 --iterations 4 --estimate variational --prior 0.2",
    "dep-i": "--model dep-i --iterations 4 --anneal 0.5",
    "dep-ie": "--model dep-ie --iterations 4",
    "dep-ies": "--model dep-ies --iterations 4",
}


def _file(kind: str, name: str) -> str:
    return f"{kind} {name}".strip().replace(" ", "-") + ".sapwood"


# Files that commands make of other files; a command begins with one word, or with two after `lm`.
MODELS = {
    **{_file("", name): f"train train.mrg {rest}" for name, rest in (METHODS | VARIANTS).items()},
    "tagger.sapwood": f"train --sequences train.tagged --dev dev.tagged {METHODS['split-merge']}",
    **{_file("minimised", name): f"minimise {rest}" for name, rest in MINIMISED.items()},
    **{_file("lm", name): f"lm train train.txt --dev dev.txt {rest}" for name, rest in LANGUAGE_MODELS.items()},
    **{_file("induced", name): f"induce train.mrg --tags {rest}" for name, rest in INDUCED.items()},
    "induced-words.sapwood": f"induce train.txt --classes 6 {INDUCED['l-pcfg']}",
    "train.counts": "lm count train.txt --order 3 --min-count 2",
    "parts.npz": "anchors matrix.csv --states 2",
    "small.wcfg": "minimise grammar.txt --cost-of-states 2",
    "parts": "split train.mrg --dev 10% --test 30 --seed 3",
}
FILES = {
    "train.txt": "convert train.mrg --normalise --to tokens",
    "dev.txt": "convert dev.mrg --normalise --to tokens",
    "train.tagged": "convert train.mrg --normalise --to tagged",
    "dev.tagged": "convert dev.mrg --normalise --to tagged",
    "parsed.mrg": "parse dev.txt -m em.sapwood",
    "partial.mrg": "select train.mrg dev.txt -n 10 --partial --shortest 5 -m pcfg.sapwood",
}
# Files that are there from the beginning.
TEXTS = {
    "matrix.csv": ",x,y,z\nc,0.0875,0.0375,0.0\nd,0.0525,0.135,0.075\ne,0.035,0.0825,0.045\nf,0.0,0.27,0.18\n",
    "grammar.txt": "S -> A B [0.4] | C B [0.6]\nA -> 'x' [0.7] | 'y' [0.3]\nC -> 'x' [0.2] | 'y' [0.8]\n"
    "B -> 'z' [0.8] | S B [0.2]\n",
    "raw.txt": "The dog, which didn't (often) bark, sat. \"Is it Mr. Okafor's?\" she asked;\n"
    "$3.50 isn't much...\n\nA house-warming: 10 a.m. to 5 p.m.\nWho'd come?\n",
}

# Commands with JSON as their output.
REPORTS = {
    "parse": "parse dev.txt -m full.sapwood --marginals --alternatives 3",
    "parse states": "parse dev.txt -m split-merge.sapwood --show-states --alternatives 2 --marginals",
    "parse exact": "parse dev.txt -m split-merge.sapwood --exact --decoder viterbi",
    "parse tags": "parse dev.tagged --tags -m full.sapwood",
    "parse raw": "parse dev.txt --raw -m full.sapwood",
    "parse product": "parse dev.txt -m split-merge.sapwood -m pivot+em.sapwood --marginals",
    "parse long": "parse dev.txt --max-words 8 -m split-merge.sapwood",
    "tag score": "tag dev.tagged -m tagger.sapwood --score",
    "tag score of a parser": "tag dev.tagged -m full.sapwood --score",
    "eval": "eval dev.mrg -m full.sapwood --calibration --resamples 200",
    "eval gold tags": "eval dev.mrg -m em.sapwood --gold-tags --resamples 200",
    "eval files": "eval dev.mrg parsed.mrg --params collins --resamples 200",
    "eval sentences": "eval dev.mrg parsed.mrg --sentences 10",
    "eval unlabelled": "eval dev.mrg parsed.mrg --unlabelled",
    "eval induced": "eval dev.mrg -m induced-l-pcfg.sapwood --unlabelled",
    "compare": "compare dev.mrg em.sapwood parsed.mrg --resamples 200",
    "compare models": "compare dev.mrg em.sapwood full.sapwood --resamples 200",
    "inspect": "inspect full.sapwood",
    "inspect bundle": "inspect default.sapwood",
    "inspect spectral": "inspect spectral.sapwood",
    "inspect treebank": "inspect train.mrg",
    "inspect symbol": "inspect split-merge.sapwood --symbol NP --treebank dev.mrg",
    "inspect induced": "inspect induced-dmv+ccm.sapwood",
    "diagnose": "diagnose train.mrg --states 4 --min-count 50 --resamples 20",
    "diagnose simple": "diagnose train.mrg --states 4 --min-count 50 --resamples 20 --features simple",
    "next": "select train.mrg dev.txt -n 10 --shortest 5 -m full.sapwood",
    "search": "search NP<PP train.mrg",
    "plot log": "plot default.jsonl",
    "plot spectra": "plot spectral.sapwood",
    "identify": "identify --model pcfg-ie --words 4 --states 3 --length 3 --moments 123",
    "identify eta": "identify --model pcfg-ie --words 4 --states 3 --length 3 --moments 123eta --eta random",
    "identify pcfg": "identify --model pcfg --words 3 --states 2 --length 3 --length 4",
    "identify pcfg-i": "identify --model pcfg-i --words 3 --states 3 --length 5 --length 2 --moments 12",
    "identify pcfg-ies": "identify --model pcfg-ies --words 3 --states 2 --length 3 --moments ***",
    "identify dep-i": "identify --model dep-i --words 3 --length 3 --moments **",
    "identify dep-ie": "identify --model dep-ie --words 5 --length 2",
    "identify dep-ies": "identify --model dep-ies --words 4 --length 3",
    "models": "models",
    "lm show": "lm show lm-mix.sapwood",
    "lm show counts": "lm show train.counts",
    "lm generate": "lm generate lm-mix.sapwood -n 10 --seed 7",
    "lm next": "lm next lm-mix.sapwood The old",
    "lm topics": "lm topics lm-em.sapwood --top 5 --by lift --min-count 3",
    "lm nearest": "lm nearest lm-pivot+em.sapwood garden",
    "lm nearest by cosine": "lm nearest lm-pivot+em.sapwood garden --likeness cosine",
    "lm score": "lm score lm-mkn.sapwood dev.txt",
    **{f"lm eval {name}": f"lm eval {_file('lm', name)} dev.txt" for name in LANGUAGE_MODELS},
    "lm eval words": "lm eval lm-mix.sapwood dev.txt --no-ends",
}
# Commands with other text as their output.
PRINTED = {
    **{f"parse to {name}": f"parse dev.txt -m em.sapwood --to {name}" for name in FORMATS},
    **{f"convert to {name}": f"convert dev.mrg --normalise --to {name}" for name in FORMATS},
    **{f"parse with induced {name}": f"parse dev.tagged --tags -m {_file('induced', name)}" for name in INDUCED},
    "parse words with induced": "parse dev.txt -m induced-words.sapwood",
    "convert as it is": "convert dev.mrg --to export",
    "convert binarised": "convert dev.mrg --binarise right --vertical 2 --horizontal 1",
    "convert by heads": "convert dev.mrg --binarise head --function-tags all --keep-tag -SBJ",
    "next": "select train.mrg dev.txt -n 10 --shortest 5 -m full.sapwood",
    "next partial": "select train.mrg dev.txt -n 10 --shortest 5 -m full.sapwood --partial",
    "search subtrees": "search VP<<PP train.mrg --subtrees -n",
    "tag": "tag dev.txt -m tagger.sapwood",
    "sample": "sample split-merge.sapwood -n 20 --seed 3",
    "sample short": "sample pcfg.sapwood -n 20 --max-words 6 --unknown --to tokens",
    "sample ensemble": "sample two.sapwood -n 20 --seed 3",
    "tokenise": "tokenise raw.txt -m split-merge.sapwood",
    "tokenise lines": "tokenise raw.txt -m split-merge.sapwood --lines sentences",
    "tokenise characters": "tokenise raw.txt -m split-merge.sapwood --tokeniser characters",
    "lm export arpa": "lm export lm-mkn.sapwood -o -",
    "lm export word2vec": "lm export lm-em.sapwood -o - --to word2vec --likeness hellinger",
    "lm score words": "lm score lm-kn.sapwood dev.txt --words",
}


def environment() -> dict[str, str]:
    """Return what the rounding of numbers depends on besides this package."""
    compiled = Path(kernels._module.__file__ or "").read_bytes()
    compilers = re.findall(rb"GCC: \([^)]*\) [\d.]+|clang version [\d.]+", compiled)
    # Other packages may have brought their own, and `scipy.io` has threads that are not BLAS.
    blas = [one for one in threadpool_info() if one["user_api"] == "blas" and re.search("numpy|scipy", one["filepath"])]
    features = np._core._multiarray_umath.__cpu_features__
    return {
        "kernels": kernels.variant,
        "compiler": ", ".join(sorted({name.decode() for name in compilers})),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "blas": ", ".join(sorted({f"{one.get('architecture')} {one['version']}" for one in blas})),
        "processor": " ".join(sorted(name for name, there in features.items() if there)),
        "platform": f"{sys.platform} {platform.machine()} {' '.join(platform.libc_ver())}",
    }


class Bench:
    """A folder in which commands are run, and files are made when something needs them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._outputs: dict[str, Any] = {}
        for name in ("train.mrg", "dev.mrg"):
            shutil.copy(DATA / name, folder)
        shutil.copy(HERE / "sentences.txt", folder)
        for name, text in TEXTS.items():
            (folder / name).write_text(text)

    def make(self, name: str) -> Any:
        """Make a file of `MODELS` or `FILES`, once, and return what was printed."""
        if name not in self._outputs:
            command = MODELS.get(name) or FILES[name]
            more = JSON if name in MODELS else ()
            self._outputs[name] = self.run(command, *OUTPUT, name, *more)
        return self._outputs[name]

    def path(self, name: str) -> Path:
        """Return the path of a file, which is made if need be."""
        self.make(name)
        return self.folder / name

    def load(self, name: str) -> Any:
        """Return what is in a model file."""
        return sapwood.load(self.path(name))

    def model(self, name: str) -> ParserModel:
        """Return the model in a file."""
        found = self.load(name)
        assert isinstance(found, ParserModel)
        return found

    def report(self, command: str) -> Any:
        """Run a command with JSON as its output."""
        return self.run(command, *JSON)

    def run(self, command: str, *more: str) -> Any:
        """Run a command; returns its JSON, a list of it if there are several lines, or else its text."""
        words = command.split()
        name = " ".join(words[: 2 if words[0] == "lm" else 1])
        for word in words:
            if word in MODELS or word in FILES:
                self.make(word)
            elif word == "default.jsonl" and words[0] != "train":
                self.make("default.sapwood")
        if name not in NEVER_QUIET:
            words += QUIET
        if name in THREADED and (name != "eval" or "-m" in words):
            words += ONE_THREAD
        with contextlib.chdir(self.folder), threadpool_limits(1), _captured() as out:
            code = _exit_code([*words, *more])
            sys.stdout.flush()
            text = out.getvalue().decode()
        assert not code, f"sapwood {command}: exit code {code}"
        if JSON[0] not in more:
            return text.splitlines()
        try:
            return json.loads(text)
        except ValueError:
            return [json.loads(line) for line in text.splitlines()]


def _exit_code(arguments: Sequence[str]) -> Any:
    try:
        run_command(list(arguments))
    except SystemExit as ended:
        return ended.code
    return 0


@contextlib.contextmanager
def _captured() -> Iterator[io.BytesIO]:
    before, out = sys.stdout, io.BytesIO()
    sys.stdout = io.TextIOWrapper(out, encoding="utf-8")
    try:
        yield out
    finally:
        sys.stdout = before


def _sentences(count: int | None = None) -> list[list[str]]:
    return [line.split() for line in (HERE / "sentences.txt").read_text().splitlines()][:count]


def _parser(bench: Bench, model: str, **settings: Any) -> sapwood.Parser:
    loaded = bench.model(model)
    if not settings.pop("closing", True):
        loaded = loaded.replace(cell_pruner=None)
    return sapwood.Parser(loaded, **settings)


# Entries: each a function of a bench that returns a value.


def _grammar(name: str, bench: Bench) -> Any:
    """Weights of the grammars alone."""
    return [[list(one.symbols), values.arrays_in(one)] for one in bench.model(name).grammars]


def _layer(name: str, bench: Bench) -> Any:
    layer = bench.model(name).crf
    return [values.arrays_in(layer), layer.bits, layer.threshold]


def _network(name: str, bench: Bench) -> Any:
    network = bench.model(name).span_scorer
    # Recorded before there were encoders, of which these networks have none.
    assert network.encoder is None
    parts = [network.dims[:6], network.word_features, network.labels, network.tags, network.prune_below]
    return [values.arrays_in(network), *parts]


def _closing(name: str, bench: Bench) -> Any:
    closing = bench.model(name).cell_pruner
    return [values.arrays_in(closing), closing.threshold]


def _cp(name: str, bench: Bench) -> Any:
    return values.arrays_in(bench.model(name).cp)


def _arrays(name: str, bench: Bench) -> Any:
    return values.arrays_in(bench.load(name))


def _matrices(name: str, bench: Bench) -> Any:
    with np.load(bench.path(name)) as arrays:
        return values.arrays_in([value for value in arrays.values() if value.dtype.kind in "biuf"])


def _lines(name: str, bench: Bench) -> Any:
    return bench.path(name).read_text().splitlines()


def _files(name: str, bench: Bench) -> Any:
    """Lines of all files in a folder."""
    return [[path.name, path.read_text().splitlines()] for path in sorted(bench.path(name).iterdir())]


def _made(name: str, bench: Bench) -> Any:
    return bench.make(name)


def _reported(command: str, bench: Bench) -> Any:
    return bench.report(command)


def _printed(command: str, bench: Bench) -> Any:
    return bench.run(command)


def _log(bench: Bench) -> Any:
    bench.make("default.sapwood")
    return [json.loads(line) for line in (bench.folder / "default.jsonl").read_text().splitlines()]


def _parses(model: str, settings: Mapping[str, Any], bench: Bench) -> Any:
    found = _parser(bench, model, **settings).parse(_sentences())
    return [[str(one.tree), one.log_probability, one.status] for one in found]


def _marginals(model: str, bench: Bench) -> Any:
    return [one.marginals for one in _parser(bench, model, marginals=True).parse(_sentences())]


def _posteriors(model: str, bench: Bench) -> Any:
    parser = _parser(bench, model)
    return [parser.posteriors(words, least=1e-4) for words in _sentences(60)]


def _trees(derivations: Sequence[Any]) -> list[Any]:
    return [[str(one.tree), one.log_probability] for one in derivations]


def _k_best(model: str, bench: Bench) -> Any:
    parser = _parser(bench, model)
    return [_trees(parser.k_best(words, 5)) for words in _sentences(80)]


def _required(model: str, bench: Bench) -> Any:
    """Trees with a phrase over the first two words, and without one."""
    parser = _parser(bench, model)
    phrases: tuple[Any, ...] = ((0, 2, None), (0, 2, None, True), (0, 2, "NP"))
    some = [words for words in _sentences(60) if len(words) > 2]
    return [_trees(parser.k_best(words, 2, phrases=[one])) for words in some for one in phrases]


def _samples(model: str, bench: Bench) -> Any:
    parser = _parser(bench, model)
    return [list(map(str, parser.sample(words, 5, random_state=n))) for n, words in enumerate(_sentences(80))]


def _tree_probabilities(model: str, bench: Bench) -> Any:
    parser = _parser(bench, model)
    return [parser.tree_log_probability(tree) for tree in sapwood.read_trees(bench.folder / "dev.mrg")]


def _text(model: str, bench: Bench) -> Any:
    """Parses of plain text, cut up by the model's tokeniser."""
    text = "The dog, which didn't (often) bark, sat. \"Is it Mr. Okafor's?\" she asked; $3.50 isn't much..."
    return [[str(one.tree), one.words, one.offsets] for one in _parser(bench, model).parse_text(text)]


# Models and settings whose parses are recorded by each decoder that goes with them.
PARSERS: dict[str, tuple[str, dict[str, Any], tuple[str | None, ...]]] = {
    "plain": ("split-merge.sapwood", {}, (None, *DECODERS)),
    "exact": ("split-merge.sapwood", {"threshold": 0}, DECODERS),
    "double": ("split-merge.sapwood", {"precision": "double"}, (None,)),
    "pruned": ("split-merge.sapwood", {"threshold": 0.01}, (None,)),
    "pcfg": ("pcfg.sapwood", {}, (None, *DECODERS)),
    "real": ("spectral.sapwood", {}, DECODERS[:5]),
    "projected": ("minimised-projection.sapwood", {}, DECODERS[:5]),
    "layer": ("layer.sapwood", {}, (None, *DECODERS)),
    "layer off": ("layer.sapwood", {"crf": False}, (None,)),
    "network": ("full.sapwood", {}, (None, *DECODERS)),
    "network off": ("full.sapwood", {"crf": False}, (None, *DECODERS)),
    "cp": ("minimised-cp.sapwood", {}, (None, *CP_DECODERS)),
    "closing": ("minimised-merging.sapwood", {}, (None, *DECODERS)),
    "closing off": ("minimised-merging.sapwood", {"closing": False}, (None,)),
    "closing alone": ("minimised-merging.sapwood", {"crf": False}, (None, *DECODERS)),
    "product": ("ensemble.sapwood", {}, (None, *PRODUCT_DECODERS)),
    "default": ("default.sapwood", {}, (None, *PRODUCT_DECODERS)),
}
# Models of which more than parses is recorded.
ASKED = {
    "plain": "split-merge.sapwood",
    "real": "spectral.sapwood",
    "layer": "layer.sapwood",
    "network": "full.sapwood",
    "closing": "minimised-merging.sapwood",
    "product": "ensemble.sapwood",
    "default": "default.sapwood",
}
REAL = {"real", "product", "default"}  # those with real weights, from which nothing can be drawn


def _entries() -> Iterator[tuple[str, Callable[[Bench], Any]]]:
    for name in (*METHODS, *VARIANTS):
        yield f"weights {name}", partial(_grammar, _file("", name))
        yield f"json train {name}", partial(_made, _file("", name))
    for name in ("layer", "full", "default"):
        yield f"weights of layer, {name}", partial(_layer, _file("", name))
    for name in ("full", "default"):
        yield f"weights of network, {name}", partial(_network, _file("", name))
    yield "weights of closing", partial(_closing, "minimised-merging.sapwood")
    yield "weights tagger", partial(_grammar, "tagger.sapwood")
    yield "json train tagger", partial(_made, "tagger.sapwood")
    yield "log of training", _log
    for name in MINIMISED:
        yield f"weights minimised {name}", partial(_grammar, _file("minimised", name))
        yield f"json minimise {name}", partial(_made, _file("minimised", name))
    yield "weights of cp", partial(_cp, "minimised-cp.sapwood")
    yield "text split", partial(_files, "parts")
    yield "json split", partial(_made, "parts")
    yield "text minimised grammar", partial(_lines, "small.wcfg")
    yield "json minimise grammar", partial(_made, "small.wcfg")
    for name in LANGUAGE_MODELS:
        yield f"weights lm {name}", partial(_arrays, _file("lm", name))
        yield f"json lm train {name}", partial(_made, _file("lm", name))
    yield "weights lm counts", partial(_arrays, "train.counts")
    yield "json lm count", partial(_made, "train.counts")
    for name in (*INDUCED, "words"):
        yield f"weights induced {name}", partial(_arrays, _file("induced", name))
        yield f"json induce {name}", partial(_made, _file("induced", name))
    yield "weights decomposed", partial(_matrices, "parts.npz")
    yield "json decompose", partial(_made, "parts.npz")
    for name, (model, settings, decoders) in PARSERS.items():
        for decoder in decoders:
            yield f"parses {name}, {decoder or 'as usual'}", partial(_parses, model, {**settings, "decoder": decoder})
    for name, model in ASKED.items():
        yield f"marginals {name}", partial(_marginals, model)
        yield f"posteriors {name}", partial(_posteriors, model)
        yield f"k-best {name}", partial(_k_best, model)
        yield f"required phrases {name}", partial(_required, model)
        if name not in REAL:
            yield f"samples {name}", partial(_samples, model)
        yield f"tree probabilities {name}", partial(_tree_probabilities, model)
        yield f"plain text {name}", partial(_text, model)
    for name, command in REPORTS.items():
        yield f"json {name}", partial(_reported, command)
    for name, command in PRINTED.items():
        yield f"text {name}", partial(_printed, command)


ENTRIES: dict[str, Callable[[Bench], Any]] = dict(_entries())


def value(name: str, bench: Bench) -> Any:
    """Return the value of an entry, ready for its digest."""
    with threadpool_limits(1):
        return values.canonical(_reordered(ENTRIES[name](bench)), dropped=DROPPED, spellings=SPELLINGS)


def _reordered(part: Any) -> Any:
    """Return JSON whose sorted fields are in the order of their former names."""
    if isinstance(part, list):
        return [_reordered(one) for one in part]
    if not isinstance(part, dict):
        return part
    names = list(part)
    if names == sorted(names):
        names.sort(key=lambda name: RENAMED.get(name, name))
    return {name: _reordered(part[name]) for name in names}
