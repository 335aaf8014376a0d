"""Test helpers, for this package and others; never imported by the library itself.

`grammars` draws random grammars; `check_learner` checks the contract of learners.
"""

from sapwood.testing.learners import ContractError, check_learner

__all__ = ["ContractError", "check_learner"]
