"""Whether a model can be found from a text at all, said before it is learned.

For the models of Hsu, Kakade and Liang (2012) the rank of a matrix decides (`sapwood.induction.identify`). It is
computed for sentences of three words, or of the longest that there are: what they determine, longer ones beside them
do not undetermine. Of a PCFG over hidden states more is known: they can be mixed without a sentence becoming more or
less probable, `G` on the states and its inverse on what they came from, so k (k - 1) dimensions are open, whatever the
rank of its rules. That changes what states mean, and no tree: the probability of a bracketing is the same for all of
them.
"""

from __future__ import annotations

from sapwood.induction.identify import check_identifiability
from sapwood.induction.inducers import CCM, DMV, DMVCCM, LPCFG, Inducer
from sapwood.induction.models import MODELS, make_model
from sapwood.induction.text import Text

# Above this many parameters the rank takes more than some seconds.
_MOST = 600
_LENGTH = 3


def prospects(inducer: Inducer, text: Text) -> str:
    """Return in a sentence or two whether the model's parameters can be found from a text.

    >>> from sapwood.induction.inducers import make_inducer
    >>> from sapwood.induction.text import make_text
    >>> text = make_text([[("dogs", "N"), ("see", "V"), ("cats", "N")]], tags=True)
    >>> print(prospects(make_inducer("pcfg-ie", states=2), text))
    pcfg-ie is identifiable from sentences of 3 words over 2 tags: almost every point is the only one near it ...
    >>> print(prospects(make_inducer("ccm"), text))
    whether ccm can be found is no question: it gives no probabilities to sentences
    """
    if isinstance(inducer, CCM | DMVCCM):
        return f"whether {inducer.model} can be found is no question: it gives no probabilities to sentences"
    if isinstance(inducer, DMV):
        return f"whether {inducer.model} can be found from sentences is not known: its trees are not equally probable"
    if isinstance(inducer, LPCFG):
        k = inducer.states
        return (
            f"{inducer.model} is not identifiable: its {k} states can be mixed in at least {k * (k - 1):,} dimensions; "
            "trees without labels are the same for all of these"
        )
    if inducer.model not in MODELS:
        return f"whether {inducer.model} can be found from sentences is not known"
    words, states = len(text.terminals), getattr(inducer, "states", None)
    model = make_model(inducer.model, words, states)
    used = text.lengths[(text.lengths > 0) & (text.lengths <= inducer.stages[-1])]
    length = min(_LENGTH, int(used.max(initial=1)))
    hidden = "" if states is None else f" --states {states}"
    if model.n_parameters > _MOST:
        return (
            f"whether {inducer.model} can be found was not checked: it has {model.n_parameters:,} parameters; `sapwood "
            f"identify --model {inducer.model} --words {words}{hidden} --length {length} --moments all` takes its time"
        )
    found = check_identifiability(model, "all", length=length)
    answer = found.describe().split("\n", 1)[0]
    verdict, _, reason = answer.partition(": ")
    return f"{inducer.model} is {verdict} from sentences of {length} words over {words} {text.kind}: {reason}"
