"""What tests need and the product never imports: slow twins, generators, the papers' algebra on exact statistics.

Each fast algorithm has a slow, obvious twin that the tests compare it with; `reference` is that of inference. Learners
are checked on `grammars` and `automata` drawn at random, and against the population versions of the papers' methods,
where exact moments take the place of samples.

`check_learner` is for the tests of other packages, too: the contract that every learner keeps.
"""

from sapwood.testing.learners import ContractError, check_learner

__all__ = ["ContractError", "check_learner"]
