"""Every benchmark runs, on input so small that its figures mean nothing."""

from __future__ import annotations

import gzip
import importlib.util
import json
import re
import resource
import shlex
import sys
from pathlib import Path

import pytest

from _requirements import require
from helpers import tiny_encoder
from helpers.gap_trees import placed
from helpers.made_up import made_up_treebank
from sapwood.trees.formats.discbracket import format_discbracket
from sapwood.trees.formats.registry import format_as

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
SCRIPTS = sorted(path.stem for path in BENCHMARKS.glob("*.py") if not path.stem.startswith("_"))
NUMBER = r"[0-9.,]+"
F1 = r"(100|[5-9][0-9])\.[0-9]{2}"
SPREAD = r"(100|[5-9][0-9])\.[0-9] ± [0-9.]+"
slow = pytest.mark.slow
# Scripts that need data, and the arguments that name data which is not there.
WITH_DATA = dict.fromkeys(
    [
        "accuracy", "annotating", "annotation", "committee", "crf_groups", "engine", "few_trees", "gaps",
        "half_annotated", "held_out", "kbest", "kills", "lines", "low_rank", "minimising_defaults", "observed",
        "probabilities", "reparsing", "serve", "simple_pcfg", "sizes", "spectral", "spectral_weights", "state_search",
        "table1", "table2", "tagging", "treebank_search", "without_trees",
    ],
    "{nowhere}",
)  # fmt: skip
WITH_DATA |= dict.fromkeys(["cluster_kills", "heads"], "{nowhere} {nowhere}")
WITH_DATA |= {"distillation": "{nowhere} --teacher {nowhere} --text {nowhere}"}
WITH_DATA |= {"adaptation": "{nowhere} {nowhere}"}
WITH_DATA |= {"encoders": "{nowhere} --encoder {nowhere}"}
WITH_DATA |= {"cluster": "{nowhere} {nowhere} --json {nowhere}"}
WITH_DATA |= {"peers": "{nowhere} --models {nowhere}"}
WITH_DATA |= {"minimising": "{nowhere} --models {nowhere} --results {nowhere}"}

# What to run: `{trees}` is a directory with a treebank, `{text}` a file of text, `{new}` a directory for what is
# written. What is printed must match, every pattern on a line.
RUNS = [
    pytest.param(
        "engine",
        "{trees} --methods pcfg --also {trees}/dev.mrg --first 3 --repeats 1 --states 1 2 --sentences 4 "
        "--keep {new} --json {new}/a.json",
        [
            rf"fixed NumPy workload {NUMBER} s",
            rf"pcfg +{NUMBER} +{NUMBER} +{NUMBER} +{NUMBER}",
            rf"pcfg +trees +{NUMBER} +{NUMBER} +{NUMBER} +{NUMBER} +{F1} +0",
            "4 sentences of up to 30 words",
            r" +2 ",
        ],
        id="engine",
    ),
    pytest.param(
        "reparsing",
        "{trees}/dev.mrg --words 2 30 --sentences 4 --corrections 1",
        [rf"corrections +{NUMBER}", rf"p95_cpu_ms +{NUMBER}", rf"p95_wall_ms +{NUMBER}"],
        id="reparsing",
    ),
    pytest.param(
        "sizes",
        "{trees} --sizes 20 40 --methods pcfg spectral default --seeds 0 --part dev --results {new}/a.jsonl "
        "--picture {new}/a.svg",
        [r"\| trees \| 20 \| 40 \|", rf"\| default \| {NUMBER}, {NUMBER} s \| {NUMBER}, {NUMBER} s \|"],
        id="sizes",
    ),
    pytest.param(
        "crf_groups",
        "{trees} --seeds 0 1 --cycles 1 --epochs 1 --models {new} --results {new}/a.jsonl",
        [
            rf"\| without pairs \| {NUMBER} \| {NUMBER} ± .* \| [-+]{NUMBER} ± {NUMBER} \| [-+]{NUMBER} to ",
            rf"\| of the gold trees \| {NUMBER} \| {NUMBER} \| {NUMBER} % \|",
            rf"\| gained by CRF and span scorer \| -?{NUMBER} \|",
        ],
        id="crf_groups",
        marks=slow,
    ),
    pytest.param(
        "held_out",
        "{trees} --cycles 1 --epochs 1",
        [rf"\| 0 \| 0 \| {F1} ", rf"\| {NUMBER} \| {NUMBER} \| {F1} \| {NUMBER} \| {F1} \| {NUMBER} \|"],
        id="held_out",
    ),
    pytest.param(
        "simple_pcfg",
        "{trees} --configurations right-branching",
        [rf"right-branching .*{NUMBER}"],
        id="simple_pcfg",
    ),
    pytest.param(
        "committee",
        "{trees} --members dmv:4 dmv:6 --seeds --parts test",
        [rf"right-branching .*{NUMBER}", rf"committee .*{NUMBER}"],
        id="committee",
        marks=slow,
    ),
    pytest.param(
        "few_trees",
        "{trees} --trees 10 --sentences 20 --rows default --records --store {new}/a.jsonl",
        [rf"default .*{NUMBER}"],
        id="few_trees",
        marks=slow,
    ),
    pytest.param(
        "peers",
        "{trees} --models {new} --only other --rounds 1 --store {new}/a.jsonl "
        "--peer other '{{python}} -m sapwood train {{train}} --method pcfg -o {{model}} -q' "
        "'{{python}} -m sapwood parse {{tokens}} -m {{model}} -o {{output}} -q'",
        [
            r"berkeleyparser: skipped: no jar: --berkeley",
            r"sapwood: skipped: not in --only",
            rf"\| other \| {NUMBER} \| {NUMBER} \| {NUMBER} ",
        ],
        id="peers",
    ),
    pytest.param(
        "heads",
        "{trees}/dev.mrg {trees}/dev.conllu",
        [r"same head: 100.0% of all, 100.0% without punctuation"],
        id="heads",
    ),
    pytest.param(
        "serve",
        "{trees}/dev.mrg --setups 1x2 2x1 --clients 3 --seconds 1 --queue 2 --parsed 20",
        [r'"200": [0-9]+', r'"broken": 0', rf'"p99_ms": {NUMBER}', rf'"per_cpu_second_share": {NUMBER}'],
        id="serve",
    ),
    pytest.param(
        "conformance",
        "1 --examples 1",
        [r"seeds 1 to 1: \{200: [1-9].* 400: [1-9]"],
        id="conformance",
        marks=[slow, pytest.mark.skipif(not importlib.util.find_spec("schemathesis"), reason="needs schemathesis")],
    ),
    pytest.param(
        "lines",
        "{trees}/train.mrg",
        [r"sentences +2 lines [0-9.]+% ", r"titles +2 lines [0-9.]+% ", r"1 wrapped +30 columns [0-9.]+% "],
        id="lines",
    ),
    pytest.param(
        "bad_clients",
        "--bad 16 --good 1 --seconds 3 --threads 1",
        [
            r'"200": [1-9]',
            rf'"p99_seconds": {NUMBER}',
            r'"flood": [1-9]',
            rf'"server_cpu_seconds": {NUMBER}',
            rf'"loop_busy_p99_seconds": {NUMBER}',
        ],
        id="bad_clients",
        marks=slow,
    ),
    pytest.param(
        "observed", "{trees}/train.mrg --states 1 2 --threads 1", ["in 1 shards", " +1 +1 ", " +2 +1 "], id="observed"
    ),
    pytest.param(
        "accuracy",
        "{trees} --configurations pcfg em --seeds 0 --store {new}/a.jsonl",
        [rf"\| trees/pcfg \| 0 \| {NUMBER} \| {NUMBER} \| {F1} \| {F1} \| {NUMBER} \|", r"\| trees/em \| 0 \|"],
        id="accuracy",
    ),
    pytest.param(
        "kbest",
        "--grammars 4 --count 2 --seed 3",
        [r"\| 4 \| 8 \| 0 \| 0 \| [1-9][0-9]{2,} \| "],
        id="kbest",
    ),
    pytest.param(
        "kbest",
        "{trees} --trees 30 --sentences 3",
        [rf"\| with the CRF \| 100\.0 % \| {NUMBER} \| ", r"\| of the grammars \| 100\.0 % \|"],
        id="kbest, treebank",
        marks=slow,
    ),
    pytest.param(
        "probabilities",
        "{trees} --trees 30 --seeds 0",
        [r"\| 0 \| 6 \| [0-6] \| 0 \| 0 \| 0 \|"],
        id="probabilities",
        marks=slow,
    ),
    pytest.param("figures", "stale --all", [r"gum/default, seeds \[0\], .*, measured at [0-9a-f]+"], id="figures"),
    pytest.param(
        "spectral",
        "{trees} --threads 1 --json {new}/a.json --rows 'spectral 8' 'cluster 16'",
        [r"\| spectral 8 \| .* % \|", r"\| cluster 16 \| .* 0.0 % \|"],
        id="spectral",
    ),
    pytest.param(
        "spectral_weights",
        "{trees} --states 2 --seeds 0 1 --results {new}/a.jsonl",
        [
            rf"\| trees \| real, absolute values \| {NUMBER} ± ",
            r"\| trees \| non-negative \| .* 0.0 ± 0.0 %",
            "of [0-9]+ test trees",
        ],
        id="spectral_weights",
    ),
    pytest.param(
        "state_search",
        "{trees} --rows 'spectral 16' 'spectral auto' 'spectral search' --seeds 0 1 --searched 3 --checkpoints {new} "
        "--results {new}/a.jsonl",
        [
            rf"\| trees \| spectral auto \| {NUMBER} ± ",
            rf"\| trees \| spectral search \| {NUMBER} ± ",
            r"trees, spectral search, seed 1: \w+ [0-9]+, ",
        ],
        id="state_search",
    ),
    pytest.param(
        "spectral",
        "{trees}",
        [r"\| spectral auto \|", r"\| cluster\+em ensemble \|", r"\| trees \| vertical 2 \|", r"\| trees \| 60 \|"],
        id="spectral, all",
        marks=slow,
    ),
    pytest.param(
        "table1",
        "{trees} --states 2 --seeds 0 1 --methods spectral pivot cluster pivot+EM --results {new}/a.jsonl "
        "--markdown {new}/a.md --picture {new}/a.svg",
        [
            r"Dev F1, mean and standard deviation of 2 seeds",
            rf"\| trees \| spectral \| {SPREAD} \| {SPREAD} \|",
            rf"\| trees \| pivot\+EM \| {SPREAD} \([0-9]+\) \|",
        ],
        id="table1",
    ),
    pytest.param(
        "table1", "{trees} --states 2 4", [rf"\| trees \| split-merge \| {SPREAD} \|"], id="table1, all", marks=slow
    ),
    pytest.param(
        "table2",
        "{text} --train 1500 --dev 400 --states 2 --quick --markdown {new}/a.md --json {new}/a.json "
        "--picture {new}/a.svg",
        [
            rf"\| em \| {NUMBER} \([0-9]+\) \|",
            rf"\| pivot, converged \| {NUMBER} \([0-9]+\+0\) \|",
            rf"\| pivot, stopped \| {NUMBER} \([0-9]+\+0\) \|",
            rf"\| pivot\+em, from converged \| {NUMBER} \([0-9]+\+[0-9]+\) \|",
            rf"\| all latent \+ tri-KN \| {NUMBER} \|",
        ],
        id="table2",
    ),
    pytest.param(
        "lm_counts",
        "--tokens 3000 --words 200 --threads 1",
        ["3,000 tokens", rf"sapwood, 1 thread .* {NUMBER} distinct"],
        id="lm_counts",
    ),
    pytest.param(
        "kills",
        "{text} --kills 10 --states 4",
        [r": 10 kills, [0-9]+ of them with a checkpoint; [1-9][0-9]* models, 0 of them different"],
        id="kills",
    ),
    pytest.param(
        "lm_scale",
        "--tokens 5e3 --words 300 --states 4 --iterations 2 --threads 1 --copied 4096 --json {new}/a.json "
        "--picture {new}/a.svg",
        [r"1 threads: copying", r"\| drawn \| 5e\+03 \|"],
        id="lm_scale",
    ),
    pytest.param(
        "cluster",
        "{trees} {text} --json {new}/a.jsonl --workers 2 --cycles 1 --sentences 12 --files 3 --tokens 500 "
        "--parts tasks pass parse count",
        [r"\| pass \| 2 \| 1 \|", r"\| parse \| 2 \| 1 \|", r"\| count \| 2 \| 1 \|"],
        id="cluster",
        marks=[
            slow,
            pytest.mark.filterwarnings("ignore"),
            pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="needs distributed"),
        ],
    ),
    pytest.param(
        "consistency",
        "--trees 60 120 --repetitions 1 --contrast 1 --rho 1 0.5 --fixed 100 -o {new}/a.svg",
        [r"\| 120 \| 0\.", r"\| one state \| 0\.", r"Theorem 3, one node a tree: sigma = 0\."],
        id="consistency",
    ),
    pytest.param(
        "pivot_assumption",
        "--trees 100 --epsilon 0.1 --alpha 0.3 --grammars 1 --fixed 100 -o {new}/a.svg",
        [r"\| 100 \| 0\.", "Leaking pivots, 100 trees:", r"\| 0\.3 \| 0\."],
        id="pivot_assumption",
    ),
    pytest.param(
        "figure2",
        "--most-words 2 --longest 3 --workers 1 --results {new}/a.jsonl -o {new}/a.svg",
        [r"\| pcfg-ie \|", r"Of 61 answers of the figure 54 hold by .* and 57 of 61 if slices"],
        id="figure2",
    ),
    pytest.param(
        "unmixing",
        "--sentences 300 --repetitions 1 --iterations 4 --workers 1 --json {new}/a.json -o {new}/a.svg",
        ["pcfg-ie:", "dep-ies:", r"\| 300 \| 0\."],
        id="unmixing",
    ),
    pytest.param(
        "unmixing_study",
        "--words 3 --states 2 --sentences 2000 --models 1 --restarts 1 --results {new}/a.jsonl",
        [r"\| unmixing \| 0\.", r"\| EM, best of 10 \| 0\.", r"as probable as EM on [01] of 1 models"],
        id="unmixing_study",
    ),
    pytest.param(
        "low_rank",
        "{trees} --states 2 3 --ranks 2 --seeds 2 --sentences 5 --json {new}/a.json --pictures {new}",
        [r"\| trees \| SVTA\* \| 3 \| 1 \| 27 \|", r"\| trees \| CP-mu \| 2 \| 2 \| .* ± .* \|"],
        id="low_rank",
        marks=slow,
    ),
    pytest.param(
        "low_rank",
        "{trees} --parsing --ranks 4 --seeds 2",
        [rf"\| trees \| PCFG, exact \| - \| - \| {NUMBER} ", rf"\| trees \| CP \| 4 \| 2 \| {NUMBER} \| {NUMBER} ± "],
        id="low_rank, parsing",
        marks=slow,
    ),
    pytest.param(
        "without_trees",
        "{trees} --from tags --lengths 6 --seeds 0 --rows right-branching dmv --no-speed --results {new}/a.jsonl",
        [r"right-branching", r"dmv"],
        id="without_trees",
        marks=slow,
    ),
    pytest.param(
        "gaps",
        "{trees} --configurations pcfg --models {new} --store {new}/a.jsonl",
        [rf"\| trees/gaps-pcfg \| 0 \| {NUMBER} \| {NUMBER} \| {NUMBER} \| {NUMBER} \| {NUMBER} \|"],
        id="gaps",
    ),
    pytest.param(
        "treebank_search",
        "{trees} --store {new}/a.jsonl",
        [rf"\| @NP << PP \| {NUMBER} \| {NUMBER} \|", rf"\| search head \| {NUMBER}", rf"\| n-bars \| {NUMBER}"],
        id="treebank_search",
        marks=slow,
    ),
    pytest.param(
        "half_annotated",
        "{trees} --trees 20 --draws 1 --rows pivot+em text --results {new}/a.jsonl",
        [rf"\| 20 \| 0 \| pivot\+em \| {NUMBER}", rf"\| 20 \| 0 \| text \| {NUMBER}"],
        id="half_annotated",
        marks=slow,
    ),
    pytest.param(
        "distillation",
        "{trees} --teacher {trees}/train.mrg --text {text} --trees 30 --gold-weights 1 --seeds 0 --models {new}",
        [
            rf"\| trees-30/teacher \| 0 \| {F1} ",
            rf"\| trees-30/joint \| 0 \| {F1} ",
            rf"\| trees-30/distilled-1 \| 0 \| {F1} ",
        ],
        id="distillation",
        marks=slow,
    ),
    pytest.param(
        "adaptation",
        "{trees} {trees} --first 60 --trees 20 --seeds 0 --models {new}",
        [
            rf"\| trees/trees-60 \| 0 \| {F1} ",
            rf"\| trees-20/drawn \| 0 \| {F1} ",
            rf"\| trees-20/adapted-from-trees-60 \| 0 \| {F1} ",
            rf"\| trees-20/joint-with-trees-60 \| 0 \| {F1} ",
        ],
        id="adaptation",
        marks=slow,
    ),
    pytest.param(
        "encoders",
        "{trees} --encoder {encoder} --distil {text} --trees 30 --seeds 0 --models {new}",
        [rf"\| trees-30/encoder \| 0 \| {F1} ", rf"\| trees-30/encoder-distilled \| 0 \| {F1} "],
        id="encoders",
        marks=slow,
    ),
    pytest.param(
        "annotating",
        "{trees} --trees 20 --more 10 --draws 0 --diversity 0.5 --results {new}/a.jsonl",
        [rf"\| 0 \| chosen 0\.5 \| 10 \| {NUMBER} \|", rf"\| 0 \| random 2 \| 10 \| {NUMBER} \|"],
        id="annotating",
        marks=slow,
    ),
    pytest.param(
        "annotation",
        "{trees} --trees 0 20 --seeds 0 --sentences 5 --method pcfg --store {new}/a.jsonl --picture {new}/a.svg",
        [rf"\| 0 \| 0 \| {NUMBER} \|", rf"\| 20 \| mean \| {NUMBER} \|"],
        id="annotation",
        marks=slow,
    ),
    pytest.param(
        "tagging",
        "{trees} --methods bigram em --seeds 0 --results {new}/a.jsonl",
        [r"trees: 60 training sentences", rf"\| em \| 0 \| {NUMBER}"],
        id="tagging",
        marks=slow,
    ),
    pytest.param(
        "cluster_kills",
        "{trees} {text} --kills 1 --sentences 60 --parts parse",
        [r"parse"],
        id="cluster_kills",
        marks=slow,
    ),
    pytest.param(
        "minimising",
        "{trees} --models {new} --methods em --seeds 0 --sentences 5 --results {new}/a.jsonl --picture {new}/a.svg",
        [r"trees, em, mean of 1 seeds", r"\| merging and closing, budget 0\.5 \|", r"\| trained with fewer \|"],
        id="minimising",
        marks=slow,
    ),
    pytest.param(
        "minimising_defaults",
        "{trees} --trees 40 --without-trees --sentences 3",
        [
            rf"\| trees-40/default-minimised \| 0 \| {NUMBER} \| {NUMBER} \| {F1} \| ",
            rf"\| trees-40/default-minimised-without-trees \| 0 \| {NUMBER} \| ",
        ],
        id="minimising_defaults",
        marks=slow,
    ),
]


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a small treebank in three parts."""
    folder = tmp_path_factory.mktemp("benchmarks") / "trees"
    folder.mkdir()
    for seed, (part, count) in enumerate((("train", 60), ("dev", 6), ("test", 6))):
        made = made_up_treebank(count, seed)
        (folder / f"{part}.mrg").write_text("".join(f"{tree}\n" for tree in made))
        swapped = [placed(tree, [2, 1, 0, *range(3, len(tree))]) if len(tree) > 2 else tree for tree in made]
        with gzip.open(folder / f"{part}.dbr.gz", "wt") as stream:
            stream.writelines(format_discbracket(tree) + "\n" for tree in swapped)
        with gzip.open(folder / f"{part}.mrg.gz", "wt") as stream:
            stream.writelines(f"{tree}\n" for tree in made)
        (folder / f"{part}.conllu").write_text("".join(format_as(tree, "conllu") + "\n" for tree in made))
    return folder


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of sentences."""
    path = tmp_path_factory.mktemp("benchmarks") / "text.txt"
    path.write_text("".join(" ".join(tree.words()) + "\n" for tree in made_up_treebank(300)))
    return path


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch):
    """A function that runs a script with arguments, in this process."""
    # Scripts set these; they are to be as they were, afterwards.
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    monkeypatch.setenv("POLARS_MAX_THREADS", "1")

    def run(script: str, *arguments: str) -> None:
        monkeypatch.setattr(sys, "argv", [f"{script}.py", *arguments])
        assert not importlib.import_module(script).main()

    return run


@pytest.mark.parametrize("script", SCRIPTS)
def test_help(script, main, capsys):
    with pytest.raises(SystemExit) as ended:
        main(script, "--help")
    assert ended.value.code == 0
    assert f"usage: {script}.py" in capsys.readouterr().out


def test_every_script_is_run():
    assert {run.values[0] for run in RUNS} == set(SCRIPTS)


@pytest.mark.parametrize("script", sorted(WITH_DATA))
def test_missing_data_is_named_at_once(script, main, capsys, tmp_path):
    with pytest.raises(SystemExit) as ended:
        main(script, *WITH_DATA[script].format(nowhere=tmp_path / "nowhere").split())
    assert ended.value.code == 2
    said = capsys.readouterr()
    assert re.search(rf"{script}.py cannot start:\n  .*nowhere.* is missing", said.err)
    assert not said.out


def test_all_scripts_with_data_say_so():
    calls = {script: re.findall(r"require\((.*)\)", (BENCHMARKS / f"{script}.py").read_text()) for script in SCRIPTS}
    needing = {script for script, found in calls.items() if any(re.search("treebanks=|files=", one) for one in found)}
    assert needing == {*WITH_DATA, "figures"}


def test_missing_packages_are_named(capsys):
    with pytest.raises(SystemExit):
        require(packages="sapwood no_such_package")
    assert capsys.readouterr().err.splitlines()[1:] == [
        "  the package no_such_package is not installed: pip install no_such_package"
    ]


def test_every_script_says_what_it_needs():
    assert [script for script in SCRIPTS if "require(" not in (BENCHMARKS / f"{script}.py").read_text()] == []


def test_low_rank_needs_the_parts_that_it_reads(main, capsys, tmp_path):
    (tmp_path / "train.mrg").write_text("(S (A a) (B b))\n")
    for option, part in (("--parsing", "dev"), ("--seeds=1", "test")):
        with pytest.raises(SystemExit):
            main("low_rank", str(tmp_path), option)
        [line] = capsys.readouterr().err.splitlines()[1:]
        assert f"{part}.mrg is missing" in line


def test_missing_directories_and_files_are_named(main, capsys, tmp_path, monkeypatch):
    with pytest.raises(SystemExit):
        main("unmixing_study", "--results", str(tmp_path / "nowhere" / "a.jsonl"))
    assert f"{tmp_path / 'nowhere'} is missing, the directory of a.jsonl" in capsys.readouterr().err
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, 256))
    with pytest.raises(SystemExit):
        main("bad_clients", "--bad", "2000", "--good", "5")
    assert "2,105 open files are needed, and 256 are allowed" in capsys.readouterr().err
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(SystemExit):
        main("bad_clients", "--bad", "1")
    assert "Linux is needed" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(("script", "arguments", "patterns"), RUNS)
def test_run(script, arguments, patterns, main, trees, text, tmp_path, capsys):
    encoder = tiny_encoder.bert_folder(tmp_path / "tiny") if "{encoder}" in arguments else None
    words = shlex.split(arguments.format(trees=trees, text=text, new=tmp_path, encoder=encoder))
    main(script, *words)
    printed = capsys.readouterr().out
    for pattern in patterns:
        assert re.search(pattern, printed), f"nothing like {pattern} in\n{printed}"
    for word in words:
        if word.startswith(str(tmp_path)):
            assert Path(word).exists()
        if word.endswith("a.json"):
            assert json.loads(Path(word).read_text())
