"""Small made-up texts for language models, and the folder that tests of `sapwood lm` work in."""

from __future__ import annotations

import random

KINDS = {
    "determiner": ["the", "a", "every"],
    "adjective": ["old", "small", "green", "quiet"],
    "noun": ["dog", "cat", "bird", "farmer", "tree"],
    "verb": ["sees", "likes", "hears", "follows"],
    "adverb": ["today", "often", "gladly"],
}


def made_up_text(sentences: int, seed: int) -> str:
    """Return sentences of a tiny language, one a line, with a rare name now and then."""
    rng = random.Random(seed)
    lines = []
    for number in range(sentences):
        words = [*_phrase(rng), rng.choice(KINDS["verb"]), *_phrase(rng)]
        if rng.random() < 0.3:
            words.append(rng.choice(KINDS["adverb"]))
        if number % 9 == 0:
            words[1] = f"name{seed}x{number}"
        lines.append(" ".join(words) + "\n")
    return "".join(lines)


def _phrase(rng: random.Random) -> list[str]:
    adjective = [rng.choice(KINDS["adjective"])] if rng.random() < 0.5 else []
    return [rng.choice(KINDS["determiner"]), *adjective, rng.choice(KINDS["noun"])]
