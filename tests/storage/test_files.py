"""Files: read with their place in mind, written whole or not at all."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import importlib
import io
import lzma
import os
import re
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from sapwood.errors import InputError
from sapwood.storage.files import atomic_write, explained, name_of, open_binary, open_output, read_lines
from sapwood.storage.zstd import LIBRARY

COMPRESSORS = [(".gz", "gzip", gzip), (".bz2", "bzip2", bz2), (".xz", "xz", lzma)]
with contextlib.suppress(ImportError):
    zstd = importlib.import_module(LIBRARY)
    checked = partial(zstd.compress, options={zstd.CompressionParameter.checksum_flag: 1})  # as sapwood compresses
    COMPRESSORS.append((".zst", "zstd", SimpleNamespace(compress=checked, decompress=zstd.decompress)))


def message_of(read) -> str:
    with pytest.raises(InputError) as caught:
        read()
    return str(caught.value)


def lines_of(path: Path) -> list[tuple[int, str]]:
    return list(read_lines(path))


def use_stdin(monkeypatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def test_names():
    assert name_of("-") == name_of(Path("-")) == "<stdin>"
    assert name_of("a/b.mrg") == name_of(Path("a/b.mrg")) == "a/b.mrg"


# Reading.


def test_lines(tmp_path):
    path = tmp_path / "x"
    path.write_bytes("one\ntwo\r\n\næ\u2028ð\x85\rend".encode())
    assert lines_of(path) == [(1, "one\n"), (2, "two\r\n"), (3, "\n"), (4, "æ\u2028ð\x85\rend")]
    path.write_bytes(b"")
    assert lines_of(path) == []


def test_byte_order_marks(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\n")
    assert lines_of(path) == [(1, "one\n"), (2, "\ufefftwo\n")]


@pytest.mark.parametrize(("ending", "kind", "module"), COMPRESSORS)
def test_compressed_lines(tmp_path, ending, kind, module):
    path = tmp_path / f"x{ending}"
    path.write_bytes(module.compress(b"\xef\xbb\xbfone\n") + module.compress("tvö\n".encode()))
    assert lines_of(path) == [(1, "one\n"), (2, "tvö\n")]
    with open_binary(path) as stream:
        assert stream.read() == b"\xef\xbb\xbfone\n" + "tvö\n".encode()


def test_standard_input(monkeypatch):
    use_stdin(monkeypatch, b"one\ntwo")
    assert list(read_lines("-")) == [(1, "one\n"), (2, "two")]
    use_stdin(monkeypatch, b"one\n\xff\n")
    assert message_of(lambda: list(read_lines("-"))).startswith("<stdin>:2:1: not valid UTF-8 (byte 0xff)")


def test_lines_come_as_they_are_asked_for(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"one\ntwo\n\xff\n")
    lines = read_lines(path)
    assert next(lines) == (1, "one\n")
    assert next(lines) == (2, "two\n")
    assert message_of(lambda: next(lines)).startswith(f"{path}:3:1:")


@pytest.mark.parametrize("size", [0x88, 0x41])
def test_models_are_not_text(tmp_path, size):
    """Whether the size that they begin with is valid UTF-8 or not."""
    path = tmp_path / "x"
    path.write_bytes(bytes([size]) + bytes(7) + b'{"__metadata__":{"sapwood":"{}"}}')
    assert message_of(lambda: lines_of(path)) == (
        f"{path}: a model written by sapwood, not a text file or treebank; pass it where a model is expected (-m)"
    )


def test_other_encodings(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"one\nna\xefve\n")
    assert message_of(lambda: lines_of(path)) == (
        f"{path}:2:3: not valid UTF-8 (byte 0xef); convert the file to UTF-8 first"
    )
    path.write_bytes("one\n".encode("utf-16"))
    assert "UTF-16" in message_of(lambda: lines_of(path))
    path.write_bytes(b"one\nt\0w\0o\0")
    assert message_of(lambda: lines_of(path)).startswith(f"{path}:2:2: a zero byte")
    for ending, kind, module in COMPRESSORS:
        path.write_bytes(module.compress(b"one"))
        assert message_of(lambda: lines_of(path)).endswith(f"this looks like {kind}: name it {ending} or decompress it")


@pytest.mark.parametrize(("ending", "kind", "module"), COMPRESSORS)
def test_damaged_archives(tmp_path, ending, kind, module):
    path = tmp_path / f"x{ending}"
    content = module.compress(os.urandom(10_000).hex().encode())
    damaged = content[:-8] + bytes(8)
    for raw in (content[:-20], content[: len(content) // 2], damaged, b"not compressed at all\n"):
        path.write_bytes(raw)
        assert message_of(lambda: lines_of(path)).startswith(f"{path}: damaged or truncated {kind} file")


def test_python_without_a_compressor(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "lzma", None)
    (tmp_path / "x.xz").write_bytes(b"")
    assert "this Python was built without xz; decompress the file" in message_of(lambda: lines_of(tmp_path / "x.xz"))


def test_zstd_files_have_checksums(tmp_path):
    pytest.importorskip(LIBRARY)
    with open_output(tmp_path / "x.zst") as stream:
        stream.write("a\n" * 100)
    assert (tmp_path / "x.zst").read_bytes()[4] & 4  # a flag in the head of the frame


def test_zstd_needs_a_library(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, LIBRARY, None)
    (tmp_path / "x.zst").write_bytes(b"")
    assert "pip install backports.zstd" in message_of(lambda: lines_of(tmp_path / "x.zst"))
    with pytest.raises(InputError, match=r"pip install backports\.zstd"), open_output(tmp_path / "y.zst"):
        pass
    assert not (tmp_path / "y.zst").exists()


def test_files_that_cannot_be_read(tmp_path):
    path = tmp_path / "x"
    assert message_of(lambda: lines_of(path)) == f"{path}: no such file or directory"
    assert message_of(lambda: lines_of(path.with_suffix(".gz"))) == f"{path}.gz: no such file or directory"
    assert message_of(lambda: lines_of(tmp_path)) == f"{tmp_path}: is a directory; name a file"
    path.write_text("one")
    assert message_of(lambda: lines_of(path / "below")).startswith(f"{path / 'below'}: cannot read it: ")


@pytest.mark.parametrize(
    ("error", "doing", "expected"),
    [
        (FileNotFoundError(), "read", "a/b: no such file or directory"),
        (FileNotFoundError(), "write", "a: no such file or directory"),
        (PermissionError(), "read", "a/b: no permission to read it"),
        (PermissionError(), "write", "a/b: no permission to write it"),
        (IsADirectoryError(), "write", "a/b: is a directory; name a file"),
        (OSError(28, "No space left on device"), "write", "a/b: cannot write it: No space left on device"),
        (EOFError("too short"), "read", "a/b: damaged or truncated gzip file (too short)"),
    ],
)
def test_errors_of_the_system(error, doing, expected):
    with pytest.raises(InputError, match=re.escape(expected)) as caught, explained("a/b", doing):
        raise error
    assert str(caught.value) == expected
    assert caught.value.__cause__ is error
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("error", [BrokenPipeError(), ValueError(), KeyboardInterrupt(), InputError("x")])
def test_other_errors_pass(error):
    with pytest.raises(type(error)) as caught, explained("a/b"):
        raise error
    assert caught.value is error


# Writing.


def test_writing(tmp_path):
    path = tmp_path / "x"
    with atomic_write(path) as stream:
        stream.write(b"new")
        stream.flush()
        assert not path.exists()
    assert path.read_bytes() == b"new"
    with atomic_write(str(path)) as stream:
        stream.write(b"newer")
        stream.flush()
        assert path.read_bytes() == b"new"
    assert path.read_bytes() == b"newer"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("writer", [atomic_write, open_output])
def test_a_failure_leaves_the_old_file(tmp_path, error, writer):
    def fail(path: Path) -> None:
        with writer(path) as stream:
            stream.write(b"half" if writer is atomic_write else "half")
            raise error

    old = tmp_path / "old"
    old.write_text("precious")
    for path in (old, tmp_path / "new", tmp_path / "new.gz"):
        with pytest.raises(error):
            fail(path)
    assert old.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [old]


@pytest.mark.skipif(os.name != "posix", reason="permissions as on POSIX systems")
def test_permissions_of_new_files(tmp_path):
    for mask in (0o022, 0o077, 0o002):
        before = os.umask(mask)
        try:
            with atomic_write(tmp_path / "x") as stream:
                stream.write(b"x")
            assert (tmp_path / "x").stat().st_mode & 0o777 == 0o666 & ~mask
            assert os.umask(mask) == mask
        finally:
            os.umask(before)


@pytest.mark.skipif(os.name != "posix", reason="links and pipes as on POSIX systems")
def test_links_are_followed_and_pipes_written_to(tmp_path):
    target, link, pipe = tmp_path / "target", tmp_path / "link", tmp_path / "pipe"
    target.write_text("old")
    link.symlink_to(target)
    with atomic_write(link) as stream:
        stream.write(b"new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with atomic_write(pipe) as stream:
            stream.write(b"through")
        assert os.read(reader, 100) == b"through"
    finally:
        os.close(reader)
    assert pipe.is_fifo()


@pytest.mark.skipif(os.name != "posix", reason="links as on POSIX systems")
def test_links_that_lead_back_to_themselves_are_not_replaced(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    one.symlink_to(other)
    other.symlink_to(one)
    with pytest.raises(InputError, match=r"one: cannot write it: .*symbolic links"), atomic_write(one) as stream:
        stream.write(b"new")
    assert one.is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "other"]


@pytest.mark.parametrize("writer", [atomic_write, open_output])
def test_files_that_cannot_be_written(tmp_path, writer):
    def write(path: Path) -> None:
        with writer(path):
            raise AssertionError("opened")

    assert message_of(lambda: write(tmp_path)) == f"{tmp_path}: is a directory; name a file"
    assert message_of(lambda: write(tmp_path / "none" / "x")) == f"{tmp_path / 'none'}: no such file or directory"
    (tmp_path / "x").write_text("one")
    assert message_of(lambda: write(tmp_path / "x" / "y")).startswith(f"{tmp_path / 'x' / 'y'}: cannot write it: ")


def test_long_names(tmp_path):
    path = tmp_path / ("x" * 250)
    with atomic_write(path) as stream:
        stream.write(b"x")
    assert path.read_bytes() == b"x"


def test_text_output(tmp_path):
    path = tmp_path / "x"
    with open_output(path) as stream:
        stream.write("ein\ntvö\n")
    assert path.read_bytes() == "ein\ntvö\n".encode()


@pytest.mark.parametrize(("ending", "kind", "module"), COMPRESSORS)
def test_compressed_output(tmp_path, ending, kind, module):
    one, two = tmp_path / f"x{ending}", tmp_path / f"y{ending}"
    for path in (one, two):
        with open_output(path) as stream:
            stream.write("ein\ntvö\n")
    assert module.decompress(one.read_bytes()) == "ein\ntvö\n".encode()
    assert one.read_bytes() == two.read_bytes()
    assert lines_of(one) == [(1, "ein\n"), (2, "tvö\n")]


@pytest.mark.parametrize("path", [None, "-", Path("-")])
def test_standard_output(capsys, path):
    with open_output(path) as stream:
        stream.write("tvö\n")
    assert capsys.readouterr().out == "tvö\n"
