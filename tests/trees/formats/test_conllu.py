"""Reading CoNLL-U."""

from __future__ import annotations

import pytest

from sapwood.errors import InputError
from sapwood.trees.formats.conllu import dependencies, format_conllu, format_heads, parse_conllu, read_conllu
from sapwood.trees.tree import Tree

TEXT = """# text = Don't go
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\tVB\t_\t3\taux\t_\t_
2\tn't\tnot\tPART\t_\t_\t3\tadvmod\t_\t_
3\tgo\tgo\tVERB\tVB\t_\t0\troot\t_\t_
3.1\tgo\tgo\tVERB\tVB\t_\t_\t_\t_\t_

1\tYes\t_\tINTJ\tUH\t_\t_\t_\t_\t_
"""


def parse(text):
    return list(parse_conllu(enumerate(text.split("\n"), 1), source="a"))


def test_words_tags_and_heads():
    first, second = parse(TEXT)
    assert first.words == ["Do", "n't", "go"]
    assert first.tags == ["VB", "PART", "VB"]
    assert first.heads == [2, 2, -1]
    assert first.line == 3
    assert second == (["Yes"], ["UH"], None, 8)


def test_what_is_written_is_read(tmp_path):
    tree = Tree.parse("(ROOT (S (NP (DT the) (NN dog)) (VP (VBZ barks)) (. .)))")
    path = tmp_path / "a.conllu"
    heads = [one.head - 1 for one in dependencies(tree)]
    path.write_text(format_conllu(tree) + "\n" + format_heads(tree.words(), tree.tags(), heads, number=2))
    first, second = read_conllu(path)
    assert first[:3] == second[:3] == (tree.words(), tree.tags(), heads)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\tDo\t_", "a:1: a word of CoNLL-U has 10 columns separated by tabs, this line has 3"),
        ("2\tDo\t_\t_\t_\t_\t_\t_\t_\t_", "a:1: expected word 1 of its sentence, found '2'"),
        ("1\t \t_\t_\t_\t_\t_\t_\t_\t_", "a:1: the word is empty"),
        ("1\tDo\t_\t_\t_\t_\t2\t_\t_\t_", "not '2'"),
        ("1\tDo\t_\t_\t_\t_\t1\t_\t_\t_", "not '1'"),
        ("1\tDo\t_\t_\t_\t_\tx\t_\t_\t_", "not 'x'"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text, message):
    with pytest.raises(InputError, match=message):
        parse(text)
