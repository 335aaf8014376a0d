"""Mutation testing: do the tests notice small faults?

    python tests/mutation.py --copy DIRECTORY [--packages lm induction ...] [--number 300] [--seed 0] [--minutes 60]
        [--budget 60] [--workers 2] [--json FILE] [--tests TESTS ...] [--retry TESTS ...]

The repository is copied once, without its history. The tests of the default run go through the copy under `coverage`
(`pip install coverage`), which leaves a map of the lines that each test runs; with `--tests` the map can be made of
some of them, and grow by others later. Random mutants (`mutants.py`) are then tried: a process reads one file's text
with the fault, without any change on disk, and the tests that run its lines are run until one fails, those of the
package and of the module first, the quickest first. A mutant is

    killed      a test fails, or takes far more processor time than it should
    survived    all tests pass
    uncovered   no test runs its lines, which is no better
    undecided   its tests take more than `--budget` seconds of processor time, and those that fit in find nothing

Results are written as they come, and what is in the file already is not done again. `--retry` takes the tests, as they
are now, and runs those named on all that survived. What only other processes run counts as uncovered: the map has what
runs inside the tests. With `SAPWOOD_DEBUG` set, what the tests print is shown.
"""

from __future__ import annotations

import argparse
import json
import marshal
import multiprocessing
import os
import resource
import shutil
import subprocess
import sys
import time
import types
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import SourceFileLoader
from importlib.util import cache_from_source
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from mutants import Mutant, draw_mutants

REPOSITORY = Path(__file__).resolve().parents[1]
Result = dict[str, Any]
PACKAGES = ["learn", "automata", "induction", "lm", "inference", "numerics", "identifiability", "pipeline"]
ALIVE = ("survived", "uncovered")
# The processor time of the first tests of a mutant; most fail there.
_FIRST = 3.0
# What all tests import, and no mutant changes: each run of the tests begins with these.
_PRELOADED = ["numpy", "scipy.sparse.linalg", "scipy.optimize", "scipy.linalg", "hypothesis.strategies", "jaxtyping"]
# An installation for work on the source would find that, not the copy.
_SITE = """import sys
sys.meta_path[:] = [each for each in sys.meta_path if not type(each).__module__.startswith("_editable")]
"""


class Recorder:
    """A plugin for pytest: which lines and how much processor time each test takes."""

    def __init__(self, folder: Path) -> None:
        import coverage

        self.folder = folder
        self.seconds: dict[str, float] = {}
        self.coverage = coverage.Coverage(
            data_file=folder / "lines", data_suffix=True, include=[str(folder / "tree" / "src" / "*")]
        )
        self.coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Note what runs for a test."""
        self.coverage.switch_context(item.nodeid)
        began = time.process_time()
        result = yield
        self.seconds[item.nodeid] = time.process_time() - began
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Iterator[None]:
        """Note what runs for all tests of a file."""
        if fixturedef.scope == "function":
            return (yield)
        self.coverage.switch_context(request.node.nodeid.partition("::")[0])
        result = yield
        self.coverage.switch_context(request._pyfuncitem.nodeid)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Leave out tests that fail without any fault."""
        if report.failed:
            self.seconds[report.nodeid] = float("inf")

    def pytest_unconfigure(self) -> None:
        """Write it down."""
        self.coverage.stop()
        self.coverage.save()
        (self.folder / f"seconds.{os.getpid()}.json").write_text(json.dumps(self.seconds))


def pytest_configure(config: pytest.Config) -> None:
    """Record, if this is asked for (by `-p mutation`)."""
    folder = os.environ.get("SAPWOOD_MUTATION")
    if folder and (hasattr(config, "workerinput") or not config.option.numprocesses):
        config.pluginmanager.register(Recorder(Path(folder)))


class Failure:
    """A plugin for pytest: tells the first test that fails."""

    def __init__(self, end: Connection) -> None:
        self.end = end

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Tell its name."""
        if report.failed:
            self.end.send(report.nodeid)


def copy_tree(folder: Path) -> Path:
    """Return the copy of the repository, made now if it is not there, with the tests that are there now."""
    import sapwood.kernels

    tree = folder / "tree"
    if not tree.exists():
        listed = subprocess.run(["git", "ls-files"], cwd=REPOSITORY, check=True, capture_output=True, text=True).stdout
        for name in listed.splitlines():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, tree / name)
        for path in Path(sapwood.kernels._module.__file__ or "").parent.glob("*.so"):
            shutil.copy2(path, tree / "src" / "sapwood" / "kernels")
        (tree / "src" / "sitecustomize.py").write_text(_SITE)
    shutil.copytree(
        REPOSITORY / "tests", tree / "tests", dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
    )
    return tree


def make_map(folder: Path, tree: Path, named: Sequence[str], workers: int) -> dict[str, Any]:
    """Return what each test runs: `tests`, their `seconds`, and for each file and line numbers of tests.

    It is made of all tests if it is not there, and those named are added to it.
    """
    path = folder / "map.json"
    if path.exists() and not named:
        return dict(json.loads(path.read_text()))
    import coverage

    processes = str(workers if workers > 1 else 0)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "mutation", "-n", processes, *named]
    subprocess.run(command, cwd=tree, env={**os.environ, "SAPWOOD_MUTATION": str(folder)}, check=False)
    seconds: dict[str, float] = {}
    for part in folder.glob("seconds.*.json"):
        seconds |= json.loads(part.read_text())
    files = {name.partition("::")[0] for name in seconds}
    tests = sorted(name for name, took in seconds.items() if took < float("inf"))
    numbers = {name: [number] for number, name in enumerate(tests)}
    numbers |= {file: [number for name, (number,) in numbers.items() if name.startswith(f"{file}::")] for file in files}
    whole = coverage.Coverage(data_file=folder / "lines")
    whole.combine(keep=True)
    data = whole.get_data()
    lines: dict[str, dict[int, list[int]]] = {}
    for file in data.measured_files():
        lines[str(Path(file).relative_to(tree))] = {
            line: sorted({number for context in contexts for number in numbers.get(context, ())})
            for line, contexts in data.contexts_by_lineno(file).items()
        }
    found = {"tests": tests, "seconds": [seconds[name] for name in tests], "lines": lines}
    path.write_text(json.dumps(found))
    return dict(json.loads(path.read_text()))


def covering(mutant: Mutant, known: dict[str, Any]) -> list[tuple[str, float]]:
    """Return the tests that run a mutant's lines, with their seconds.

    First come those of its package, among them those in a file of its module's name, and the quickest.
    """
    package, module = Path(mutant.path).parts[2], Path(mutant.path).stem.strip("_")
    first, last = mutant.lines
    numbers = {
        number
        for line, tests in known["lines"].get(mutant.path, {}).items()
        if first <= int(line) <= last
        for number in tests
    }
    if first == 1:  # what is done at import; a test of a class need not run any line of its file
        files = {known["tests"][number].partition("::")[0] for number in numbers}
        numbers = {number for number, name in enumerate(known["tests"]) if name.partition("::")[0] in files}
    found = [(known["tests"][number], known["seconds"][number]) for number in numbers]

    def order(test: tuple[str, float]) -> tuple[bool, bool, float, str]:
        name, seconds = test
        return not name.startswith(f"tests/{package}/"), module not in name.partition("::")[0], seconds, name

    return sorted(found, key=order)


def run(tree: Path, path: str, text: str, tests: Sequence[str], seconds: float) -> str:
    """Return the test that fails when a file has this text; `time`, if it takes too long; or nothing."""
    processes = multiprocessing.get_context("forkserver")
    here, there = processes.Pipe(duplex=False)
    limit = int(20 + 5 * seconds)
    child = processes.Process(target=_run, args=(tree, path, text, tests, limit, there))
    child.start()
    there.close()
    child.join(20 * limit)
    if child.exitcode is None or child.exitcode < 0:
        child.kill()
        return "time"
    if child.exitcode == 0:
        return ""
    try:
        return str(here.recv())
    except EOFError:
        return f"exit code {child.exitcode}"


def _run(tree: Path, path: str, text: str, tests: Sequence[str], limit: int, end: Connection) -> None:
    os.chdir(tree)
    original = {str(REPOSITORY / part) for part in ("", "src", "tests")}  # an environment in there may stay
    own = [str(tree / "src"), str(tree / "tests")]
    sys.path[:] = [*own, *(each for each in sys.path if each not in original)]
    # As `_SITE` does for processes that begin anew.
    sys.meta_path[:] = [each for each in sys.meta_path if not type(each).__module__.startswith("_editable")]
    os.environ["PYTHONPATH"] = ":".join(own)
    if not os.environ.get("SAPWOOD_DEBUG"):
        silence = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silence, stream)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    _replace_text(str(tree / path), text, tree.parent / "compiled")
    options = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    os._exit(pytest.main([*options, *tests], plugins=[Failure(end)]))


def _replace_text(changed: str, text: str, caches: Path) -> None:
    """Let a file have another text for this process; what is compiled of all others is kept, for that takes long."""
    from helpers import shape_checks  # the copy's

    read, keep, compiled = SourceFileLoader.get_data, SourceFileLoader._cache_bytecode, shape_checks._Loader.get_code  # type: ignore[attr-defined]
    cached = cache_from_source(changed)

    def get_data(self: SourceFileLoader, name: str) -> bytes:
        if str(name) == cached:
            raise OSError
        return text.encode() if str(name) == changed else read(self, name)

    def cache_bytecode(self: SourceFileLoader, source: str, *rest: Any) -> None:
        if source != changed:
            keep(self, source, *rest)

    def get_code(self: Any, fullname: str) -> types.CodeType:
        if self.path == changed:
            return compiled(self, fullname)
        place = caches / fullname
        if not place.exists():
            caches.mkdir(exist_ok=True)
            part = caches / f".{fullname}.{os.getpid()}"
            part.write_bytes(marshal.dumps(compiled(self, fullname)))
            part.replace(place)
        found: types.CodeType = marshal.loads(place.read_bytes())
        return found

    SourceFileLoader.get_data = get_data  # type: ignore[assignment,method-assign]
    SourceFileLoader._cache_bytecode = cache_bytecode  # type: ignore[attr-defined]
    shape_checks._Loader.get_code = get_code  # type: ignore[method-assign]


def try_mutant(mutant: Mutant, tree: Path, known: dict[str, Any], budget: float, named: Sequence[str] = ()) -> Result:
    """Return what becomes of a mutant: by the tests that cover it, or by those named."""
    source = (tree / mutant.path).read_text()
    result = {"path": mutant.path, "line": mutant.begin[0], "operator": mutant.operator, "diff": mutant.diff(source)}
    tests = [(name, budget) for name in named] or covering(mutant, known)
    if not tests:
        return {**result, "what": "uncovered"}
    stages: list[list[tuple[str, float]]] = [[], []]
    spent = 0.0
    for test, took in tests:
        if spent + took <= budget or named:
            spent += took
            stages[spent > _FIRST].append((test, took))
    for stage in filter(None, stages):
        names, seconds = zip(*stage, strict=True)
        by = run(tree, mutant.path, mutant.apply(source), names, sum(seconds))
        if by:
            return {**result, "what": "killed", "by": by}
    tried = sum(map(len, stages))
    return {**result, "what": "survived" if tried == len(tests) else "undecided", "tests": tried}


def check_copy(tree: Path, known: dict[str, Any], mutants: Sequence[Mutant]) -> None:
    """Stop if a test fails without any fault: then all mutants would seem to be killed."""
    first = next(((mutant, tests) for mutant in mutants if (tests := covering(mutant, known))), None)
    if first is None:
        return
    mutant, [(test, seconds), *_] = first
    if by := run(tree, mutant.path, (tree / mutant.path).read_text(), [test], seconds):
        raise SystemExit(f"{test} fails without any fault ({by}); the copy is not of this version: make a new one")


def report(results: dict[str, dict[str, Any]]) -> None:
    """Print those that live, and how many."""
    for result in results.values():
        if result["what"] in ALIVE:
            print(f"{result['path']}:{result['line']} {result['what']} ({result['operator']})\n{result['diff']}\n")
    counts = Counter(result["what"] for result in results.values())
    decided = len(results) - counts["undecided"]
    alive = sum(counts[what] for what in ALIVE)
    print(", ".join(f"{number} {what}" for what, number in sorted(counts.items())))
    print(f"{alive} of {decided} that were decided survive: {alive / max(decided, 1):.1%}")


def main() -> None:
    """Try mutants and print the survivors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copy", type=Path, required=True, help="where the copy of the repository is, or shall be")
    parser.add_argument("--packages", nargs="+", default=PACKAGES)
    parser.add_argument("--number", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no mutant later than this")
    parser.add_argument("--budget", type=float, default=60.0, help="processor time of a mutant's tests, in seconds")
    parser.add_argument("--json", type=Path, default=Path("mutation.json"))
    parser.add_argument("--workers", type=int, default=2, help="how many processes for the map, and mutants at once")
    parser.add_argument("--tests", nargs="+", default=(), help="tests to make the map of, or to add to it (all)")
    parser.add_argument("--retry", nargs="+", default=(), help="tests to run on those that survived")
    options = parser.parse_args()
    began = time.monotonic()
    folder = options.copy.resolve()
    tree = copy_tree(folder)
    os.environ |= {"PYTHONPATH": f"{tree / 'src'}:{tree / 'tests'}", "OPENBLAS_NUM_THREADS": "1"}
    known = make_map(folder, tree, options.tests, options.workers)
    multiprocessing.get_context("forkserver").set_forkserver_preload(_PRELOADED)
    results = json.loads(options.json.read_text()) if options.json.exists() else {}

    def attempt(mutant: Mutant) -> tuple[Mutant, Result | None]:
        late = time.monotonic() - began > 60 * options.minutes
        return mutant, None if late else try_mutant(mutant, tree, known, options.budget, options.retry)

    wanted = ALIVE if options.retry else (None,)
    drawn = draw_mutants(tree, options.packages, options.number, options.seed)
    drawn = [mutant for mutant in drawn if results.get(mutant.name, {}).get("what") in wanted]
    check_copy(tree, known, drawn)
    with ThreadPoolExecutor(options.workers) as pool:
        for mutant, result in pool.map(attempt, drawn):
            if result is not None:
                results[mutant.name] = result
                options.json.write_text(json.dumps(results, indent=1))
                print(f"{len(results)} {result['what']}: {mutant.name[:100]!r}", flush=True)
    report(results)


if __name__ == "__main__":
    main()
