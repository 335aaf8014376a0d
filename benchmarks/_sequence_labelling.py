"""A small constituency parser by sequence labelling, which `benchmarks/peers.py` measures.

    python benchmarks/_sequence_labelling.py train TRAIN.mrg DEV.mrg MODEL.pt [--seed 0]
    python benchmarks/_sequence_labelling.py parse MODEL.pt TOKENS.txt OUTPUT.mrg

Each word gets three labels, and a tree is decoded from them in linear time (Gómez-Rodríguez and Vilares 2018): the
number of ancestors that it shares with the next word, relative to the word before; the label of the lowest of these;
its tag, below the unary phrases over it. A bidirectional LSTM over embeddings of words and affixes predicts all three.
Needs torch, and runs on one thread.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import sapwood

# What joins the labels of a unary chain.
_CHAIN = "+"


class Labels(NamedTuple):
    """The three labels of a word."""

    change: int
    shared: str
    leaf: str


def encode(tree: sapwood.Tree) -> list[Labels]:
    """Return the labels of the words of a tree.

    >>> encode(sapwood.Tree.parse("(ROOT (S (NP (DT the) (NN dog)) (VP (VBZ barks))))"))
    [Labels(change=2, shared='NP', leaf='DT'), Labels(change=-1, shared='ROOT+S', leaf='NN'), Labels(change=0, shared='', leaf='VP+VBZ')]
    """  # noqa: E501
    paths: list[tuple[list[tuple[int, str]], str]] = []
    pending: list[tuple[sapwood.Tree, list[tuple[int, str]]]] = [(tree, [])]
    while pending:
        node, above = pending.pop()
        chain = [node.label]
        while len(node.children) == 1:
            node = node.children[0]
            chain.append(node.label)
        if node.word is not None:
            paths.append((above, _CHAIN.join(chain)))
        else:
            below = [*above, (id(node), _CHAIN.join(chain))]
            pending.extend((child, below) for child in reversed(node.children))
    labels, before = [], 0
    for (path, leaf), (following, _) in zip(paths, [*paths[1:], ([], "")], strict=True):
        n_shared = sum(1 for one, other in zip(path, following, strict=False) if one[0] == other[0])
        if not following:
            labels.append(Labels(0, "", leaf))
            break
        labels.append(Labels(n_shared - before, path[n_shared - 1][1], leaf))
        before = n_shared
    return labels


def decode(words: list[str], labels: list[Labels]) -> sapwood.Tree:
    """Return the tree that labels describe; labels that contradict each other are repaired.

    >>> tree = sapwood.Tree.parse("(ROOT (S (NP (DT the) (NN dog)) (VP (VBZ barks))))")
    >>> decode(tree.words(), encode(tree)) == tree
    True
    """
    # A node is a list: its label, then its children.
    root: list[Any] = [None]
    spine, before = [root], 1
    for idx, (word, label) in enumerate(zip(words, labels, strict=True)):
        last = idx == len(words) - 1
        shared = 1 if last else max(1, (before if idx else 0) + label.change)
        while len(spine) < shared:
            new: list[Any] = [None]
            spine[-1].append(new)
            spine.append(new)
        spine[min(max(before, shared), len(spine)) - 1].append((word, label.leaf))
        del spine[shared:]
        if not last and spine[-1][0] is None:
            spine[-1][0] = label.shared
        before = shared
    return _as_tree(root)


def _as_tree(root: list[Any]) -> sapwood.Tree:
    """Return nodes as a tree; those without a label, or with one child, are left out."""

    def chain(label: str, children: list[sapwood.Tree] | None, word: str | None) -> sapwood.Tree:
        *above, lowest = label.split(_CHAIN)
        tree = sapwood.Tree(lowest, word=word) if children is None else sapwood.Tree(lowest, children)
        for one in reversed(above):
            tree = sapwood.Tree(one, [tree])
        return tree

    order, pending = [], [root]
    while pending:
        node = pending.pop()
        order.append(node)
        pending.extend(child for child in node[1:] if isinstance(child, list))
    made: dict[int, list[sapwood.Tree]] = {}
    for node in reversed(order):
        children: list[sapwood.Tree] = []
        for child in node[1:]:
            children.extend(made.pop(id(child)) if isinstance(child, list) else [chain(child[1], None, child[0])])
        keep = node[0] and (len(children) > 1 or node is root)
        made[id(node)] = [chain(node[0], children, None)] if keep else children
    [*trees] = made[id(root)]
    if len(trees) == 1 and trees[0].label == "ROOT":
        return trees[0]
    return sapwood.Tree("ROOT", trees)


def _features(word: str) -> list[str]:
    """Return the strings that have embeddings: the word, its endings and its beginning, its shape."""
    shape = "".join("A" if c.isupper() else "a" if c.islower() else "0" if c.isdigit() else c for c in word)
    squeezed = "".join(c for c, before in zip(shape, " " + shape, strict=False) if c != before)
    lower = word.lower()
    return [word, "w:" + lower, "3:" + lower[-3:], "2:" + lower[-2:], "p:" + lower[:2], "s:" + squeezed]


def _model(n_features: int, sizes: list[int]) -> Any:
    import torch
    from torch import nn

    class Tagger(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.EmbeddingBag(n_features, 200, mode="sum", padding_idx=0)
            self.lstm = nn.LSTM(200, 200, num_layers=2, bidirectional=True, batch_first=True, dropout=0.3)
            self.drop = nn.Dropout(0.3)
            self.heads = nn.ModuleList(
                nn.Sequential(nn.Linear(400, 128), nn.LeakyReLU(0.1), nn.Linear(128, size)) for size in sizes
            )

        def forward(self, rows: Any, lengths: Any) -> list[Any]:
            n_sentences, longest, width = rows.shape
            embedded = self.embed(rows.view(-1, width)).view(n_sentences, longest, -1)
            packed = nn.utils.rnn.pack_padded_sequence(
                self.drop(embedded), lengths, batch_first=True, enforce_sorted=False
            )
            out, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
            out = self.drop(out)
            return [head(out) for head in self.heads]

    torch.set_num_threads(1)
    return Tagger()


def _rows(sentences: list[list[str]], ids: dict[str, int], unknown: float = 0.0) -> tuple[Any, Any]:
    """Return ids of features, padded, and the lengths; words are replaced by unknown ones at random."""
    import torch

    lengths = [len(words) for words in sentences]
    rows = torch.zeros(len(sentences), max(lengths), 6, dtype=torch.long)
    for i, words in enumerate(sentences):
        for j, word in enumerate(words):
            found = [ids.get(name, 0) for name in _features(word)]
            if unknown and random.random() < unknown:
                found[0] = found[1] = 0
            rows[i, j] = torch.tensor(found)
    return rows, torch.tensor(lengths)


def _batches(sentences: list[list[str]], n_words: int) -> list[list[int]]:
    batches: list[list[int]] = []
    size = 0
    for idx in sorted(range(len(sentences)), key=lambda i: len(sentences[i])):
        if not batches or size + len(sentences[idx]) > n_words:
            batches.append([])
            size = 0
        batches[-1].append(idx)
        size += len(sentences[idx])
    return batches


def _parse(model: Any, tables: dict[str, Any], sentences: list[list[str]]) -> list[sapwood.Tree]:
    import torch

    model.eval()
    trees: list[sapwood.Tree | None] = [None] * len(sentences)
    with torch.inference_mode():
        for batch in _batches(sentences, 2000):
            rows, lengths = _rows([sentences[i] for i in batch], tables["ids"])
            best = [scores.argmax(-1) for scores in model(rows, lengths)]
            for place, i in enumerate(batch):
                labels = [
                    Labels(*(table[head[place, j]] for table, head in zip(tables["labels"], best, strict=True)))
                    for j in range(len(sentences[i]))
                ]
                trees[i] = decode(sentences[i], labels)
    return [tree for tree in trees if tree is not None]


def train(train_file: Path, dev_file: Path, output: Path, seed: int, epochs: int) -> None:
    """Train a model, and keep the weights of the epoch that is best on dev."""
    import torch

    random.seed(seed)
    torch.manual_seed(seed)
    clean = sapwood.Normaliser()
    gold, dev = (
        [tree for tree in map(clean, sapwood.read_trees(path)) if tree is not None] for path in (train_file, dev_file)
    )
    sentences, encoded = [tree.words() for tree in gold], [encode(tree) for tree in gold]
    seen = Counter(name for words in sentences for word in words for name in _features(word))
    ids = {name: i for i, name in enumerate((name for name, n in seen.items() if n > 1), 1)}
    labels = [sorted({label[k] for one in encoded for label in one}, key=str) for k in range(3)]
    numbers = [{label: i for i, label in enumerate(table)} for table in labels]
    model = _model(len(ids) + 1, [len(table) for table in labels])
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.9, 0.98))
    decay = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.05, epochs)
    loss_of = torch.nn.CrossEntropyLoss(ignore_index=-1)
    tables = {"ids": ids, "labels": labels}
    best, batches = -1.0, _batches(sentences, 1200)
    for epoch in range(epochs):
        model.train()
        random.shuffle(batches)
        for batch in batches:
            rows, lengths = _rows([sentences[i] for i in batch], ids, unknown=0.1)
            loss = torch.zeros(())
            for k, scores in enumerate(model(rows, lengths)):
                wanted = torch.full(scores.shape[:2], -1, dtype=torch.long)
                for place, i in enumerate(batch):
                    wanted[place, : len(encoded[i])] = torch.tensor([numbers[k][label[k]] for label in encoded[i]])
                loss = loss + loss_of(scores.reshape(-1, scores.shape[-1]), wanted.reshape(-1))
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimiser.step()
        decay.step()
        if epoch % 3 == 2 or epoch == epochs - 1:
            scorer = sapwood.Scorer()
            for tree, found in zip(dev, _parse(model, tables, [tree.words() for tree in dev]), strict=True):
                scorer.add(tree, found)
            print(f"epoch {epoch + 1}: dev F1 {scorer.result().f1:.2f}", file=sys.stderr, flush=True)
            if scorer.result().f1 > best:
                best = scorer.result().f1
                torch.save({"weights": model.state_dict(), "ids": ids, "labels": labels}, output)


def parse(model_file: Path, tokens: Path, output: Path) -> None:
    """Parse a file of tokens, one sentence per line."""
    import torch

    stored = torch.load(model_file, weights_only=True)
    model = _model(len(stored["ids"]) + 1, [len(table) for table in stored["labels"]])
    model.load_state_dict(stored["weights"])
    sentences = [line.split() for line in tokens.read_text(encoding="utf-8").splitlines()]
    trees = _parse(model, {"ids": stored["ids"], "labels": stored["labels"]}, sentences)
    output.write_text("".join(f"{tree}\n" for tree in trees), encoding="utf-8")


def main() -> None:
    """Train or parse."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["train", "parse"])
    parser.add_argument("files", nargs=3, type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=24)
    options = parser.parse_args()
    if options.action == "train":
        train(*options.files, options.seed, options.epochs)
    else:
        parse(*options.files)


if __name__ == "__main__":
    main()
