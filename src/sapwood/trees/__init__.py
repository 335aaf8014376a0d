"""Trees and treebanks: reading, cleaning, transforming, numbering."""

from sapwood.trees.corpus import Corpus
from sapwood.trees.heads.rules import HeadRules
from sapwood.trees.lexicon.lexicon import Lexicon
from sapwood.trees.normalise import Normaliser
from sapwood.trees.transform import TreeTransform
from sapwood.trees.tree import Tree

__all__ = ["Corpus", "HeadRules", "Lexicon", "Normaliser", "Tree", "TreeTransform"]
