from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from helpers.treebank_files import treebank
from sapwood.errors import InputError
from sapwood.trees.formats.brackets import read_brackets
from sapwood.trees.formats.registry import read_trees
from sapwood.trees.heads.rules import HeadRules, head_positions
from sapwood.trees.normalise import Normaliser, cut_function_tag
from sapwood.trees.tree import Tree


def head(table: str, label: str, children: str) -> int:
    return HeadRules.parse(table).head_index(label, children.split())


@pytest.mark.parametrize(
    ("line", "children", "expected"),
    [
        ("X left A B", "C B A B A", 2),
        ("X right A B", "C B A B A C", 4),
        ("X left A B", "C B C B", 1),
        ("X right A B", "C B C B C", 3),
        ("X leftdis A B", "C B A B A", 1),
        ("X rightdis A B", "A A B C", 2),
        ("X leftexcept A B", "A B C A C", 2),
        ("X rightexcept A B", "C A C A B", 2),
        ("X left", "A B C", 0),
        ("X right", "A B C", 2),
        # Nothing found: the side that the rule names.
        ("X left Z", "A B C", 0),
        ("X right Z", "A B C", 2),
        ("X leftexcept A B C", "A B C", 0),
        ("X rightdis Z", "A B C", 2),
        # Several lines, in order; the last one's side decides when all fail.
        ("X left A\nX rightdis B C", "C B C D", 2),
        ("X left Z\nX right Y", "A B C", 2),
        ("X right Z\nX left Y", "A B C", 0),
    ],
)
def test_directions(line: str, children: str, expected: int):
    assert head(line, "X", children) == expected


def test_default_rules_are_for_labels_without_their_own():
    table = "X left A\n* right B"
    assert head(table, "Y", "B A B C") == 2
    assert head(table, "X", "C B") == 0
    assert head("X right", "Y", "A B C") == 0


def test_comments_blank_lines_and_the_tag_number_sign():
    table = "\n# a comment left A\n   # another\n#\nX left # $\n"
    assert head(table, "X", "A $ #") == 2


def test_labels_with_decoration():
    table = "NP rightdis NN NP-TMP\nNP leftdis NP -LRB-"
    assert head(table, "NP-SBJ=2", "DT NN-X DT") == 1
    assert head(table, "NP^S", "DT NN|A NN^B DT") == 2
    # The exact label goes first, the plain one second, line by line.
    assert head(table, "NP", "NP-SBJ NP-TMP NP-LOC") == 1
    assert head(table, "NP", "X NP-LOC NP-SBJ") == 1
    assert head(table, "NP", "X -LRB- Y") == 1
    assert head("NP-TMP right\nNP left", "NP-TMP", "A B") == 1
    assert head("NP-TMP right\nNP left", "NP-LOC", "A B") == 0


def test_leftmost_and_rightmost():
    assert HeadRules.leftmost().head_index("S", ["A", "B", "C"]) == 0
    assert HeadRules.rightmost().head_index("S", ["A", "B", "C"]) == 2
    assert HeadRules.leftmost().name == "leftmost"
    assert HeadRules.rightmost().name == "rightmost"


def test_no_children():
    with pytest.raises(ValueError, match="without children"):
        HeadRules.leftmost().head_index("S", [])


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("S left A\nNP\n", 2, "LABEL DIRECTION"),
        ("S up VP", 1, "unknown direction 'up'"),
        ("S leftish VP", 1, "unknown direction 'leftish'"),
        ("S leftdis", 1, "leftdis needs at least one candidate"),
        ("S left A B A", 1, "'A' stands twice"),
        ("S left\nS right A", 2, "never reached: the one on line 1"),
        ("#comment here too", 1, "a comment begins with '#' and a blank"),
    ],
)
def test_errors_name_file_and_line(tmp_path: Path, text: str, line: int, message: str):
    path = tmp_path / "rules.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message) as caught:
        HeadRules.read(path)
    assert f"rules.txt:{line}: " in str(caught.value)


def test_an_empty_table_is_refused(tmp_path: Path):
    path = tmp_path / "rules.txt"
    path.write_text("# nothing\n", encoding="utf-8")
    with pytest.raises(InputError, match="no head rules"):
        HeadRules.read(path)


def test_rules_from_a_file_are_named_after_it(tmp_path: Path):
    path = tmp_path / "rules.txt"
    path.write_text("S right VP\n", encoding="utf-8")
    rules = HeadRules.read(path)
    assert rules.name == str(path)
    assert rules.head_index("S", ["NP", "VP", "."]) == 1


@pytest.mark.parametrize(
    ("label", "children", "expected"),
    [
        ("NP", "DT JJ NN", 2),
        ("NP", "NP PP", 0),
        ("NP", "NP NN NN", 2),  # a possessor before its noun
        ("NP", "NP , CC NP", 0),
        ("NP", "DT CD", 1),
        ("S", "NP-SBJ VP .", 1),
        ("S", "S , CC S .", 0),
        ("S", "NP-SBJ NP-PRD", 1),
        ("S", ", NP", 1),
        ("VP", "MD RB VP", 0),
        ("VP", "ADVP VBD NP", 1),
        ("VP", "VP CC VP", 0),
        ("PP", "ADVP IN NP", 1),
        ("SBAR", "RB IN S", 1),
        ("ADJP", "RB JJ PP", 1),
        ("ROOT", "`` S ''", 1),
        ("", "NP . ''", 0),
        ("FRAG", "CC NP .", 1),
        ("QP", "IN $ CD CD", 1),
    ],
)
def test_english(label: str, children: str, expected: int):
    assert HeadRules.english().head_index(label, children.split()) == expected


def test_head_positions_in_preorder():
    tree = Tree.parse("(ROOT (S (NP (DT the) (NN dog)) (VP (VBD saw) (NP (PRP me))) (. .)))")
    assert " ".join(node.label for node in tree.nodes()) == "ROOT S NP DT NN VP VBD NP PRP ."
    assert head_positions(tree, HeadRules.english()) == [2, 2, 1, 0, 1, 2, 2, 3, 3, 4]
    assert head_positions(tree, HeadRules.leftmost()) == [0, 0, 0, 0, 1, 2, 2, 3, 3, 4]
    assert head_positions(tree, HeadRules.rightmost()) == [4, 4, 1, 0, 1, 3, 2, 3, 3, 4]


def test_head_positions_of_deep_trees():
    tree = Tree("A", word="a")
    for _ in range(5000):
        tree = Tree("X", [Tree("B", word="b"), tree])
    assert head_positions(tree, HeadRules.rightmost())[0] == 5000


NOUNS = {"NN", "NNS", "NNP", "NNPS", "PRP", "EX", "WP", "FW"}


# The first 3,000 trees of each: the share depends on the genre (amounts of money have no noun).
@pytest.mark.parametrize("name", ["ours", "gum", "wsj-sample"])
def test_heads_in_treebanks(name: str):
    path = treebank(f"{name}/train.mrg")
    rules = HeadRules.english()
    head_tags: dict[str, Counter[str]] = {"NP": Counter(), "VP": Counter(), "PP": Counter()}
    clause_heads: Counter[str] = Counter()
    for tree in islice(read_brackets(path), 3000):
        tags = tree.tags()
        for node, position in zip(tree.nodes(), head_positions(tree, rules), strict=True):
            label = node.label.split("-")[0]
            if label in head_tags and node.word is None and tags[position] != "-NONE-":
                head_tags[label][tags[position]] += 1
            if label == "S" and len(node.children) > 1:
                labels = [child.label for child in node.children]
                clause_heads[labels[rules.head_index(node.label, labels)].split("-")[0]] += 1

    def share(counts: Counter[str], wanted: set[str]) -> float:
        assert counts.total() > 100
        return sum(counts[name] for name in wanted) / counts.total()

    assert share(clause_heads, {"VP"}) >= 0.85
    assert share(clause_heads, {"VP", "S"}) >= 0.95
    assert share(head_tags["NP"], NOUNS) >= 0.9
    assert share(head_tags["VP"], {"VB", "VBD", "VBG", "VBN", "VBP", "VBZ", "MD", "TO"}) >= 0.95
    assert share(head_tags["PP"], {"IN", "TO"}) >= 0.95


ICELANDIC_EXAMPLES = [
    ("IP-MAT", ["NP-SBJ", "MDPI", "ADVP", "VB", "NP-OB1"], 1),
    ("IP-MAT-SPE", ["ADVP", "IP-INF", "BEDI", "VAN"], 2),
    ("IP-SUB=2", ["IP-SUB-1", "CONJP"], 0),
    ("IP-INF", ["TO", "HV", "VBN", "NP-OB1"], 1),
    ("IP-SMC", ["NP-SBJ", "ADJP"], 0),
    ("IP-SMC", ["NP-SBJ", "NP-PRD"], 1),
    ("CP-REL", ["WNP-1", "C", "IP-SUB"], 1),
    ("CP-QUE-SPE", ["WADVP", "IP-SUB"], 0),
    ("CP-THT", ["IP-SUB"], 0),
    ("PP", ["ADVP", "P", "NP"], 1),
    ("NP-SBJ", ["D-N", "ADJ-N", "N-N", "D-N", "CP-REL"], 2),
    ("NP", ["NPR-N", "NPR-N"], 0),
    ("NP-OB2", ["PRO-D", "NP-PRN"], 0),
    ("NP", ["NP", "CONJP"], 0),
    ("NP-POS", ["Q-G", "CP-REL"], 0),
    ("ADJP", ["ADVR", "ADJ-N", "PP"], 1),
    ("ADVP-TMP", ["ADV", "ADV"], 1),
    ("CONJP", ["CONJ", "NP"], 1),
    ("CONJP", ["CONJ", "NS-G"], 1),
    ("VB", ["VB", "CONJ", "VB"], 0),
    ("ROOT", ["IP-MAT", "."], 0),
    ("UNHEARD-OF", [",", "N-N"], 1),
]


@pytest.mark.parametrize(("label", "children", "head"), ICELANDIC_EXAMPLES)
def test_icelandic_heads(label, children, head):
    assert HeadRules.icelandic().head_index(label, children) == head


def test_nearly_all_phrases_of_the_corpus_have_a_rule():
    """Of phrases with several children, all but a few find their head by a rule of their own."""
    rules, clean = HeadRules.icelandic(), Normaliser(function_tags="indices")
    seen = without = 0
    for tree in islice(read_trees(treebank("icepahc/dev.mrg.gz")), 500):
        for node in () if (found := clean(tree)) is None else found.nodes():
            if len(node.children) > 1:
                children = {cut_function_tag(child.label) for child in node.children} | {c.label for c in node.children}
                own = rules._rules.get(cut_function_tag(node.label), ())
                seen += 1
                without += not any(rule.kind != "except" and children & rule.ranks.keys() for rule in own)
    assert seen > 1000
    assert without < 0.01 * seen


def test_rules_have_names(tmp_path):
    assert HeadRules.named("english").name == "english"
    assert HeadRules.named("icelandic").name == "icelandic"
    path = tmp_path / "heads.txt"
    path.write_text("* right\n")
    assert HeadRules.named(path).head_index("X", ["A", "B"]) == 1
    with pytest.raises(InputError, match="no such file"):
        HeadRules.named("klingon")
