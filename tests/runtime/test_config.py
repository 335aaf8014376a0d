from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.errors import InputError, UsageError
from sapwood.runtime.config import read_config, write_config

KNOWN = ("method", "states", "word-prior", "resume", "files")


def written(tmp_path, text):
    path = tmp_path / "run.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_reads_strings_numbers_truth_values_and_lists(tmp_path):
    path = written(
        tmp_path, '# a run\nmethod = "em"\nstates = 8\nword-prior = 0.5\nresume = true\nfiles = ["a", "b"]\n'
    )
    expected = {"method": "em", "states": 8, "word-prior": 0.5, "resume": True, "files": ["a", "b"]}
    assert read_config(path, KNOWN) == expected
    assert list(read_config(path, KNOWN)) == list(expected)


def test_an_empty_file_has_no_settings(tmp_path):
    assert read_config(written(tmp_path, ""), KNOWN) == {}


@pytest.mark.parametrize(
    ("text", "place", "remedy"),
    [
        ('method = "em"\nstates = eight\n', ":2: not TOML", "states = 8"),
        ('method = "em', ":1: not TOML", "write lines"),
        ("states = 1\nstates = 2\n", ":2: not TOML", "overwrite"),
        ("states = 1\n\nword_prior = 2\n", ":3: there is no setting 'word_prior'", "did you mean word-prior?"),
        ("quux = 2\n", ":1: there is no setting 'quux'", "settings are files, method, resume, states, word-prior"),
        ("[states]\nnumber = 2\n", ":1: states is not a string", "write one of them"),
        ("states = 1979-05-27\n", ":1: states is not a string", "write one of them"),
        ("files = [[1], [2]]\n", ":1: files is not a string", "list of these"),
        ("states.more = 2\n", ":1: states is not a string", "list of these"),
        (f"files = {'[' * 5000}\n", ":", "write lines"),
        (b"states = 1\nmethod = '\xff'\n", ":2:11: not valid UTF-8", "convert"),
    ],
)
def test_a_bad_file_is_refused_with_place_and_remedy(tmp_path, text, place, remedy):
    path = written(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read_config(path, KNOWN)
    assert str(caught.value).startswith(f"{path}{place}")
    assert remedy in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.toml: no such file"):
        read_config(tmp_path / "nowhere.toml", KNOWN)


scalars = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
)
settings = st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.one_of(scalars, st.lists(scalars)))


@given(settings)
def test_what_is_written_is_read_back(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("config") / "run.toml"
    write_config(path, values)
    found = read_config(path, values)
    assert found == values
    assert list(found) == list(values)
    for name, value in found.items():
        assert type(value) is type(values[name])


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e999", "9223372036854775808", "9" * 5000, "[0.5, nan]"])
def test_numbers_that_cannot_be_used(tmp_path, value):
    path = written(tmp_path, f"prior = {value}\n")
    with pytest.raises(UsageError, match=r"run\.toml:.* a number"):
        read_config(path, ["prior"])


def test_what_is_written_can_be_read_by_a_person(tmp_path):
    write_config(tmp_path / "run.toml", {"method": "pivot+em", "prior": 1e-05, "files": ("a.txt", "b.txt"), "q": False})
    assert (tmp_path / "run.toml").read_text() == (
        'method = "pivot+em"\nprior = 1e-05\nfiles = ["a.txt", "b.txt"]\nq = false\n'
    )
