"""Models on the Hugging Face hub, for which a server on the loopback address stands in."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import sapwood
from helpers.made_up import made_up_treebank
from helpers.model_hub import TOKEN, ModelHub, serving_models
from sapwood.errors import InputError, ModelError, UsageError
from sapwood.interop.hub import push_model
from sapwood.model.hub import download_model, read_name

constants = pytest.importorskip("huggingface_hub.constants")
yaml = pytest.importorskip("yaml")

# huggingface_hub sends the content of files in a way that its HTTP client deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")
FIGURES = {
    "f1": 90.125, "precision": 90.0, "recall": 90.25, "exact": 40.0, "tag_accuracy": 97.0, "scored": 1234,
    "intervals": {"confidence": 0.95, "f1": [89.5, 90.75]},
}  # fmt: skip
ABOUT = {
    "name": "qq", "language": "Made-up", "treebank": "Made-up Treebank", "licence": "CC-BY-4.0",
    "attribution": "Trees by **nobody**, 2026.\n", "figures": {"test": FIGURES},
}  # fmt: skip
REPOSITORY = "owner/qq-news"


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> list[Path]:
    folder = tmp_path_factory.mktemp("models")
    paths = [folder / "one.sapwood", folder / "two.sapwood"]
    for seed, path in enumerate(paths):
        sapwood.train(made_up_treebank(30, seed), method="pcfg").save(path)
    return paths


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub for this process, with an empty cache and a token."""
    with serving_models() as hub:
        monkeypatch.setattr(constants, "ENDPOINT", hub.address)
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.address + "/{repo_id}/resolve/{revision}/{filename}"
        )
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield hub


def test_names():
    digest = "0" * 64
    assert read_name("hf:a/b") == ("a/b", None, None)
    assert read_name(f"hf:a-1/b.c_d@v1.0#{digest}") == ("a-1/b.c_d", "v1.0", digest)
    for bad in (
        "hf:",
        "hf:a",
        "hf:a/b/c",
        "hf:../b",
        "hf:a/..",
        "hf:a/b@",
        "hf:a/b@x/y",
        "hf:a/b@..",
        "hf:a/b#12",
        "hf:a/b\n",
    ):
        with pytest.raises(InputError, match="not the name of a model on the Hugging Face hub"):
            read_name(bad)


def test_a_pushed_model_is_loaded_by_its_name(hub: ModelHub, models):
    pushed = push_model(models[0], REPOSITORY, **ABOUT)
    content = models[0].read_bytes()
    assert pushed.digest == hashlib.sha256(content).hexdigest()
    repository = hub.repositories[REPOSITORY]
    assert not repository.private
    files = repository.commits[pushed.commit]
    assert sorted(files) == ["ATTRIBUTION.md", "README.md", "SHA256SUMS", "figures.json", "model.sapwood"]
    assert (files["model.sapwood"], repository.on_lfs) == (content, {"model.sapwood"})
    assert json.loads(files["figures.json"]) == {"test": FIGURES}
    _, front, card = files["README.md"].decode().split("---\n", 2)
    told = yaml.safe_load(front)
    assert (told["library_name"], told["license"]) == ("sapwood", "cc-by-4.0")
    assert told["tags"] == ["sapwood", "constituency-parsing", "Made-up", "Made-up Treebank"]
    assert told["model-index"][0]["results"][0]["metrics"][0]["value"] == 90.125
    for part in (
        "| language | Made\\-up |".replace("\\-", "-"), "| treebank | Made-up Treebank |", "| licence | CC-BY-4.0 |",
        "| method | pcfg |", f"| SHA-256 | {pushed.digest} |", "| test | 90.12 (89.50 to 90.75) |",
        f"sapwood parse --model hf:{REPOSITORY} sentences.txt", "Trees by **nobody**",
    ):  # fmt: skip
        assert part in card.replace("\\-", "-")
    assert "pip install sapwood_model" not in card
    expected = sapwood.load(models[0])
    for name in (f"hf:{REPOSITORY}", pushed.name, f"hf:{REPOSITORY}@main", f"hf:{REPOSITORY}#{pushed.digest}"):
        assert sapwood.load(name) == expected
    assert sapwood.Parser(pushed.name).model == expected


def test_what_has_not_changed_is_neither_sent_nor_downloaded_again(hub: ModelHub, models):
    first = push_model(models[0], REPOSITORY, **ABOUT)
    assert sapwood.load(first.name) == sapwood.load(models[0])
    hub.requests.clear()
    assert push_model(models[0], REPOSITORY, **ABOUT) == first  # no empty commit
    assert not [request for request in hub.requests if request.startswith("PUT")]
    second = push_model(models[1], REPOSITORY, **ABOUT)
    assert second.commit != first.commit
    assert sapwood.load(f"hf:{REPOSITORY}") == sapwood.load(models[1])
    assert sapwood.load(first.name) == sapwood.load(models[0])
    hub.requests.clear()
    assert sapwood.load(f"hf:{REPOSITORY}") == sapwood.load(models[1])
    assert not [request for request in hub.requests if request.startswith("GET /lfs")]
    with pytest.raises(ModelError, match=f"has a model with the SHA-256 {second.digest}"):
        sapwood.load(f"hf:{REPOSITORY}#{first.digest}")


def test_the_cache_is_enough_without_a_network(hub: ModelHub, models, monkeypatch):
    pushed = push_model(models[0], REPOSITORY, **ABOUT)
    download_model(f"hf:{REPOSITORY}")
    hub.requests.clear()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    for name in (f"hf:{REPOSITORY}", pushed.name):
        assert sapwood.load(name) == sapwood.load(models[0])
    with pytest.raises(InputError, match="SHA256SUMS is not in the local cache"):
        sapwood.load("hf:owner/other")
    assert hub.requests == []


def test_a_file_with_another_digest_is_refused(hub: ModelHub, models):
    pushed = push_model(models[0], REPOSITORY, **ABOUT)
    path = download_model(pushed.name)
    whole = path.read_bytes()
    path.resolve().write_bytes(models[1].read_bytes())
    with pytest.raises(ModelError, match=f"but SHA256SUMS says {pushed.digest}; remove it"):
        sapwood.load(pushed.name)
    path.unlink()
    path.resolve().unlink(missing_ok=True)
    repository = hub.repositories[REPOSITORY]
    for number, sums in enumerate((b"", b"\xff", b"0" * 64 + b"  other\n", b"x" * 100_000)):
        repository.commits[f"{number:040}"] = {"model.sapwood": whole, "SHA256SUMS": sums}
        with pytest.raises(ModelError, match=r"does not list model\.sapwood once"):
            sapwood.load(f"hf:{REPOSITORY}")


def test_errors_say_what_to_do(hub: ModelHub, models, monkeypatch):
    push_model(models[0], "owner/hidden", private=True, **ABOUT)
    assert hub.repositories["owner/hidden"].private
    hub.repositories["owner/hidden"].commits["a" * 40] = {"README.md": b"x"}
    with pytest.raises(InputError, match=r"the repository has no SHA256SUMS; `sapwood package --push` makes"):
        sapwood.load("hf:owner/hidden")
    with pytest.raises(InputError, match=r"hf:owner/nothing: .*private and gated repositories need a token"):
        sapwood.load("hf:owner/nothing")
    with pytest.raises(InputError, match=r"hf:owner/hidden@v9: "):
        sapwood.load("hf:owner/hidden@v9")
    with pytest.raises(InputError, match=r"hf:stranger/qq: .*check the name"):
        push_model(models[0], "stranger/qq", **ABOUT)
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(InputError, match=r"hf:owner/hidden: .*HF_TOKEN"):
        sapwood.load("hf:owner/hidden")
    with pytest.raises(InputError, match=r"hf:owner/qq: .*HF_TOKEN"):
        push_model(models[0], "owner/qq", **ABOUT)
    for bad in ("qq", "owner/qq/x", "../qq", "owner/qq\n"):
        with pytest.raises(UsageError, match="not a repository"):
            push_model(models[0], bad, **ABOUT)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(InputError, match="check the network"):
        push_model(models[0], "owner/qq", **ABOUT)


def test_values_of_a_description_stay_values(hub: ModelHub, models):
    """Nothing of a model or a description can become a key of the metadata, or end it."""
    figures = {"x\n---\nlicense: mit": FIGURES}
    about = {**ABOUT, "licence": "LicenseRef-Mine", "treebank": "a: [b] --- {c}", "figures": figures}
    push_model(models[0], REPOSITORY, **about)
    text = next(iter(hub.repositories[REPOSITORY].commits.values()))["README.md"].decode()
    told = yaml.safe_load(text.split("---\n")[1])
    assert (told["license"], told["license_name"]) == ("other", "licenseref-mine")
    assert told["tags"][-1] == "a: [b] --- {c}"
    assert told["model-index"][0]["results"][0]["dataset"]["name"] == "x\n---\nlicense: mit"


def test_a_file_of_that_name_goes_before_the_hub(models, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hf:owner").mkdir()
    (tmp_path / "hf:owner" / "qq").write_bytes(models[0].read_bytes())
    assert sapwood.load("hf:owner/qq") == sapwood.load(models[0])


def test_the_package_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(InputError, match=r"hf:owner/qq: .*pip install huggingface_hub"):
        sapwood.load("hf:owner/qq")


def test_commands_push_and_load(models, tmp_path):
    """As users have it: processes of their own, the environment, and a hub that is gone in the end."""
    (tmp_path / "sources.md").write_text("Nobody.")

    def run(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "HF_HOME": str(tmp_path / "home"), "HF_HUB_DISABLE_XET": "1", **more}
        command = [sys.executable, "-m", "sapwood", *arguments]
        return subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300)

    with serving_models() as hub:
        connected = {"HF_ENDPOINT": hub.address, "HF_TOKEN": TOKEN}
        done = run(
            "package", str(models[0]), "--name", "qq", "--language", "Made-up", "--licence", "CC0-1.0",
            "--attribution", "sources.md", "--push", REPOSITORY, **connected,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        commit = next(iter(hub.repositories[REPOSITORY].commits))
        assert f"hf:{REPOSITORY}@{commit}: pushed, SHA-256 " in done.stderr
        assert [path.name for path in tmp_path.glob("*.whl")] == []
        asked = ("parse", "-q", "-m", f"hf:{REPOSITORY}", "-s", "a b")
        first = run(*asked, HF_ENDPOINT=hub.address)
    again = run(*asked, HF_ENDPOINT=hub.address, HF_HUB_OFFLINE="1")
    assert first.returncode == 0, first.stderr
    assert first.stdout == again.stdout == run("parse", "-q", "-m", str(models[0]), "-s", "a b").stdout
