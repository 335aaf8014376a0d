"""Models as packages: what is in the wheel, whether others can read it, and whether it is found by its name."""

from __future__ import annotations

import base64
import contextlib
import csv
import hashlib
import io
import json
import subprocess
import sys
import zipfile
from email.parser import BytesParser
from pathlib import Path

import pytest

import sapwood
from helpers.made_up import made_up_treebank
from sapwood.errors import InputError, ModelError, SapwoodError, UsageError
from sapwood.interop.packages import _CODE, PackageCard, _headers, read_figures, write_package
from sapwood.model.installed import find_model, installed_models

FIGURES = {
    "f1": 90.125, "precision": 90.0, "recall": 90.25, "exact": 40.0, "tag_accuracy": 97.0, "scored": 1234,
}  # fmt: skip
ABOUT = {"language": "Made-up", "licence": "CC-BY-4.0", "attribution": "Trees by **nobody**, 2026 — CC BY.\n"}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    trees = made_up_treebank(30, 1)
    path = tmp_path_factory.mktemp("models") / "any.sapwood"
    sapwood.train(trees, method="pcfg").save(path)
    return path


def content(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def test_what_is_in_a_wheel(model, tmp_path):
    wheel = write_package(model, tmp_path, name="qq-news", figures={"test": FIGURES}, about="For tests.", **ABOUT)
    assert wheel.name == "sapwood_model_qq_news-1.0.0-py3-none-any.whl"
    files = content(wheel)
    info = "sapwood_model_qq_news-1.0.0.dist-info"
    assert files["sapwood_model_qq_news/model.sapwood"] == model.read_bytes()
    assert json.loads(files["sapwood_model_qq_news/figures.json"]) == {"test": FIGURES}
    assert files[f"{info}/licenses/ATTRIBUTION.md"].decode() == ABOUT["attribution"]
    assert files[f"{info}/entry_points.txt"].decode() == "[sapwood.models]\nqq-news = sapwood_model_qq_news:MODEL\n"
    told = BytesParser().parsebytes(files[f"{info}/METADATA"])
    assert (told["Name"], told["Version"], told["License-Expression"]) == (
        "sapwood-model-qq-news",
        "1.0.0",
        "CC-BY-4.0",
    )
    # Nothing is fetched by its name from anywhere.
    assert told["Requires-Dist"] is None
    card = files["sapwood_model_qq_news/README.md"].decode()
    for part in (
        "| method | pcfg |",
        "| components | none |",
        "| trained on | 30 trees,",
        f"| SHA-256 | {hashlib.sha256(model.read_bytes()).hexdigest()} |",
        "| test | 90.12 | 90.00 | 90.25 | 40.00 | 97.00 | 1,234 |",
        "For tests.",
        "Trees by **nobody**, 2026 — CC BY.",
        "sapwood parse --model qq-news sentences.txt",
    ):
        assert part in card
    # The list of files has all of them, with their digests and sizes.
    rows = list(csv.reader(io.StringIO(files[f"{info}/RECORD"].decode())))
    assert {row[0] for row in rows} == set(files)
    for name, digest, size in rows:
        if name != f"{info}/RECORD":
            wanted = base64.urlsafe_b64encode(hashlib.sha256(files[name]).digest()).decode().rstrip("=")
            assert (digest, size) == (f"sha256={wanted}", str(len(files[name])))
    again = write_package(model, tmp_path, name="qq-news", figures={"test": FIGURES}, about="For tests.", **ABOUT)
    assert content(again) == files


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"name": "Q Q"}, "cannot be the name of a model"),
        ({"name": "../qq"}, "cannot be the name of a model"),
        ({"name": "en"}, "name of the included model"),
        ({"licence": "free for all!"}, "not an SPDX expression"),
        ({"version": "one"}, "not a version"),
        ({"language": "Old\nNorse"}, "on one line"),
        ({"language": '"""; import os; """'}, "on one line"),
        ({"language": "Old\u2028Norse"}, "on one line"),
        ({"language": "{name.__class__}"}, "on one line"),
        ({"language": "x\\"}, "on one line"),
        ({"language": "a" * 81}, "on one line"),
        ({"name": "qq\n"}, "cannot be the name of a model"),
        ({"name": "qq-"}, "cannot be the name of a model"),
        ({"name": "q" * 61}, "cannot be the name of a model"),
        ({"licence": "MIT\nRequires-Dist: x"}, "not an SPDX expression"),
        ({"licence": "MIT\n"}, "not an SPDX expression"),
        ({"version": "1.0\n"}, "not a version"),
        ({"version": "١.٠"}, "not a version"),
        ({"version": "9" * 5000}, "not a version"),
        ({"attribution": "a\x1b[2J"}, "the attribution has control characters"),
        ({"about": "a\ud800"}, "the description has control characters"),
        ({"figures": {"x": {**FIGURES, "f1": float("nan")}}}, "not what `sapwood eval --json` prints"),
        ({"figures": {"x": {**FIGURES, "more": [float("inf")]}}}, "not what .*: a number that is not finite"),
        ({"figures": {"x": 1}}, "not what `sapwood eval --json` prints"),
        ({"attribution": " \n"}, "the attribution is empty"),
    ],
)
def test_what_cannot_be_packaged(model, tmp_path, changed, problem):
    with pytest.raises(UsageError, match=problem):
        write_package(model, tmp_path, **{"name": "qq", "figures": {}, **ABOUT, **changed})
    assert not list(tmp_path.iterdir())


FORGED = [
    "pcfg\nRequires-Dist: evil",
    "pcfg\r\n\r\nRequires-Dist: evil",
    "pcfg\x85Requires-Dist: evil",
    "pcfg\u2028Requires-Dist: evil",
    'pcfg"""\nimport os\n"""',
    "{name}",
    "%(name)s",
    "| x |\n\n# evil <script>",
    "\x1b[2J",
    "x" * 500,
    "",
    7,
    ["pcfg"],
    {"a": 1},
    None,
]


@pytest.mark.parametrize("method", FORGED, ids=range(len(FORGED)))
def test_nothing_of_a_model_becomes_code_or_headers(model, tmp_path, method):
    honest = content(write_package(model, tmp_path, name="qq", figures={}, **ABOUT))
    loaded = sapwood.load(model)
    forged = loaded.replace(grammars=[loaded.grammar.with_info(method=method, training={"trees": "\n", "words": 1})])
    path = tmp_path / "forged.sapwood"
    with contextlib.suppress(ModelError):  # unless it cannot even be written or read
        forged.save(path)
        files = content(write_package(path, tmp_path, name="qq", figures={}, **ABOUT))
        assert files.keys() == honest.keys()
        for name in files:
            if not name.endswith(("RECORD", "METADATA", "README.md", "model.sapwood")):
                assert files[name] == honest[name]
        info = "sapwood_model_qq-1.0.0.dist-info"
        told, ours = (BytesParser().parsebytes(each[f"{info}/METADATA"]) for each in (files, honest))
        assert [pair for pair in told.items() if pair[0] != "Summary"] == [
            pair for pair in ours.items() if pair[0] != "Summary"
        ]
        assert told["Summary"] in {f"Made-up: a model for sapwood ({kind})" for kind in ("a grammar", "7")}
        card = files["sapwood_model_qq/README.md"].decode()
        assert len(card.splitlines()) == len(honest["sapwood_model_qq/README.md"].decode().splitlines())
        assert "| trained on | unknown |" in card
        assert not set("<\x1b") & set(card.replace("\\<", ""))


def test_the_code_of_a_package_is_the_same_in_all(model, tmp_path):
    for name, language in (("qq", "Made-up"), ("rr-x", "Norsk (bokmål), हिन्दी")):
        files = content(write_package(model, tmp_path, name=name, figures={}, **{**ABOUT, "language": language}))
        assert files[f"sapwood_model_{name.replace('-', '_')}/__init__.py"] == _CODE
        assert [path for path in files if path.endswith(".py")] == [
            f"sapwood_model_{name.replace('-', '_')}/__init__.py"
        ]


def test_headers_are_lines():
    assert _headers({"A": "b c", "D": "é"}) == "A: b c\nD: é\n"
    for value in ("", " ", "a\nb", "a\rb", "a\x0bb", "a\x85b", "a\u2028b", "a\ud800", "a\0b"):
        with pytest.raises(UsageError, match=r"A: .* cannot be written into the metadata of a package"):
            _headers({"A": value})


def test_installed_packages_are_listed_in_lines(tmp_path, monkeypatch):
    folder = tmp_path / "site" / "evil-1.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_bytes(
        b"Metadata-Version: 2.4\nName: evil\nVersion: 1\nSummary: \x1b[2Ja\n  b" + b"c" * 9999
    )
    (folder / "entry_points.txt").write_text(
        "[sapwood.models]\nqq-evil = evil:MODEL\n../x = evil:MODEL\na b = evil:MODEL\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    found = {one.name: one for one in installed_models()}
    assert "qq-evil" in found
    assert not {"../x", "a b"} & found.keys()
    assert all(text.isprintable() and len(text) <= 300 for one in found.values() for text in one)


def test_only_models_are_packaged(tmp_path):
    (tmp_path / "x").write_text("no model")
    with pytest.raises(ModelError, match="not a sapwood file"):
        write_package(tmp_path / "x", tmp_path, name="qq", figures={}, **ABOUT)
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_figures(tmp_path):
    (tmp_path / "dev.json").write_text(json.dumps(FIGURES))
    assert read_figures([tmp_path / "dev.json"]) == {"dev": FIGURES}
    for text in (
        "",
        "[1]",
        "{}",
        json.dumps({**FIGURES, "f1": "high"}),
        json.dumps({**FIGURES, "f1": float("nan")}),
        json.dumps({**FIGURES, "more": [float("nan")]}),
        json.dumps({**FIGURES, "more": "\ud800"}),
    ):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(InputError, match=r"bad\.json: not what `sapwood eval --json` prints"):
            read_figures([tmp_path / "bad.json"])


@pytest.fixture
def unpack(tmp_path, monkeypatch):
    """A function that puts the content of a wheel on the path, which is what installing does."""
    monkeypatch.syspath_prepend(str(tmp_path / "site"))

    def unpack(wheel):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(tmp_path / "site")

    return unpack


def test_an_installed_model_is_found_by_its_name(model, tmp_path, unpack, monkeypatch):
    unpack(write_package(model, tmp_path, name="qq-one", figures={}, **ABOUT))
    assert find_model("qq-one") == tmp_path / "site" / "sapwood_model_qq_one" / "model.sapwood"
    assert sapwood.load("qq-one") == sapwood.load(model)
    assert sapwood.Parser("qq-one").model == sapwood.load(model)
    found = {one.name: one for one in installed_models()}
    assert next(iter(found)) == "en"
    assert found["qq-one"].package == "sapwood-model-qq-one"
    assert found["qq-one"].licence == "CC-BY-4.0"
    assert found["qq-one"].summary == "Made-up: a model for sapwood (pcfg)"
    names = ", ".join(found)  # and others, where they are installed
    with pytest.raises(InputError, match=f"installed are: {names}; a wheel that `sapwood package` made adds one"):
        sapwood.load("qq-two")
    # A file goes before a model of its name.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "qq-one").write_text("no model")
    with pytest.raises(ModelError, match="qq-one: not a sapwood file"):
        sapwood.load("qq-one")


def test_a_package_that_is_broken_is_named(install_plugin):
    install_plugin("broken_model", "MODEL = 'nowhere.sapwood'", "sapwood.models", qq="broken_model:MODEL")
    with pytest.raises(ModelError, match=r"qq: its package points to 'nowhere.sapwood', which is not a file"):
        sapwood.load("qq")
    install_plugin("worse_model", "1 / 0", "sapwood.models", rr="worse_model:MODEL")
    with pytest.raises(SapwoodError, match=r"cannot load 'rr' of sapwood.models from worse_model 1\.5"):
        sapwood.load("rr")


def test_pip_installs_it(model, tmp_path):
    wheel = write_package(model, tmp_path, name="qq", figures={"test": FIGURES}, **ABOUT)
    target = tmp_path / "target"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "install", "--no-index", "--no-deps", "--target", target, wheel], check=True)
    assert (target / "sapwood_model_qq" / "model.sapwood").read_bytes() == model.read_bytes()


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="this system has no /dev/zero")
def test_devices_cannot_be_packaged(tmp_path, monkeypatch):
    """They are refused before anything is read: some have no end."""
    monkeypatch.setattr(Path, "read_bytes", lambda self: pytest.fail(f"{self} is read"))
    described = {"name": "qq", "language": "Toy", "licence": "CC0-1.0", "attribution": "Nobody.", "figures": {}}
    with pytest.raises(SapwoodError, match="/dev/zero"):
        write_package(Path("/dev/zero"), tmp_path, **described)


def test_settings_of_any_size_are_shown(model, tmp_path):
    loaded = sapwood.load(model)
    settings = {"states": 2, "all": True, "a|b": "<x>\n", "large": 10**5000, "none": None, "nested": {"a": 1}}
    card = PackageCard(name="qq", figures={}, **ABOUT)
    forged = loaded.replace(grammars=[loaded.grammar.with_info(settings=settings)])
    assert "| settings | states 2, all True, a\\|b \\<x\\> |\n" in card.format(forged, b"")
    for other in (None, [], "x", {}):
        forged = loaded.replace(grammars=[loaded.grammar.with_info(settings=other)])
        assert "| settings | unknown |\n" in card.format(forged, b"")
