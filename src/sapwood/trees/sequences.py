"""Sequences as right-branching trees, so that learners of grammars also train taggers.

Cohen et al. (long paper), section 9. A sequence `x_1 .. x_n` becomes `(S x_1 (S x_2 ... (S x_{n-1} x_n)))`: the node
over `x_i .. x_n` carries the hidden state at `i`. With transitions `A(g, h)`, emissions `O(h, x)`, initial
probabilities `pi_h` and the probability `e_h` that a sequence ends after state `h`, an HMM is the L-PCFG with

    S_g -> X_g S_h    A(g, h) (1 - e_h)        S_h at the root    pi_h (1 - e_h)
    S_g -> X_g X_h    A(g, h) e_h              X_h at the root    pi_h e_h          X_h -> x    O(h, x)

where `S` covers at least two words, so a state of `S` is one that does not end the sequence. A tagged sequence has a
symbol `X` for each tag. A grammar without hidden states then does not depend on the preceding tags; labelling each
phrase by its first tag makes it the HMM whose states are the tags.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from sapwood.errors import InputError
from sapwood.trees.normalise import Normaliser
from sapwood.trees.tree import Tree

PHRASE = "S"
# Words and tags of sequences are kept as is: they contain neither traces nor function tags.
SEQUENCES = Normaliser(function_tags="none", empties=False, repeated_unaries=False, drop=())


def right_branching(
    sequences: Iterable[Sequence[str]],
    tags: Iterable[Sequence[str]] | None = None,
    *,
    phrase: str = PHRASE,
    tag: str = "X",
) -> list[Tree]:
    """Return sequences as right-branching trees.

    Parameters
    ----------
    sequences
        The words of each; none may be empty.
    tags
        The tags of each, one per word; by default all words have the same tag.
    phrase, tag
        The label of all phrases, and the default tag.

    Examples
    --------
    >>> for tree in right_branching([["rain", "fell", "again"], ["rain"]]):
    ...     print(tree)
    (S (X rain) (S (X fell) (X again)))
    (X rain)
    >>> print(right_branching([["rain", "fell"]], [["N", "V"]])[0])
    (S (N rain) (V fell))
    """
    words = [list(sequence) for sequence in sequences]
    names = [[tag] * len(sequence) for sequence in words] if tags is None else [list(given) for given in tags]
    if len(names) != len(words):
        raise InputError(f"{len(words):,} sequences of words, and {len(names):,} of tags: give each sequence its tags")
    trees = []
    for number, (sequence, given) in enumerate(zip(words, names, strict=True), start=1):
        if not sequence:
            raise InputError(f"sequence {number:,} is empty: a tree has at least one word; remove it")
        if len(given) != len(sequence):
            raise InputError(f"sequence {number:,} has {len(sequence):,} words and {len(given):,} tags")
        trees.append(_branch(list(zip(sequence, given, strict=True)), lambda _: phrase))
    return trees


def sequence_trees(sequences: Iterable[Sequence[tuple[str, str]]]) -> Iterator[Tree]:
    """Yield `(word, tag)` sequences as right-branching trees; empty ones are skipped.

    >>> print(next(sequence_trees([[("rain", "N"), ("fell", "V"), ("again", "R")]])))
    (S (N rain) (S (V fell) (R again)))
    """
    return (_branch(pairs, lambda _: PHRASE) for pairs in sequences if pairs)


def labelled_by_tags(tree: Tree) -> Tree:
    """Return the right-branching tree with each phrase labelled by the tag of its first word.

    >>> print(labelled_by_tags(Tree.parse("(S (N rain) (S (V fell) (R again)))")))
    (N (N rain) (V (V fell) (R again)))
    """
    return _branch([(node.word or "", node.label) for node in tree.preterminals()], lambda tag: tag)


def _branch(pairs: Sequence[tuple[str, str]], phrase: Callable[[str], str]) -> Tree:
    leaves = [Tree(tag, word=word) for word, tag in pairs]
    tree = leaves.pop()
    while leaves:
        leaf = leaves.pop()
        tree = Tree(phrase(leaf.label), (leaf, tree))
    return tree
