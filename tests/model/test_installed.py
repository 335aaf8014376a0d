"""Forged packages and wheels: they have no models, or ones that cannot be named, and do not hide those of others."""

from __future__ import annotations

import io
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import sapwood
from sapwood.errors import InputError, ModelError, SapwoodError
from sapwood.model.installed import default_model_path, find_model, installed_models
from sapwood.runtime.registry import plugins
from sapwood.trees.formats.registry import read_trees

METADATA = b"Metadata-Version: 2.4\nName: {name}\nVersion: 1\nSummary: A model\nLicense-Expression: CC0-1.0\n"
ENTRY = b"[sapwood.models]\nqq = qq_model:MODEL\n"
Forge = Callable[..., Path]


@pytest.fixture
def forge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Forge:
    """A function that puts the metadata of a package on the path, next to those of an honest one."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))

    def forge(folder: str, metadata: bytes | None, entries: bytes | None) -> Path:
        path = site / folder
        path.mkdir()
        for name, content in (("METADATA", metadata), ("entry_points.txt", entries)):
            if content is not None:
                (path / name).write_bytes(content)
        return path

    forge("honest-1.dist-info", METADATA.replace(b"{name}", b"honest"), b"[sapwood.models]\nhonest = honest:MODEL\n")
    return forge


def names() -> list[str]:
    assert dict.fromkeys(plugins("sapwood.models"))
    return [model.name for model in installed_models()]


@pytest.mark.parametrize(
    "entries",
    [
        b"[sapwood.models]\nno value\n",
        b"[sapwood.models]\nqq = \xff\xfe\n",
        b"\xff\xfe[\0s\0a\0p\0",
        b"[sapwood.models\nqq = a:b\n[",
        b"[sapwood.models]\n" + b"x" * 100_000 + b"\n",
        b"= = =\n[]\n=",
        b"\0",
    ],
    ids=range(7),
)
def test_entry_points_that_cannot_be_read(forge: Forge, entries: bytes) -> None:
    forge("aaa-1.dist-info", METADATA.replace(b"{name}", b"aaa"), entries)
    assert {"en", "honest"} <= set(names())


@pytest.mark.parametrize(
    "metadata",
    [None, b"", b"\xff\xfe\0", b"Name\n", b"Name: \x1b[2J\nVersion: \r1\n", b"\n\nName: x", b"Name: " + b"x" * 10**6],
    ids=range(7),
)
@pytest.mark.parametrize("folder", ["aaa-1.dist-info", "-1.dist-info", "..dist-info", "aaa.dist-info"])
def test_metadata_that_cannot_be_read(forge: Forge, folder: str, metadata: bytes | None) -> None:
    forge(folder, metadata, ENTRY)
    assert {"en", "honest"} <= set(names())
    for model in installed_models():
        assert all(text and text.isprintable() and len(text) <= 300 for text in model)
    if "qq" in names():
        with pytest.raises(SapwoodError, match=r"cannot load 'qq' of sapwood.models from .*No module named 'qq_model'"):
            find_model("qq")


def test_names_of_models_in_messages(forge: Forge) -> None:
    many = b"".join(b"m%d = x:MODEL\n" % number for number in range(200))
    forge("aaa-1.dist-info", METADATA, b"[sapwood.models]\n../x = x:MODEL\n\x1b[2J = x:MODEL\n" + many)
    with pytest.raises(
        InputError, match=r"^rr: no such file .* installed are: en, honest, .* and 142 more; a wheel "
    ) as error:
        find_model("rr")
    assert str(error.value).isprintable()
    assert not [name for name in names() if not name.isalnum()]
    # Anything else is a path, whatever a package calls its models.
    assert find_model("../x") == Path("../x")


@pytest.mark.parametrize(
    "value",
    [
        "'../../../../etc/passwd'",
        "'/dev/null'",
        "''",
        "'.'",
        r"'a\0b'",
        "'x' * 10**6",
        "7",
        "None",
        "b'x'",
        "['x']",
        "'https://example.org/model'",
    ],
)
def test_what_is_no_model(forge: Forge, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = forge("qq-1.dist-info", METADATA.replace(b"{name}", b"qq"), b"[sapwood.models]\nqq = qq_model:MODEL\n")
    module = folder.parent / "qq_model.py"
    module.write_text(f"MODEL = {value}\n")
    monkeypatch.delitem(sys.modules, "qq_model", raising=False)
    with pytest.raises(ModelError, match=r"not a sapwood file|its package points to .{1,70}, which is not a file"):
        sapwood.load("qq")


def wheel(path: Path, **files: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize("content", ["model", "bomb", "traversal", "damaged", "nothing"])
def test_a_wheel_is_no_model(tmp_path: Path, content: str) -> None:
    """It is recognised by its first bytes and never opened, so whatever is in it does no harm."""
    path = tmp_path / "x.whl"
    files = {
        "model": {"sapwood_model_qq/model.sapwood": default_model_path().read_bytes()},
        "bomb": {"sapwood_model_qq/model.sapwood": bytes(10**7)},
        "traversal": {"../../x": b"", "/etc/x": b""},
    }
    if content in files:
        wheel(path, **files[content])
    else:
        path.write_bytes(b"PK\3\4" + b"\xff" * 99 if content == "damaged" else b"")
    with pytest.raises(ModelError, match="not a sapwood file") as error:
        sapwood.load(path)
    assert ("a wheel; if you trust it, install it with pip" in str(error.value)) == (content != "nothing")
    if content != "nothing":
        with pytest.raises(InputError, match=r"x\.whl:1:\d+: .*[;:] this looks like a zip archive: extract it first"):
            list(read_trees(path))
    assert [one.name for one in tmp_path.iterdir()] == ["x.whl"]


def test_an_archive_of_another_kind(tmp_path: Path) -> None:
    path = tmp_path / "x.sapwood"
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("x", b"")
    path.write_bytes(stream.getvalue())
    with pytest.raises(ModelError, match="not a sapwood file, but a zip archive"):
        sapwood.load(path)
