"""Treebanks are prepared from archives as they are published, here tiny ones of our own."""

from __future__ import annotations

import doctest
import gzip
import zipfile
from pathlib import Path

import pytest

import sapwood
import treebanks

GUM = {
    "gum-main/splits.md": "# Splits\n\n## dev\n\n  * GUM_news_b\n\n## test\n\n  * GUM_whow_c\n\n"
    "## test2\n\n  * GENTLE_x_y\n\n## train\n\n  * GUM_news_a\n  * GUM_reddit_d\n",
    "gum-main/const/GUM_news_a.ptb": "(ROOT\n  (S (NP-SBJ (PRP It))\n  (VP (VBD rained))))\n\n(ROOT (NP (NN News)))\n",
    "gum-main/const/GUM_news_b.ptb": "(ROOT (FRAG (RB Again)))\n",
    "gum-main/const/GUM_whow_c.ptb": "(ROOT (S (VP (VB Stir))))\n",
    "gum-main/const/GUM_reddit_d.ptb": "(ROOT (NP (NN _)))\n",
    "gum-main/const/GENTLE_x_y.ptb": "(ROOT (NP (NN other)))\n",
}


def archive(path: Path, files: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as made:
        for name, text in files.items():
            made.writestr(name, text)
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = treebanks.main([str(argument) for argument in arguments])
    return code, *capsys.readouterr()


def test_gum(tmp_path, capsys):
    made = archive(tmp_path / "gum.zip", GUM)
    code, out, err = run(capsys, "prepare", "gum", made, "-o", tmp_path / "data")
    assert (code, err[:8]) == (0, "gum: ann")
    assert out.splitlines() == [
        f"{tmp_path / 'data' / 'gum'}: 2 / 1 / 1 lines (the tables: 10,224 / 1,575 / 1,464)",
        f"{tmp_path / 'data' / 'gum-open'}: 2 / 1 / 0 lines (the tables: 3,707 / 438 / 491)",
    ]
    train = (tmp_path / "data" / "gum" / "train.mrg").read_text("utf-8")
    assert train == "(ROOT (S (NP-SBJ (PRP It)) (VP (VBD rained))))\n(ROOT (NP (NN News)))\n"
    assert (tmp_path / "data" / "gum" / "test.mrg").read_text("utf-8") == "(ROOT (S (VP (VB Stir))))\n"


def test_icepahc(tmp_path, capsys):
    tree = "( (IP-MAT (NP-SBJ *pro*)\n\t(VBPI {0}-lesa) (CODE <P_1>) (. .-.))\n  (ID 1150.X,.1))\n\n"
    files = {
        "icecorpus-main/finished/1150.b.psd": "".join(tree.format(f"a{n}") for n in range(900)),
        "icecorpus-main/finished/1210.a.psd": "".join(tree.format(f"b{n}") for n in range(60)) + "( (ID 1210.Y,.2))\n",
        "icecorpus-main/finished/additions/x.psd": tree.format("c"),
    }
    code, _, _ = run(capsys, "prepare", "icepahc", archive(tmp_path / "i.zip", files), "-o", tmp_path)
    assert code == 0
    train = (tmp_path / "icepahc" / "train.mrg").read_text("utf-8").splitlines()
    dev = (tmp_path / "icepahc" / "dev.mrg").read_text("utf-8").splitlines()
    assert (len(train), len(dev)) == (910, 50)
    assert dev[0] == "( (IP-MAT (NP-SBJ *pro*) (VBPI b0) (CODE <P_1>) (. .)))"
    assert "b50" in train[900]


def test_wsj_sample_and_brown(tmp_path, capsys):
    files = {f"treebank/combined/wsj_{n:04}.mrg": f"\n( (S (NN w{n}) ))\n" for n in (1, 159, 160, 199)}
    files["treebank/tagged/wsj_0001.pos"] = "no trees"
    assert run(capsys, "prepare", "wsj-sample", archive(tmp_path / "w.zip", files), "-o", tmp_path)[0] == 0
    parts = {
        part: len(list(sapwood.read_trees(tmp_path / "wsj-sample" / f"{part}.mrg")))
        for part in ("train", "dev", "test")
    }
    assert parts == {"train": 2, "dev": 1, "test": 1}
    files = {
        "brown/cb01": "\n\n\tA/at and-or/cc 1/2/cd ./.\n",
        "brown/ca01": "It/pps rained/vbd ./.\n",
        "brown/README": "x",
    }
    assert run(capsys, "prepare", "brown", archive(tmp_path / "b.zip", files), "-o", tmp_path)[0] == 0
    assert (
        gzip.decompress((tmp_path / "brown" / "brown.txt.gz").read_bytes()).decode() == "It rained .\nA and-or 1/2 .\n"
    )


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"x/README": ""}, "is it the right archive?"),
        ({**GUM, "gum-main/splits.md": "## train\n"}, "does not say which part GUM_news_a belongs to"),
        ({**GUM, "gum-main/const/GUM_news_a.ptb": "(ROOT (NP (NN a))\n"}, "GUM_news_a.ptb:1"),
    ],
)
def test_what_is_not_right(tmp_path, capsys, files, problem):
    code, out, err = run(capsys, "prepare", "gum", archive(tmp_path / "gum.zip", files), "-o", tmp_path / "data")
    assert (code, out) == (3, "")
    assert problem in err
    assert not (tmp_path / "data").exists()


def test_members_that_cannot_be_read(tmp_path, capsys):
    made = archive(tmp_path / "gum.zip", GUM)
    with zipfile.ZipFile(made, "a") as more:
        more.writestr("gum-main/const/GUM_news_z.ptb", b"\xff\xfe")
    code, _, err = run(capsys, "prepare", "gum", made, "-o", tmp_path / "data")
    assert (code, "GUM_news_z.ptb cannot be read" in err) == (3, True)
    damaged = bytearray(archive(tmp_path / "gum.zip", GUM).read_bytes())
    place = damaged.index(b"(ROOT (S (VP (VB Stir")
    damaged[place + 8] ^= 1
    made.write_bytes(damaged)
    code, _, err = run(capsys, "prepare", "gum", made, "-o", tmp_path / "data")
    assert (code, "GUM_whow_c.ptb cannot be read (Bad CRC-32" in err) == (3, True)


def test_files_that_are_no_archives(tmp_path, capsys):
    (tmp_path / "gum.zip").write_text("<html>")
    code, _, err = run(capsys, "prepare", "gum", tmp_path / "gum.zip")
    assert (code, "not a ZIP archive" in err) == (3, True)
    assert "no such file" in run(capsys, "prepare", "gum", tmp_path / "none.zip")[2]


def test_fetching_takes_what_is_there_and_says_what_it_cannot_get(tmp_path, capsys, monkeypatch):
    def refuse(url, timeout):
        raise OSError("no network")

    monkeypatch.setattr(treebanks.urllib.request, "urlopen", refuse)
    archive(tmp_path / "gum.zip", GUM)
    assert run(capsys, "fetch", "gum", "-o", tmp_path)[0] == 0
    code, _, err = run(capsys, "fetch", "brown", "-o", tmp_path)
    assert code == 3
    assert "brown.zip: cannot be fetched (no network); download it by hand and use `prepare`" in err
    assert not (tmp_path / "brown.zip").exists()


def test_examples_in_docstrings():
    assert doctest.testmod(treebanks).attempted == 1
    assert not doctest.testmod(treebanks).failed
