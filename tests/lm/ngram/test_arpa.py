from __future__ import annotations

import gzip
import math

import numpy as np
import pytest

from helpers.lm_twins import write
from sapwood.errors import InputError
from sapwood.lm import KneserNey, count_text, encode_text, read_arpa, write_arpa

SMALL = r"""some words before

\data\
ngram 1=5
ngram 2=3

\1-grams:
-1.5	<UNK>
-99	<s>	-0.25
-0.5	</s>
-0.75	a	-0.5
-1.0	b

\2-grams:
-0.25	<s> a
-0.125	a b
-2	b </s>

\end\
"""


@pytest.mark.parametrize("name", ["model.arpa", "model.arpa.gz"])
@pytest.mark.parametrize("boundaries", ["sentence", "stream"])
@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_models_come_back(tmp_path, order, boundaries, name):
    rng = np.random.default_rng(order)
    lines = [" ".join(f"w{x}\u00a0é" for x in (20 * rng.random(8) ** 2).astype(int)) for _ in range(40)]
    text = write(tmp_path, "\n".join(lines))
    counts = count_text(text, order=order, min_count=3, boundaries=boundaries)
    model = KneserNey(order=order).fit(counts)
    write_arpa(model, tmp_path / name)
    again = read_arpa(tmp_path / name)
    assert again.vocabulary.words == model.vocabulary.words
    assert again.boundaries == boundaries
    assert again.tree.starts.tolist() == model.tree.starts.tolist()
    assert again.tree.words.tolist() == model.tree.words.tolist()
    assert again.backoffs == pytest.approx(model.backoffs, abs=1e-6)
    for ids in encode_text(text, model.vocabulary, boundaries):
        assert again.log_probabilities(ids) == pytest.approx(model.log_probabilities(ids), abs=1e-6)
    content = (tmp_path / name).read_bytes()
    lines = (gzip.decompress(content) if name.endswith(".gz") else content).decode().split("\n")
    assert any(line.startswith("-99\t<s>") for line in lines)  # KenLM wants both marks
    assert any("\t</s>" in line for line in lines)
    write_arpa(again, tmp_path / name)
    assert (tmp_path / name).read_bytes() == content


def test_the_file_is_what_other_tools_expect(tmp_path):
    half = (0.5, 0.5, 0.5)
    counts = count_text(write(tmp_path, "a b\na c\n"))
    write_arpa(KneserNey(order=2, discounts=(half, half)).fit(counts), tmp_path / "model.arpa")
    logs = {p: f"{math.log10(p):.9g}" for p in (0.2, 0.25, 0.35, 0.4, 0.5, 0.7, 0.8)}
    assert (tmp_path / "model.arpa").read_text().splitlines() == [
        "\\data\\",
        "ngram 1=5",
        "ngram 2=5",
        "",
        "\\1-grams:",
        f"-99\t<s>\t{logs[0.25]}",
        f"{logs[0.4]}\t</s>",
        f"{logs[0.2]}\ta\t{logs[0.5]}",
        f"{logs[0.2]}\tb\t{logs[0.5]}",
        f"{logs[0.2]}\tc\t{logs[0.5]}",
        "",
        "\\2-grams:",
        f"{logs[0.8]}\t<s> a",
        f"{logs[0.35]}\ta b",
        f"{logs[0.35]}\ta c",
        f"{logs[0.7]}\tb </s>",
        f"{logs[0.7]}\tc </s>",
        "",
        "\\end\\",
    ]


def test_a_file_of_another_tool(tmp_path):
    (tmp_path / "model.arpa").write_text(SMALL)
    model = read_arpa(tmp_path / "model.arpa")
    assert model.vocabulary.words == ["<unk>", "<s>", "</s>", "a", "b"]
    assert model.order == 2
    ids = model.vocabulary.encode(["<s>", "a", "b", "b", "unheard", "a", "a", "</s>"])
    expected = [0, -0.25, -0.125, -1.0, -1.5, -0.75, -0.5 - 0.75, -0.5 - 0.5]
    assert model.log_probabilities(ids) / math.log(10) == pytest.approx(expected)


def test_a_stream_has_no_ends_to_predict_and_zero_for_s_is_read(tmp_path):
    text = SMALL.replace("-99\t<s>", "0\t<s>").replace("-0.5\t</s>", "-99\t</s>").replace("-2\tb </s>", "-2\tb b")
    (tmp_path / "model.arpa").write_text(text.replace("\n", "\r\n"))
    model = read_arpa(tmp_path / "model.arpa")
    assert model.boundaries == "stream"
    assert np.isneginf(model.values[[1, 2]]).all()


def test_ngrams_whose_ends_were_pruned_are_read(tmp_path):
    text = SMALL.replace("ngram 2=3\n", "ngram 2=3\nngram 3=1\n").replace(
        "-2\tb </s>\n", "-2\tb </s>\n\n\\3-grams:\n-0.0625\ta b b\n"
    )
    (tmp_path / "model.arpa").write_text(text)
    model = read_arpa(tmp_path / "model.arpa")
    ids = model.vocabulary.encode(["<s>", "a", "b", "b", "b"])
    assert model.log_probabilities(ids) / math.log(10) == pytest.approx([0, -0.25, -0.125, -0.0625, -1.0])


@pytest.mark.parametrize(
    ("old", "new", "line", "problem"),
    [
        (SMALL, "", 1, "the file ends here"),
        ("\\data\\", "\\dat\\", 3, "not an ARPA file"),
        ("ngram 1=5\nngram 2=3\n", "", 5, "expected lines such as 'ngram 1=1000'"),
        ("ngram 2=3", "ngram 2=many", 5, "expected a line such as"),
        ("ngram 2=3", "ngram 3=3", 5, "the orders of n-grams"),
        ("ngram 1=5", "ngram 1=6", 14, "6 1-grams were announced, but there are 5"),
        ("ngram 1=5", "ngram 1=4", 12, "there are more 1-grams than 4"),
        ("ngram 2=3", "ngram 2=4", 19, "4 2-grams were announced, but there are 3"),
        ("ngram 2=3", "ngram 2=2", 17, "there are more 2-grams than 2"),
        ("\\1-grams:", "\\2-grams:", 7, "expected \\\\1-grams:"),
        ("\\2-grams:", "\\3-grams:", 14, "expected \\\\2-grams:"),
        ("-0.5\t</s>", "x\t</s>", 10, "not a number: 'x'"),
        ("-0.5\t</s>", "nan\t</s>", 10, "not the logarithm"),
        ("-0.125\ta b", "0.125\ta b", 16, "not the logarithm"),
        ("-0.5\t</s>", "0.5\t</s>", 10, "not the logarithm"),
        ("-0.75\ta\t-0.5", "-0.75\ta\tinf", 11, "not the logarithm"),
        ("-0.5\t</s>", "-0.5", 10, "has a logarithm, 1 words"),
        ("-0.125\ta b", "-0.125\ta", 16, "has a logarithm, 2 words"),
        ("-0.125\ta b", "-0.125\ta b a b", 16, "has a logarithm, 2 words"),
        ("-0.125\ta b", "-0.125\ta x", 16, "'x' is not among the 1-grams"),
        ("-1.0\tb", "-1.0\ta", 12, "'a' occurs a second time"),
        ("-0.125\ta b", "-0.125\tb </s>", 17, "'b </s>' occurs a second time"),
        ("\n\\end\\", "", 19, "the file ends here"),
        ("\\end\\", "\\3-grams:", 19, "expected \\\\end\\\\"),
        (
            "-2\tb </s>\n\n\\end\\",
            "-2\tb </s>\n\\3-grams:\n-1\ta b a\n-1\ta a b\n\\end\\",
            21,
            "the beginning of 'a a b' is not among the 2-grams",
        ),
    ],
)
def test_malformed_files_are_errors_that_name_the_line(tmp_path, old, new, line, problem):
    path = tmp_path / "model.arpa"
    assert old in SMALL
    text = SMALL.replace(old, new)
    if "3-grams:\n-1" in new:
        text = text.replace("ngram 2=3\n", "ngram 2=3\nngram 3=2\n")
    path.write_text(text)
    with pytest.raises(InputError, match=problem) as caught:
        read_arpa(path)
    assert str(caught.value).startswith(f"{path}:{line}: ")


def test_compressed_files_that_are_damaged_are_errors(tmp_path):
    path = tmp_path / "model.arpa.gz"
    path.write_bytes(gzip.compress(SMALL.encode())[:-20])
    with pytest.raises(InputError, match="damaged or truncated gzip"):
        read_arpa(path)


def test_missing_beginnings_of_every_order_are_named(tmp_path):
    """In the middle of four orders, too, where the longest n-grams have rows of their own."""
    more = "-2\tb </s>\n\\3-grams:\n-1\ta b a\n-1\ta a b\n\\4-grams:\n-1\ta b a b\n-1\ta b a </s>\n\\end\\"
    text = SMALL.replace("ngram 2=3\n", "ngram 2=3\nngram 3=2\nngram 4=2\n").replace("-2\tb </s>\n\n\\end\\", more)
    (tmp_path / "model.arpa").write_text(text)
    with pytest.raises(InputError, match="the beginning of 'a a b' is not among the 2-grams") as caught:
        read_arpa(tmp_path / "model.arpa")
    line = next(number for number, each in enumerate(text.splitlines(), 1) if each.endswith("a a b"))
    assert f"model.arpa:{line}" in str(caught.value)
