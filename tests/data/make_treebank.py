"""Writes the treebank beside it, `python tests/data/make_treebank.py`: English as the Penn Treebank has it.

A small grammar of our own makes the sentences, the same ones every time: function tags, traces with their indices,
unary chains, coordination, questions, relative clauses, numbers, money, parentheses, quotes. `ODD` has trees that such
a grammar would not make. Nothing here imports sapwood, so that its readers are checked against another writer.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

Word = TypeVar("Word")
# A label with a word, or with nodes below it.
Node = tuple[str, "str | list[Node]"]

TRAIN, DEV = 160, 40
NAMES, SURNAMES, NOUNS, ADJECTIVES, ADVERBS, PREPOSITIONS = (
    words.split()
    for words in (
        "Ada Boris Celia Dunmore Edith Farid Greta Hollis Ines Jonah",
        "Okafor Lindqvist Marsh O'Dell Petrov Quill Reyes",
        "boat garden letter kitchen teacher window river baker ticket bicycle village engine doctor piano owl harbour",
        "old small wooden red quiet careful early foreign heavy bright unusual painted",
        "slowly often again quietly carefully finally",
        "in near behind with under beside",
    )
)
# Base form, third person, past, participle.
TRANSITIVE = [
    ("see", "sees", "saw", "seen"), ("paint", "paints", "painted", "painted"), ("find", "finds", "found", "found"),
    ("repair", "repairs", "repaired", "repaired"), ("sell", "sells", "sold", "sold"),
    ("carry", "carries", "carried", "carried"), ("break", "breaks", "broke", "broken"),
]  # fmt: skip
INTRANSITIVE = [
    ("sleep", "sleeps", "slept"), ("wait", "waits", "waited"), ("arrive", "arrives", "arrived"),
    ("sing", "sings", "sang"), ("leave", "leaves", "left"),
]  # fmt: skip
CLAUSAL = [("say", "says", "said"), ("think", "thinks", "thought"), ("hope", "hopes", "hoped")]
CONTROL = [("try", "tries", "tried"), ("want", "wants", "wanted"), ("promise", "promises", "promised")]
ODD: list[Node] = [
    ("FRAG", [("NP", [("NN", "f(x)"), ("SYM", "="), ("-LRB-", "("), ("CD", "0"), ("-RRB-", ")")])]),
    ("S", [("NP-SBJ", [("NNP", "Þórdís"), ("NNP", "Müller-Østergård")]), ("VP", [("VBZ", "naïve")]), (".", "…")]),
    ("S", [("NP|NN", [("NN", "either")]), ("@VP", [("VB|VBP", "or")]), ("NP^S", [("NN^NP", "else")])]),
    ("@S~NP~VP", [("X\\", [("@", "@"), ("|", "|"), ("^", "^")]), ("~", "~")]),
    ("NP", [("NP", [("NP", [("NP", [("NN", "Nest")])])])]),
    ("X", [("X", [("名詞", "日本語"), ("UH", "😀")]), ("FW", "e\u0301te\u0301"), ("NN", "no\u00a0break")]),
    ("S", [("NP-SBJ=2", [("-NONE-", "*")]), ("VP", [("NP-1=3", [("CD", "1,000,000")]), ("ADVP-TMP", [("RB", "0")])])]),
    ("INTJ", [("UH", "No")]),
    ("NP", [("CD", "1/2"), ("NN", "a/b\\c"), ("NN", "http://example.org/a_(b)#c")]),
    ("S", [(".", "?"), (":", "--"), (",", ","), ("``", "``"), ("''", "''"), ("$", "$"), ("#", "#"), ("HYPH", "-")]),
    ("S", [("CODE", "<P_3>"), ("NP", [("N-A", "hestinn")]), ("VBDI", "sá"), ("ID", "1250.EXAMPLE,.12")]),
    ("S", [("NP", [("-NONE-", "*pro*")]), ("VP", [("-NONE-", "0")])]),
]


class Writer:
    """Writes one sentence after the other."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.traces = 0

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def word(self, options: Sequence[Word]) -> Word:
        # The first ones are frequent, the last ones rare.
        return options[int(len(options) * self.random.random() ** 2)]

    def index(self) -> int:
        self.traces += 1
        return self.traces

    # Noun phrases

    def noun_phrase(self, label: str = "NP", depth: int = 0) -> Node:
        kind = self.random.random()
        if kind < 0.15:
            return (label, [("NNP", self.word(names)) for names in (NAMES, SURNAMES)[: 1 + self.chance(0.4)]])
        if kind < 0.3:
            pronouns = ["she", "he", "they", "it", "we"] if "SBJ" in label else ["him", "it", "us"]
            return (label, [("PRP", self.word(pronouns))])
        if kind < 0.38:
            return (label, [self.quantity(), ("NNS", self.word(NOUNS) + "s")])
        if kind < 0.42:
            amount = self.random.random() * 90
            return (label, [("$", "$"), ("CD", f"{amount:.2f}"), ("-NONE-", "*U*")])
        plain: Node = ("NP", self.plain_noun())
        if depth < 2 and self.chance(0.4):
            return (label, [plain, self.modifier(depth + 1)])
        if depth < 2 and self.chance(0.12):
            return (label, [plain, ("CC", self.word(["and", "or"])), self.noun_phrase(depth=2)])
        return (label, plain[1])

    def plain_noun(self) -> list[Node]:
        noun = self.word(NOUNS)
        adjectives: list[Node] = [("JJ", self.word(ADJECTIVES)) for _ in range(int(self.random.random() * 2.3))]
        if self.chance(0.2):
            return [*adjectives, ("NNS", noun + "s")]
        if self.chance(0.12):
            return [("NP", [("NNP", self.word(NAMES)), ("POS", "'s")]), *adjectives, ("NN", noun)]
        return [("DT", self.word(["the", "a", "this", "every"])), *adjectives, ("NN", noun)]

    def quantity(self) -> Node:
        number: Node = ("CD", self.word(["two", "12", "three", "1,450", "forty-one"]))
        return ("QP", [("RB", self.word(["about", "nearly"])), number]) if self.chance(0.4) else number

    def modifier(self, depth: int) -> Node:
        kind = self.random.random()
        if kind < 0.5:
            return self.prepositional_phrase(depth=depth)
        if kind < 0.7:
            return ("PRN", [("-LRB-", "("), self.noun_phrase(depth=2), ("-RRB-", ")")])
        trace = self.index()
        if kind < 0.85:
            subject: Node = ("NP-SBJ", [("-NONE-", f"*T*-{trace}")])
            clause: Node = ("S", [subject, self.verb_phrase(depth=2)])
        else:
            verb: list[Node] = [("VBD", self.word(TRANSITIVE)[2]), ("NP", [("-NONE-", f"*T*-{trace}")])]
            clause = ("S", [self.noun_phrase("NP-SBJ", 2), ("VP", verb)])
        return ("SBAR", [(f"WHNP-{trace}", [("WDT", self.word(["that", "which"]))]), clause])

    def prepositional_phrase(self, label: str = "PP", depth: int = 0) -> Node:
        return (label, [("IN", self.word(PREPOSITIONS)), self.noun_phrase(depth=depth)])

    # Verb phrases and clauses

    def verb_phrase(self, depth: int = 0, plural: bool = False) -> Node:
        kind = self.random.random()
        if kind < 0.35:
            tag, form = ("VBD", 2) if self.chance(0.7) else ("VBP", 0) if plural else ("VBZ", 1)
            children: list[Node] = [(tag, self.word(TRANSITIVE)[form]), self.noun_phrase(depth=depth)]
        elif kind < 0.55:
            children = [("VBD", self.word(INTRANSITIVE)[2])]
        elif kind < 0.65:
            very: list[Node] = [("RB", "very")] if self.chance(0.4) else []
            copula: Node = ("VBP", "are") if plural else ("VBZ", "is")
            children = [copula, ("ADJP-PRD", [*very, ("JJ", self.word(ADJECTIVES))])]
        elif kind < 0.75:
            negation: list[Node] = [("RB", "not")] if self.chance(0.3) else []
            return ("VP", [("MD", self.word(["will", "can", "must"])), *negation, self.base_phrase(depth)])
        elif kind < 0.83 and depth < 2:
            return ("VP", [self.verb_phrase(2, plural), ("CC", "and"), self.verb_phrase(2, plural)])
        elif kind < 0.91 and depth < 2:
            missing: Node = ("NP-SBJ", [("-NONE-", "*")])
            clause: Node = ("S", [missing, ("VP", [("TO", "to"), self.base_phrase(2)])])
            return ("VP", [("VBD", self.word(CONTROL)[2]), clause])
        elif depth < 2:
            complement: Node = ("IN", "that") if self.chance(0.5) else ("-NONE-", "0")
            return ("VP", [("VBD", self.word(CLAUSAL)[2]), ("SBAR", [complement, self.clause(2)])])
        else:
            children = [("VBD", self.word(INTRANSITIVE)[2])]
        if self.chance(0.5):
            children.append(self.prepositional_phrase(self.word(["PP-LOC", "PP", "PP-DIR"]), depth))
        if self.chance(0.2):
            children.append(("ADVP-MNR", [("RB", self.word(ADVERBS))]))
        elif self.chance(0.1):
            children.append(("NP-TMP", [("NN", self.word(["yesterday", "today"]))]))
        return ("VP", children)

    def base_phrase(self, depth: int) -> Node:
        if self.chance(0.4):
            return ("VP", [("VB", self.word(INTRANSITIVE)[0])])
        return ("VP", [("VB", self.word(TRANSITIVE)[0]), self.noun_phrase(depth=depth)])

    def clause(self, depth: int = 0, label: str = "S") -> Node:
        if self.chance(0.12):
            return self.passive(label)
        subject = self.noun_phrase("NP-SBJ", depth)
        return (label, [subject, self.verb_phrase(depth, is_plural(subject))])

    def passive(self, label: str) -> Node:
        trace = self.index()
        participle: list[Node] = [("VBN", self.word(TRANSITIVE)[3]), ("NP", [("-NONE-", f"*-{trace}")])]
        if self.chance(0.5):
            participle.append(("PP", [("IN", "by"), self.noun_phrase("NP-LGS", 2)]))
        subject = self.noun_phrase(f"NP-SBJ-{trace}", 1)
        return (label, [subject, ("VP", [("VBD", "were" if is_plural(subject) else "was"), ("VP", participle)])])

    # Sentences

    def statement(self) -> Node:
        label, children = self.clause()
        front: list[Node] = [self.prepositional_phrase("PP-TMP", 1), (",", ",")] if self.chance(0.15) else []
        return (label, [*front, *children, (".", ".")])

    def coordination(self) -> Node:
        return ("S", [self.clause(1), (",", ","), ("CC", self.word(["and", "but"])), self.clause(1), (".", ".")])

    def yes_or_no(self) -> Node:
        return ("SQ", [("VBD", "did"), self.noun_phrase("NP-SBJ", 1), self.base_phrase(1), (".", "?")])

    def question(self) -> Node:
        trace = self.index()
        what: Node = (f"WHNP-{trace}", [("WP", self.word(["what", "who"]))])
        gap: Node = ("NP", [("-NONE-", f"*T*-{trace}")])
        if self.chance(0.4):
            return ("SBARQ", [what, ("SQ", [("NP-SBJ", gap[1]), self.verb_phrase(1)]), (".", "?")])
        below: Node = ("VP", [("VB", self.word(TRANSITIVE)[0]), gap])
        return ("SBARQ", [what, ("SQ", [("VBD", "did"), self.noun_phrase("NP-SBJ", 1), below]), (".", "?")])

    def speech(self) -> Node:
        trace = self.index()
        said: Node = ("VP", [("VBD", self.word(CLAUSAL)[2]), ("S", [("-NONE-", f"*T*-{trace}")])])
        speech = self.clause(1, f"S-TPC-{trace}")
        return ("S", [("``", "``"), speech, (",", ","), ("''", "''"), self.noun_phrase("NP-SBJ", 2), said, (".", ".")])

    def fragment(self) -> Node:
        options: list[Callable[[], Node]] = [
            lambda: ("FRAG", [self.noun_phrase(), (".", ".")]),
            lambda: ("FRAG", [("ADVP", [("RB", self.word(ADVERBS))]), (".", "!")]),
            lambda: ("INTJ", [("UH", "yes"), (".", ".")]),
            lambda: ("NP", [("NP", [("NNS", self.word(NOUNS) + "s")])]),
            lambda: ("S", [("VP", [("VB", self.word(INTRANSITIVE)[0])]), (".", "!")]),
        ]
        return options[int(self.random.random() * len(options))]()

    def sentence(self) -> Node:
        self.traces = 0
        kind = self.random.random()
        for limit, write in (
            (0.55, self.statement), (0.63, self.coordination), (0.71, self.yes_or_no), (0.79, self.question),
            (0.88, self.speech), (1.0, self.fragment),
        ):  # fmt: skip
            if kind < limit:
                tree = write()
                break
        return as_written(tree)


def is_plural(phrase: Node) -> bool:
    """Whether a verb goes with this subject in its plural form."""
    first = phrase if isinstance(phrase[1][0][1], str) else phrase[1][0]
    return any(child[0] in ("CC", "NNS") or child[1] in ("they", "we") for child in [*phrase[1], *first[1]])


def as_written(tree: Node) -> Node:
    """Return the tree with `an` before vowels, and with a capital letter at its beginning."""
    words: list[str] = []

    def visit(node: Node) -> Node:
        # From right to left: each word is written when the one behind it is known.
        tag, word = node
        if not isinstance(word, str):
            return (tag, [visit(child) for child in reversed(word)][::-1])
        if (tag, word) == ("DT", "a") and words[-1][0] in "aeiou":
            word = "an"
        if tag != "-NONE-":
            words.append(word)
        return (tag, word)

    first = True

    def capitalised(node: Node) -> Node:
        nonlocal first
        if not isinstance(node[1], str):
            return (node[0], [capitalised(child) for child in node[1]])
        if first and node[0] not in ("-NONE-", "``"):
            first = False
            return (node[0], node[1][0].upper() + node[1][1:])
        return node

    return capitalised(visit(tree))


def brackets(node: Node) -> str:
    """Return the tree in brackets."""
    label, content = node
    if isinstance(content, str):
        return f"({label} {content.replace('(', '-LRB-').replace(')', '-RRB-')})"
    return f"({label} {' '.join(map(brackets, content))})"


def export(tree: Node, number: int) -> str:
    """Return the tree in NEGRA export, version 3: what follows the first hyphen of a label is the edge."""
    words: list[list[str]] = []
    phrases: list[list[str]] = []

    def visit(node: Node) -> list[str]:
        cut = node[0].find("-", 1) if node[0][0] != "-" else -1
        label, edge = (node[0], "--") if cut < 0 else (node[0][:cut], node[0][cut + 1 :])
        if isinstance(node[1], str):
            words.append([node[1], label, "--", edge, "0"])
            return words[-1]
        below = [visit(child) for child in node[1]]
        phrases.append([f"#{500 + len(phrases)}", label, "--", edge, "0"])
        for row in below:
            row[-1] = phrases[-1][0][1:]
        return phrases[-1]

    visit(tree)
    return "\n".join([f"#BOS {number}", *map("\t".join, words + phrases), f"#EOS {number}"])


def main() -> None:
    """Write all files."""
    writer = Writer(1)
    for name, trees in (
        ("train", [writer.sentence() for _ in range(TRAIN)]),
        ("dev", [writer.sentence() for _ in range(DEV)]),
        ("odd", ODD),
    ):
        folder = Path(__file__).parent
        lines = [f"( {brackets(tree)})\n" for tree in trees]
        (folder / f"{name}.mrg").write_text("".join(lines), encoding="utf-8", newline="\n")
        sentences = [export(tree, number) for number, tree in enumerate(trees, 1)]
        text = "\n".join(["#FORMAT 3", *sentences, ""])
        (folder / f"{name}.export").write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
