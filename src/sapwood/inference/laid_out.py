"""What parsers make of grammars when it is first needed, and share with others of the same grammars."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference.product import Ensemble
from sapwood.inference.words import WordReader


class LaidOut:
    """Grammars laid out for the kernels, each part when it is first asked for.

    Parameters
    ----------
    grammars
        The grammars.
    dtype
        Precision of their own passes.
    layer
        Whether the first one's layer and network are used, if it has any.
    """

    def __init__(self, grammars: Sequence[TensorGrammar], dtype: type, *, layer: bool) -> None:
        self._grammars, self._dtype, self._layer = grammars, dtype, layer

    def lighten(self) -> list[TensorGrammar]:
        """Return the grammars without the weights that the kernels have, and let go of those that have them."""
        self._grammars = [member.grammar for member in self.ensemble.members]
        vars(self).pop("words", None)  # which has them, too
        return list(self._grammars)

    @cached_property
    def ensemble(self) -> Ensemble:
        """All grammars."""
        first = self._grammars[0]
        layer, network = (first.layer, first.network) if self._layer else (None, None)
        return Ensemble(self._grammars, self._dtype, layer, network)

    @cached_property
    def words(self) -> WordReader:
        """What looks up words; it keeps those that it has looked up."""
        return WordReader(self._grammars, self.ensemble)

    @cached_property
    def coarse(self) -> Ensemble:
        """The coarse grammar that they imply, for sentences that they have no parse of."""
        return Ensemble([self.ensemble.joint.coarse], self._dtype)
