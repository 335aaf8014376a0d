"""Models as packages: what is in the wheel, whether others can read it, and whether it is found by its name."""

from __future__ import annotations

import base64
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
from made_up import made_up_treebank
from sapwood.errors import InputError, ModelError, SapwoodError, UsageError
from sapwood.interop.packages import read_figures, write_package
from sapwood.models import find_model, installed_models

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
    assert files["sapwood_model_qq_news/qq-news.sapwood"] == model.read_bytes()
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
        ({"licence": "free for all!"}, "no SPDX expression"),
        ({"version": "one"}, "no version"),
        ({"language": "Old\nNorse"}, "on one line"),
        ({"attribution": " \n"}, "the attribution is empty"),
    ],
)
def test_what_cannot_be_packaged(model, tmp_path, changed, problem):
    with pytest.raises(UsageError, match=problem):
        write_package(model, tmp_path, **{"name": "qq", "figures": {}, **ABOUT, **changed})
    assert not list(tmp_path.iterdir())


def test_only_models_are_packaged(tmp_path):
    (tmp_path / "x").write_text("no model")
    with pytest.raises(ModelError, match="not a sapwood file"):
        write_package(tmp_path / "x", tmp_path, name="qq", figures={}, **ABOUT)
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_figures(tmp_path):
    (tmp_path / "dev.json").write_text(json.dumps(FIGURES))
    assert read_figures([tmp_path / "dev.json"]) == {"dev": FIGURES}
    for text in ("", "[1]", "{}", json.dumps({**FIGURES, "f1": "high"}), json.dumps({**FIGURES, "f1": float("nan")})):
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
    assert find_model("qq-one") == tmp_path / "site" / "sapwood_model_qq_one" / "qq-one.sapwood"
    assert sapwood.load("qq-one") == sapwood.load(model)
    assert sapwood.Parser("qq-one").grammar == sapwood.load(model)
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
    with pytest.raises(ModelError, match=r"qq: its package leads to 'nowhere.sapwood', which is no file"):
        sapwood.load("qq")
    install_plugin("worse_model", "1 / 0", "sapwood.models", rr="worse_model:MODEL")
    with pytest.raises(SapwoodError, match=r"cannot load 'rr' of sapwood.models from worse_model 1\.5"):
        sapwood.load("rr")


def test_pip_installs_it(model, tmp_path):
    wheel = write_package(model, tmp_path, name="qq", figures={"test": FIGURES}, **ABOUT)
    target = tmp_path / "target"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "install", "--no-index", "--no-deps", "--target", target, wheel], check=True)
    assert (target / "sapwood_model_qq" / "qq.sapwood").read_bytes() == model.read_bytes()
