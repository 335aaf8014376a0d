"""What tests need, ours and those of other packages, and the product never imports.

`grammars` and `automata` are drawn at random; `check_learner` is the contract that every learner keeps.
"""

from sapwood.testing.learners import ContractError, check_learner

__all__ = ["ContractError", "check_learner"]
