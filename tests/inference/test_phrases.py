"""Phrases of parses: labels, places, heads."""

from __future__ import annotations

from sapwood import HeadRules, Parser, ParseResult, Tree
from sapwood.inference.result import Marginal

TREE = Tree.parse("(ROOT (S (NP-SBJ (NP (DT The) (NN dog)) (PP (IN with) (NP (NNS spots)))) (VP (VBZ sleeps)) (. .)))")


def result(**others) -> ParseResult:
    return ParseResult(TREE.words(), TREE, -1.0, "parsed", **others)


def reference(tree: Tree, rules: HeadRules) -> list[tuple[str, int, int, str]]:
    """Find label, place and head of each phrase by recursion."""
    found = []

    def head(node: Tree) -> Tree:
        if node.word is not None:
            return node
        return head(node.children[rules.head_index(node.label, [child.label for child in node.children])])

    def visit(node: Tree, start: int) -> None:
        if node.word is None:
            found.append((node.label, start, start + len(node), head(node).word))
            for child in node.children:
                visit(child, start)
                start += len(child)

    visit(tree, 0)
    return found


def test_phrases_are_those_of_the_reference():
    for rules in (HeadRules.english(), HeadRules.leftmost(), HeadRules.rightmost()):
        phrases = result().phrases(heads=rules)
        assert [(one.label, one.start, one.end, one.head) for one in phrases] == reference(TREE, rules)
        assert all(TREE.words()[one.head_position] == one.head for one in phrases)
        assert all(one.text.split() == TREE.words()[one.start : one.end] for one in phrases)


def test_labels_select_with_and_without_function_tags():
    assert [one.label for one in result().phrases("NP")] == ["NP-SBJ", "NP", "NP"]
    assert [one.label for one in result().phrases("NP-SBJ")] == ["NP-SBJ"]
    assert [one.label for one in result().phrases("VP", "PP")] == ["PP", "VP"]
    assert result().phrases("XP") == []
    assert ParseResult([], None, None, "empty").phrases() == []


def test_characters_and_probabilities_are_there_if_known():
    [subject] = result().phrases("NP-SBJ")
    assert (subject.start_char, subject.end_char, subject.probability) == (None, None, None)
    text = 'Well ("no"), the  dog\nbarks.'
    [parsed] = Parser(marginals=True).parse_text(text)
    for phrase in parsed.phrases():
        covered = text[phrase.start_char : phrase.end_char]
        assert (
            "".join(covered.split())[:3] == "".join(text[a:b] for a, b in parsed.offsets[phrase.start : phrase.end])[:3]
        )
        assert covered == text[parsed.offsets[phrase.start][0] : parsed.offsets[phrase.end - 1][1]]
    known = {(one.start, one.end, one.label): one.probability for one in parsed.marginals if isinstance(one, Marginal)}
    given = [phrase for phrase in parsed.phrases() if phrase.probability is not None]
    assert given
    assert all(phrase.probability == known[phrase.start, phrase.end, phrase.label] for phrase in given)
