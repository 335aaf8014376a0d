"""Encoders by path, name and digest."""

from __future__ import annotations

import pytest

from helpers import tiny_encoder
from sapwood.encoders.encoder import Encoder
from sapwood.encoders.lookup import VARIABLE, encoder_of_model, find_encoder
from sapwood.errors import InputError, UsageError


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    return tiny_encoder.bert_folder(tmp_path / "all" / "tiny")


def test_a_path_and_an_encoder(folder):
    assert find_encoder(folder).name == "tiny"
    assert find_encoder(given := Encoder(folder)) is given
    with pytest.raises(InputError, match="no such folder, nor an installed package"):
        find_encoder("nobody_has_this")
    with pytest.raises(InputError, match="not an encoder"):
        find_encoder(folder.parent)


def test_the_encoder_of_a_model(folder, tmp_path, monkeypatch):
    digest = Encoder(folder).digest
    assert encoder_of_model("tiny", digest) is None
    for value in (str(folder), str(folder.parent), f"/nowhere:{folder.parent}"):
        monkeypatch.setenv(VARIABLE, value)
        found = encoder_of_model("any", digest)
        assert found is not None
        assert found.folder == folder
    # One that has the place, but not the weights.
    assert encoder_of_model("tiny", "0" * 64) is None
    with pytest.raises(UsageError, match="not the encoder that the model was trained with"):
        encoder_of_model("tiny", "0" * 64, folder)
    assert encoder_of_model("tiny", digest, folder) is not None


def test_the_encoder_of_a_package(folder, tmp_path, monkeypatch):
    """Its code does not run."""
    package = tmp_path / "site" / "a_packaged_encoder"
    tiny_encoder.bert_folder(package / "model")
    (package / "__init__.py").write_text("raise RuntimeError")
    monkeypatch.syspath_prepend(str(package.parent))
    found = find_encoder("a_packaged_encoder")
    assert found.name == "a_packaged_encoder"
    assert encoder_of_model("a_packaged_encoder", found.digest) is not None
    assert encoder_of_model("a_packaged_encoder", "0" * 64) is None
