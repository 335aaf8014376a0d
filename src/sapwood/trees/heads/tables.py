"""Tables of head rules, in the format of `sapwood.trees.heads.rules`."""

# Heads by syntax: a clause is headed by its verb phrase, a verb phrase by its first verb (auxiliaries
# and modals head those below them), a prepositional phrase by its preposition, a coordination by its
# first conjunct. The labels are those of the Penn Treebank, OntoNotes and GUM.
ENGLISH = """
# clauses
S       left       VP
S       left       SQ SINV S
S       leftdis    VBZ VBD VBP VB MD VBN VBG TO
S       leftdis    ADJP-PRD NP-PRD PP-PRD ADVP-PRD UCP-PRD SBAR-PRD
S       left       SBAR ADJP UCP NP PP ADVP FRAG INTJ
S       leftexcept , : . `` '' -LRB- -RRB- HYPH CC -NONE-
SINV    leftdis    VBZ VBD VBP MD VB
SINV    left       VP SINV S SQ
SINV    leftexcept , : . `` '' -LRB- -RRB- HYPH CC -NONE-
SQ      leftdis    VBZ VBD VBP MD VB
SQ      left       VP SQ S
SQ      leftexcept , : . `` '' -LRB- -RRB- HYPH CC INTJ UH -NONE-
SBARQ   left       SQ SBARQ S SINV VP
SBARQ   leftexcept , : . `` '' -LRB- -RRB- HYPH CC INTJ UH -NONE-
SBAR    leftdis    IN WHNP WHADVP WHPP WHADJP WDT WP WRB
SBAR    left       SBAR S SQ SINV TO VP DT
SBAR    leftexcept , : . `` '' -LRB- -RRB- HYPH CC ADVP RB -NONE-
RRC     left       VP RRC NP ADJP PP ADVP
# verb phrases
VP      leftdis    VBZ VBD VBP MD VB VBN VBG TO AUX AUXG
VP      left       VP
VP      leftdis    NN NNS NNP JJ
VP      left       ADJP NP UCP S SBAR PP ADVP
VP      leftexcept , : . `` '' -LRB- -RRB- HYPH CC -NONE-
# noun phrases: their own last noun (after a possessor, which is a phrase), else the first noun phrase
NP      rightdis   NN NNS NNP NNPS NX NML FW GW ADD NAC
NP      leftdis    NP
NP      rightdis   PRP EX WP
NP      rightdis   CD QP $ #
NP      rightdis   JJ JJS JJR VBG DT WDT PRP$ ADJP RBS RB SYM UCP LS
NP      left       WHNP S SBAR VP PP ADVP INTJ PRN
NP      rightexcept , : . `` '' -LRB- -RRB- HYPH POS CC -NONE-
NX      rightdis   NN NNS NNP NNPS NML FW GW ADD
NX      leftdis    NX NP
NX      rightexcept , : . `` '' -LRB- -RRB- HYPH POS CC -NONE-
NML     rightdis   NN NNS NNP NNPS NX FW GW ADD
NML     leftdis    NML NP
NML     rightexcept , : . `` '' -LRB- -RRB- HYPH POS CC -NONE-
NAC     leftdis    NN NNS NNP NNPS NP NAC NX
NAC     leftexcept , : . `` '' -LRB- -RRB- HYPH POS CC -NONE-
QP      left       $ #
QP      rightdis   CD QP NN NNS
QP      right      JJR RBR DT JJ RB IN
WHNP    rightdis   NN NNS NNP NNPS NX NML
WHNP    leftdis    WHNP NP
WHNP    leftdis    WP WDT WP$ WHADJP WHPP DT
# other phrases
PP      leftdis    IN TO VBG VBN
PP      left       PP RP FW JJ RB NP ADVP
PP      leftexcept , : . `` '' -LRB- -RRB- HYPH CC -NONE-
WHPP    leftdis    IN TO WHPP
ADJP    leftdis    ADJP
ADJP    rightdis   JJ JJR JJS VBN VBG
ADJP    right      NN NNS CD $ QP RB RBR RBS IN DT FW NP ADVP
WHADJP  rightdis   JJ JJR JJS VBN WHADJP
WHADJP  leftdis    WRB
ADVP    leftdis    ADVP
ADVP    rightdis   RB RBR RBS
ADVP    right      WRB IN RP JJ JJR NN NNP CD DT FW NP PP
WHADVP  leftdis    WRB WHADVP
CONJP   right      CC RB IN
PRT     rightdis   RP
INTJ    leftdis    UH INTJ
UCP     leftexcept , : . `` '' -LRB- -RRB- HYPH CC CONJP RB ADVP -NONE-
LST     leftdis    LS CD
EDITED  leftexcept , : . `` '' -LRB- -RRB- HYPH CC UH INTJ -NONE-
# ROOT, TOP, PRN, FRAG, X and all others: the first main phrase, else the first that is not punctuation
*       left       S SINV SQ SBARQ
*       leftdis    VP NP SBAR PP ADJP FRAG UCP WHNP PRN
*       leftexcept , : . `` '' -LRB- -RRB- HYPH CC UH INTJ SYM NFP -NONE-
*       leftexcept , : . `` '' -LRB- -RRB- HYPH SYM NFP -NONE-
*       left
"""

# Verbs of IcePaHC: present and past, indicative and subjunctive, imperative; then all other forms.
_VERBS = ("MD", "HV", "BE", "DO", "RD", "VB")
_FINITE = " ".join(verb + form for form in ("PI", "DI", "PS", "DS", "I") for verb in _VERBS)
_OTHER = " ".join([*_VERBS, *(f"{verb}N" for verb in _VERBS), *(f"{v}A{f}" for f in "NG" for v in "VDHBRM")])
_SIGNS = ', . " : ; LB CODE'
# Heads by syntax, as for English: a clause is headed by its finite verb (auxiliaries and modals too), a clause with a
# complementiser by that, a prepositional phrase by its preposition, a coordination by its first conjunct. The labels
# are those of IcePaHC, where case and function follow a hyphen and are ignored. Clauses have no verb phrases.
ICELANDIC = f"""
# clauses: the finite verb, else the first clause of a coordination, else another verb, else the predicate
IP      leftdis    {_FINITE}
IP      leftdis    IP
IP      leftdis    {_OTHER}
IP      leftdis    NP-PRD ADJP-PRD PP-PRD ADVP-PRD
IP      left       VB NP ADJP PP ADVP CP IP
IP      leftexcept {_SIGNS} CONJ CONJP NEG ALSO FP
CP      leftdis    C C21
CP      leftdis    WNP WADVP WPP WADJP WQP WQ WADV
CP      left       IP CP NP
CP      leftexcept {_SIGNS} CONJ CONJP
RRC     left       VAN VAG VBN DAN IP NP PP ADJP ADVP
QTP     left       IP CP NP PP ADVP ADJP INTJP QTP
QTP     leftexcept {_SIGNS} CONJ CONJP
FRAG    left       IP CP NP PP ADVP ADJP INTJP FRAG
FRAG    leftexcept {_SIGNS} CONJ CONJP
# verbs that are coordinated
VB      left       VB
VBN     left       VBN
VAN     left       VAN
VBPI    left       VBPI
VBDI    left       VBDI
# noun phrases: the first noun (behind it stands an article that is a suffix), else a pronoun, else the first phrase
NP      leftdis    N NS NPR NPRS N21 NS21 NPR21 Q+N ONE+N OTHER+N MAN
NP      leftdis    PRO WPRO
NP      leftdis    NP NX
NP      leftdis    Q QS QR ONE+Q NUM ONE OTHER OTHERS SUCH D WD ADJ ADJS ADJR ES FW
NP      left       NUMP QP ADJP ADJX CP IP PP ADVP RRC CONJP
NP      leftexcept {_SIGNS} CONJ FP ALSO NEG
NX      leftdis    N NS NPR NPRS NX NP PRO ADJ
NX      leftexcept {_SIGNS} CONJ FP
WNP     leftdis    N NS NPR NPRS
WNP     leftdis    WPRO WD WNP NP OTHER+WPRO PRO
WNP     leftexcept {_SIGNS} CONJ FP
# other phrases
PP      leftdis    P P21
PP      leftdis    PP
PP      left       RP ADVP NP CP
PP      leftexcept {_SIGNS} CONJ FP
WPP     leftdis    P WPP
ADJP    leftdis    ADJ ADJS ADJR ADJ21 VAN VAG VBN
ADJP    leftdis    ADJP ADJX
ADJP    left       Q QR QS NUM ADV ADVR NP PP
ADJP    leftexcept {_SIGNS} CONJ FP NEG
ADJX    left       ADJ ADJS ADJR ADJX ADJP
WADJP   left       WADJ ADJ WADV WADJP
ADVP    rightdis   ADV ADVR ADVS ADV21
ADVP    leftdis    ADVP
ADVP    left       RP P Q NP PP
ADVP    leftexcept {_SIGNS} CONJ FP NEG
WADVP   left       WADV ADV WADVP
QP      rightdis   Q QR QS NUM ONE
QP      left       QP
NUMP    rightdis   NUM ONE Q
NUMP    left       NUMP
WQP     left       WQ Q WQP
CONJP   leftdis    IP CP NP NX PP ADVP ADJP ADJX QP NUMP VB VBN VAN VBPI VBDI CONJP RRC
CONJP   rightexcept {_SIGNS} CONJ NEG FP ALSO
INTJP   left       INTJ INTJP
# all others: the first main phrase, else the first that is not punctuation
*       left       IP CP NP PP ADJP ADVP FRAG QTP
*       leftexcept {_SIGNS} CONJ CONJP INTJ
*       left
"""

# By their names in options.
HEAD_TABLES = {"english": ENGLISH, "icelandic": ICELANDIC}
