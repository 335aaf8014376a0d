"""Crawls: one output for each file, whole or not at all, and nothing done twice."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from helpers.elsewhere import Elsewhere
from helpers.made_up import Writer
from sapwood import PCFG, Parser
from sapwood.errors import InputError, UsageError
from sapwood.inference import batch as module
from sapwood.inference.batch import MANIFEST, Manifest, TextIO, parse_files, summary
from sapwood.runtime.shards import Shard
from sapwood.storage.files import read_lines

WRITER = Writer(4)
GRAMMAR = PCFG().fit(PCFG.prepare([WRITER.sentence() for _ in range(60)]))
SENTENCES = [" ".join(WRITER.sentence().words()) for _ in range(12)]


@pytest.fixture
def crawl(tmp_path: Path) -> list[Path]:
    (tmp_path / "in").mkdir()
    one, two, three = (tmp_path / "in" / name for name in ("one.txt", "two.txt.gz", "three"))
    one.write_text("\n".join(SENTENCES[:5]) + "\n", encoding="utf-8")
    two.write_bytes(gzip.compress(f"{SENTENCES[5]}\n\n{SENTENCES[6]}\n".encode()))
    three.write_text("", encoding="utf-8")
    return [one, two, three]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def entries(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / MANIFEST).read_text().splitlines()[1:]]


@pytest.mark.parametrize("more", [{}, {"threads": 3}, {"workers": Elsewhere()}], ids=["one", "three", "elsewhere"])
def test_each_file_has_an_output(crawl: list[Path], tmp_path: Path, more: dict[str, Any]) -> None:
    reports = parse_files(Parser(GRAMMAR, **more), crawl, tmp_path / "deep" / "out")
    out = tmp_path / "deep" / "out"
    assert sorted(contents(out)) == [MANIFEST, "one.mrg", "three.mrg", "two.mrg.gz"]
    expected = [str(result.tree) for result in Parser(GRAMMAR).parse(line.split() for line in SENTENCES[:7])]
    assert [line.rstrip("\n") for _, line in read_lines(out / "one.mrg")] == expected[:5]
    # One line in, one line out.
    assert [line.rstrip("\n") for _, line in read_lines(out / "two.mrg.gz")] == [expected[5], "", expected[6]]
    assert [report.sentences for report in reports] == [5, 3, 0]
    found = Counter(result.status for result in Parser(GRAMMAR).parse(line.split() for line in SENTENCES[5:7]))
    assert reports[1].statuses == {**found, "empty": 1}
    assert [entry["input"] for entry in entries(out)] == ["one.txt", "two.txt.gz", "three"]
    assert summary(reports).startswith("3 files, 8 sentences (")
    assert "1 empty" in summary(reports)


def test_what_is_done_is_left_alone(crawl: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parser, out = Parser(GRAMMAR), tmp_path / "out"
    first = parse_files(parser, crawl, out)
    before = contents(out)
    with monkeypatch.context() as patch:
        patch.setattr(Parser, "parse", lambda *_: pytest.fail("parsed again"))
        again = parse_files(parser, crawl, out)
    assert all(report.skipped for report in again)
    assert [report.to_dict() for report in again] == [report.to_dict() for report in first]
    assert contents(out) == before
    assert summary(again).endswith("3 file(s) were done before")
    # An output that was damaged or is gone, and an input that changed, are done again, and only they.
    (out / "one.mrg").write_text("(damaged)\n")
    assert [report.skipped for report in parse_files(parser, crawl, out)] == [False, True, True]
    assert (out / "one.mrg").read_bytes() == before["one.mrg"]
    (out / "one.mrg").unlink()
    crawl[2].write_text(SENTENCES[7] + "\n")
    assert [report.skipped for report in parse_files(parser, crawl, out)] == [False, True, False]
    # The last line about a file is the one that counts.
    assert all(report.skipped for report in parse_files(parser, crawl, out))


def test_an_interrupted_run_goes_on(crawl: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parser, honest, calls = Parser(GRAMMAR), module.parse_file, []

    def interrupted(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return honest(*arguments)

    monkeypatch.setattr(module, "parse_file", interrupted)
    with pytest.raises(KeyboardInterrupt):
        parse_files(parser, crawl, tmp_path / "out")
    assert len(entries(tmp_path / "out")) == 1
    # A line that was cut short by the end of the machine is as if it were not there.
    with (tmp_path / "out" / MANIFEST).open("a") as stream:
        stream.write('{"input": "two.t')
    reports = parse_files(parser, crawl, tmp_path / "out")
    assert [report.skipped for report in reports] == [True, False, False]
    whole = parse_files(parser, crawl, tmp_path / "whole")
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert len(whole) == 3


def test_bad_lines_are_blank_and_named(crawl: list[Path], tmp_path: Path) -> None:
    crawl[0].write_bytes(f"{SENTENCES[0]}\nbad \xff byte\n{SENTENCES[1]}\n".encode("latin-1") + b"zero \0\n")
    crawl[1].write_bytes(crawl[1].read_bytes()[:-9])
    reports = parse_files(Parser(GRAMMAR), crawl, tmp_path / "out")
    assert len(reports[0].bad) == 2
    assert "one.txt:2:5: not valid UTF-8" in reports[0].bad[0]
    assert "one.txt:4:6: a zero byte" in reports[0].bad[1]
    lines = (tmp_path / "out" / "one.mrg").read_text().split("\n")
    assert [bool(line) for line in lines] == [True, False, True, False, False]
    # A file that is damaged leaves no output, and keeps nobody waiting.
    assert "two.txt.gz: damaged or truncated" in reports[1].error
    assert not (tmp_path / "out" / "two.mrg.gz").exists()
    assert summary(reports).endswith("2 line(s) could not be read; 1 file(s) failed")
    # What failed is tried again.
    crawl[1].write_bytes(gzip.compress(SENTENCES[3].encode()))
    again = parse_files(Parser(GRAMMAR), crawl, tmp_path / "out")
    assert [report.skipped for report in again] == [True, False, True]
    assert len(again[0].bad) == 2
    assert not again[1].error


def test_tagged_plain_and_json(crawl: list[Path], tmp_path: Path) -> None:
    crawl[0].write_text("dogs/N sleep/V\nnothing\nx/NOPE\n")
    tags = sorted(set(GRAMMAR.emissions.tags))
    crawl[2].write_text(f"dogs/{tags[0]}\n")
    form = TextIO(tags=True, as_json=True)
    reports = parse_files(Parser(GRAMMAR), [crawl[0], crawl[2]], tmp_path / "a", form)
    assert any("one.txt:2: expected word/TAG, found 'nothing'" in problem for problem in reports[0].bad)
    assert any("one.txt:3: the model has no tag 'NOPE'" in problem for problem in reports[0].bad)
    assert [json.loads(line)["status"] for line in (tmp_path / "a" / "three.jsonl").read_text().splitlines()]
    crawl[2].write_text("It is late. Go home!")
    assert parse_files(Parser(GRAMMAR), crawl[2:], tmp_path / "b", TextIO(raw=True))[0].sentences == 2
    assert parse_files(Parser(GRAMMAR), crawl[2:], tmp_path / "c", TextIO(output="export"))[0].sentences == 1
    assert (tmp_path / "c" / "three.export").read_text().startswith("#FORMAT 3\n")


def test_names_of_outputs() -> None:
    form = TextIO()
    assert form.output_name("a/news.txt.gz") == "news.mrg.gz"
    assert form.output_name("x.txt") == "x.mrg"
    assert form.output_name("x.en.xz") == "x.en.mrg.xz"
    assert TextIO(as_json=True).output_name("x") == "x.jsonl"
    assert TextIO(output="tokens").output_name("x.txt") == "x.txt"


def test_what_cannot_be_done(crawl: list[Path], tmp_path: Path) -> None:
    parser, out = Parser(GRAMMAR), tmp_path / "out"
    with pytest.raises(UsageError, match=r"would both be written to one\.mrg"):
        parse_files(parser, [crawl[0], tmp_path / "in" / "one"], out)
    with pytest.raises(UsageError, match="is not a regular file"):
        parse_files(parser, ["-"], out)
    with pytest.raises(UsageError, match="where the manifest is"):
        parse_files(parser, ["manifest.txt"], out, TextIO(as_json=True))
    parse_files(parser, crawl, out)
    for other, form in ((Parser(GRAMMAR, threshold=0.1), TextIO()), (parser, TextIO(output="pretty"))):
        with pytest.raises(UsageError, match="with another model or other options"):
            parse_files(other, crawl, out, form)
    key = json.loads((out / MANIFEST).read_text().splitlines()[0])["key"]
    for line, complaint in (("no json", "not a line"), ('{"input": 3}', "missing"), ("[]", "object")):
        (out / MANIFEST).write_text(json.dumps({"key": key}) + f"\n{line}\n")
        with pytest.raises(InputError, match=rf"manifest\.jsonl:2: .*{complaint}.*remove the file"):
            Manifest(out, key)


@pytest.fixture
def whole(crawl: list[Path], tmp_path: Path) -> dict[str, bytes]:
    parse_files(Parser(GRAMMAR), crawl, tmp_path / "whole")
    return contents(tmp_path / "whole")


@pytest.mark.parametrize("count", [1, 2, 3])
def test_shards_of_files_are_taken_over_by_a_run_of_all(
    crawl: list[Path], tmp_path: Path, whole: dict[str, bytes], count: int
) -> None:
    out = tmp_path / "out"
    for index in range(count, 0, -1):
        parse_files(Parser(GRAMMAR), crawl, out, shard=Shard(index, count))
        again = parse_files(Parser(GRAMMAR), crawl, out, shard=Shard(index, count))
        assert all(report.skipped for report in again)
    manifests = {f"manifest.{index}-of-{count}.jsonl" for index in range(1, count + 1)}
    assert {*contents(out), MANIFEST} == {*whole, *manifests}
    assert all(report.skipped for report in parse_files(Parser(GRAMMAR), crawl, out))
    assert contents(out) == whole


def test_a_run_of_all_parses_what_shards_have_not(crawl: list[Path], tmp_path: Path, whole: dict[str, bytes]) -> None:
    out = tmp_path / "out"
    done = parse_files(Parser(GRAMMAR), crawl, out, shard=Shard(2, 2))
    found = parse_files(Parser(GRAMMAR), crawl, out)
    assert [report.input for report in found if report.skipped] == [report.input for report in done]
    assert len(done) < len(crawl)
    assert contents(out) == whole
    with pytest.raises(UsageError, match="use at most 3 shards"):
        parse_files(Parser(GRAMMAR), crawl, out, shard=Shard(1, 4))
    with pytest.raises(UsageError, match="a cluster parses all files"):
        parse_files(Parser(GRAMMAR, workers=Elsewhere()), crawl, out, shard=Shard(1, 2))


@pytest.mark.parametrize(
    "form",
    [
        TextIO(),
        TextIO(output="export"),
        TextIO(output="tiger"),
        TextIO(as_json=True),
        TextIO(raw=True, lines="sentences"),
    ],
    ids=["brackets", "export", "tiger", "json", "raw"],
)
def test_joined_shards_of_lines_are_the_output_of_one_run(tmp_path: Path, form: TextIO) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("\n".join([*SENTENCES[:4], "", SENTENCES[4]]), encoding="utf-8")  # no line feed at the end
    parse_files(Parser(GRAMMAR), [lines], tmp_path / "whole", form)
    (output,) = set(contents(tmp_path / "whole")) - {MANIFEST}
    for count in (1, 3, 10):
        out = tmp_path / f"out{count}"
        for index in range(1, count + 1):
            for skipped in (False, True):
                (report,) = parse_files(Parser(GRAMMAR), [lines], out, form, shard=Shard(index, count))
                assert report.skipped == skipped
        stem, suffix = output.rsplit(".", 1)
        parts = sorted(out.glob(f"{stem}.*-of-{count}.{suffix}"))
        assert len(parts) == count
        assert b"".join(part.read_bytes() for part in parts) == (tmp_path / "whole" / output).read_bytes()
    # A run of all parses the file, and leaves the shards alone.
    before = contents(tmp_path / "out3")
    parse_files(Parser(GRAMMAR), [lines], tmp_path / "out3", form)
    assert contents(tmp_path / "out3") == before | contents(tmp_path / "whole")


def test_shards_report_only_their_own_lines(tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_bytes(b"fine\nbad \xff\nfine\nworse \xff\xff\nfine\nfine\n")
    found = [
        report.bad
        for index in (1, 2, 3)
        for report in parse_files(Parser(GRAMMAR), [lines], tmp_path / "out", shard=Shard(index, 3))
    ]
    assert [[message.split(": ")[0].rpartition("/")[2] for message in bad] for bad in found] == [
        ["lines.txt:2:5"], ["lines.txt:4:7"], [],
    ]  # fmt: skip
    raw = tmp_path / "raw.txt"
    raw.write_text("One.\nTwo.\n")
    for form in (TextIO(raw=True), TextIO(raw=True, lines="sentences", as_json=True)):
        with pytest.raises(UsageError, match="sentences go on from line to line"):
            parse_files(Parser(GRAMMAR), [raw], tmp_path / "raw", form, shard=Shard(1, 2))
