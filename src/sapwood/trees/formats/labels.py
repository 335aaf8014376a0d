"""Explanations of labels: what the phrase labels, tags and function tags of four annotation schemes stand for.

The schemes are those of the Penn Treebank (`penn`), of IcePaHC and its sister corpora (`icepahc`), of CESS-ECE in
Spanish and Catalan (`cess`) and of Alpino in Dutch (`alpino`). Labels are explained piece by piece: the label itself,
then the function tags or features that follow it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from sapwood.errors import UsageError

_PENN: Final = {
    "ROOT": "root of the tree", "TOP": "root of the tree", "S": "clause",
    "SBAR": "subordinate clause with its conjunction or relative word",
    "SBARQ": "question with a question word", "SINV": "clause whose subject follows the verb",
    "SQ": "yes/no question, or the part of a question after the question word",
    "ADJP": "adjective phrase", "ADVP": "adverb phrase", "CONJP": "conjunction of several words", "FRAG": "fragment",
    "INTJ": "interjection",
    "LST": "number or letter of a list item",
    "NAC": "modifier inside a noun phrase that is not a constituent of its own", "NP": "noun phrase",
    "NX": "head of a complex noun phrase",
    "PP": "prepositional phrase", "PRN": "parenthetical", "PRT": "particle of a verb",
    "QP": "quantity of several words", "RRC": "reduced relative clause",
    "UCP": "coordination of unlike phrases", "VP": "verb phrase", "WHADJP": "adjective phrase with a question word",
    "WHADVP": "adverb phrase with a question or relative word",
    "WHNP": "noun phrase with a question or relative word",
    "WHPP": "prepositional phrase with a question or relative word", "X": "unknown or unbracketable",
    "CC": "coordinating conjunction", "CD": "cardinal number", "DT": "determiner", "EX": "existential there",
    "FW": "foreign word", "IN": "preposition or subordinating conjunction",
    "JJ": "adjective", "JJR": "comparative adjective", "JJS": "superlative adjective", "LS": "list marker",
    "MD": "modal verb", "NN": "noun, singular or mass", "NNS": "noun, plural",
    "NNP": "proper noun, singular", "NNPS": "proper noun, plural", "PDT": "determiner before another determiner",
    "POS": "possessive ending", "PRP": "personal pronoun",
    "PRP$": "possessive pronoun", "RB": "adverb", "RBR": "comparative adverb", "RBS": "superlative adverb",
    "RP": "particle", "SYM": "symbol", "TO": "the word to", "UH": "interjection",
    "VB": "verb, base form", "VBD": "verb, past tense", "VBG": "verb, gerund or present participle",
    "VBN": "verb, past participle", "VBP": "verb, present tense, not third person singular",
    "VBZ": "verb, present tense, third person singular", "WDT": "determiner that asks or relates",
    "WP": "pronoun that asks or relates", "WP$": "possessive pronoun that asks or relates",
    "WRB": "adverb that asks or relates", "HYPH": "hyphen", "NFP": "superfluous punctuation",
    "ADD": "web or mail address", "AFX": "affix", "GW": "part of a word that was split by mistake",
    "-LRB-": "opening bracket", "-RRB-": "closing bracket", "-NONE-": "empty element", "``": "opening quotation mark",
    "''": "closing quotation mark", ".": "end of a sentence: full stop, question or exclamation mark",
    ",": "comma", ":": "colon, semicolon, dash or ellipsis", "$": "currency sign", "#": "number sign or pound sign",
}  # fmt: skip
_PENN_FUNCTIONS: Final = {
    "ADV": "adverbial", "BNF": "beneficiary", "CLF": "cleft", "CLR": "closely related to the verb",
    "DIR": "direction", "DTV": "dative", "ETC": "and so on", "EXT": "extent", "HLN": "headline",
    "IMP": "imperative", "LGS": "logical subject of a passive", "LOC": "location", "MNR": "manner",
    "NOM": "used like a noun", "PRD": "predicate", "PRP": "purpose or reason", "PUT": "place argument of put",
    "SBJ": "subject", "SEZ": "direct speech", "TMP": "time", "TPC": "topicalised", "TTL": "title",
    "UNF": "unfinished", "VOC": "vocative",
}  # fmt: skip
_ICEPAHC: Final = {
    "ROOT": "root of the tree", "IP": "clause", "CP": "clause with a complementiser", "NP": "noun phrase",
    "PP": "prepositional phrase", "ADJP": "adjective phrase", "ADVP": "adverb phrase",
    "CONJP": "conjunct, with its conjunction", "QP": "quantifier phrase", "QTP": "quotation", "NUMP": "number phrase",
    "NX": "part of a noun phrase shared in coordination",
    "ADJX": "part of an adjective phrase shared in coordination",
    "VP": "verb phrase", "WNP": "noun phrase that asks or relates",
    "WPP": "prepositional phrase that asks or relates", "WADVP": "adverb phrase that asks or relates",
    "WADJP": "adjective phrase that asks or relates",
    "WQP": "the question word whether", "INTJP": "interjection", "FRAG": "fragment", "META": "text about the text",
    "LATIN": "Latin", "FRENCH": "French", "RRC": "reduced relative clause", "PRN": "parenthetical",
    "CODE": "note of the editors", "REF": "reference", "X": "unknown", "P": "preposition",
    "CONJ": "coordinating conjunction", "C": "complementiser", "ADV": "adverb", "ADVR": "comparative adverb",
    "ADVS": "superlative adverb",
    "PRO": "personal pronoun", "PRO$": "possessive pronoun", "N": "common noun, singular",
    "NS": "common noun, plural", "NPR": "proper noun, singular", "NPRS": "proper noun, plural",
    "D": "determiner or article",
    "ADJ": "adjective", "ADJR": "comparative adjective", "ADJS": "superlative adjective", "Q": "quantifier",
    "QR": "comparative quantifier", "QS": "superlative quantifier", "NUM": "numeral", "ONE": "the word one",
    "ONES": "the word one, plural",
    "OTHER": "the word other", "OTHERS": "the word other, plural", "SUCH": "the word such",
    "SUCHS": "the word such, plural", "WPRO": "pronoun that asks or relates", "WD": "determiner that asks or relates",
    "WADV": "adverb that asks or relates",
    "WQ": "the word whether", "RP": "particle of a verb", "RPX": "particle that is part of a word", "NEG": "negation",
    "TO": "infinitive marker", "FP": "focus particle", "ALSO": "the word also", "ES": "expletive", "EX": "expletive",
    "INTJ": "interjection", "FW": "foreign word", "LB": "line break", ".": "end of a sentence",
    ",": "comma or other punctuation inside a sentence", '"': "quotation mark", "'": "quotation mark",
}  # fmt: skip
_ICEPAHC_FUNCTIONS: Final = {
    "MAT": "main clause", "SUB": "subordinate clause", "INF": "infinitive", "SMC": "small clause",
    "IMP": "imperative", "PPL": "participial clause", "ABS": "absolute clause", "REL": "relative clause",
    "FRL": "free relative clause",
    "CAR": "clause-adjoined relative clause", "THT": "that-clause", "QUE": "question", "ADV": "adverbial",
    "CMP": "comparative", "DEG": "degree clause", "EOP": "empty-operator clause", "EXL": "exclamation",
    "TMC": "tough-movement complement",
    "CLF": "cleft", "SBJ": "subject", "OB1": "direct object", "OB2": "indirect object", "OB3": "further object",
    "POS": "possessor", "PRN": "parenthetical or apposition", "PRD": "predicate", "TMP": "time", "LOC": "location",
    "DIR": "direction", "MSR": "measure",
    "COM": "complement of a noun", "VOC": "vocative", "LFD": "left-dislocated", "RSP": "resumptive",
    "SPE": "direct speech", "SPR": "secondary predicate", "ADT": "adjunct", "BY": "agent of a passive",
    "PRP": "purpose", "MNR": "manner", "TPC": "topicalised",
    "N": "nominative", "A": "accusative", "D": "dative", "G": "genitive",
}  # fmt: skip
_ICEPAHC_VERBS: Final = {
    "VB": "verb", "BE": "the verb be", "HV": "the verb have", "DO": "the verb do", "MD": "modal verb",
    "RD": "the verb become",
}  # fmt: skip
_ICEPAHC_FORMS: Final = {
    "": "infinitive", "PI": "present indicative", "PS": "present subjunctive", "DI": "past indicative",
    "DS": "past subjunctive", "I": "imperative", "N": "past participle", "P": "present", "D": "past",
}  # fmt: skip
_ICEPAHC_PARTICIPLES: Final = {"V": "VB", "B": "BE", "H": "HV", "D": "DO", "M": "MD", "R": "RD"}
_CESS: Final = {
    "sentence": "sentence", "S": "clause", "S.F.A": "adverbial clause", "S.F.AComp": "comparative clause",
    "S.F.AConc": "concessive clause", "S.F.ACond": "conditional clause", "S.F.ACons": "consecutive clause",
    "S.F.C": "complement clause",
    "S.F.R": "relative clause", "S.NF.A": "adverbial clause without a finite verb",
    "S.NF.C": "complement clause without a finite verb", "S.NF.P": "participial clause",
    "S.NF.R": "relative clause without a finite verb",
    "sn": "noun phrase", "grup.nom": "nominal group: the noun and its modifiers",
    "espec": "specifier: articles, determiners, numbers", "sp": "prepositional phrase", "prep": "preposition",
    "sa": "adjective phrase", "s.a": "adjective phrase",
    "grup.a": "adjectival group", "sadv": "adverb phrase", "grup.adv": "adverbial group", "gv": "verbal group",
    "grup.verb": "verbal group", "infinitiu": "infinitive", "gerundi": "gerund", "participi": "participle",
    "conj.subord": "subordinating conjunction",
    "coord": "coordinating conjunction", "conj": "conjunction", "relatiu": "relative pronoun", "neg": "negation",
    "inc": "parenthetical", "interjeccio": "interjection", "morfema.verbal": "pronoun that belongs to the verb form",
    "morf.pron": "reflexive pronoun that belongs to the verb form",
    "data": "date", "numero": "number", "mw": "multi-word unit",
}  # fmt: skip
_CESS_FUNCTIONS: Final = {
    "SUJ": "subject", "CD": "direct object", "CI": "indirect object", "CC": "adverbial", "CCT": "adverbial of time",
    "CCL": "adverbial of place", "CREG": "prepositional object", "CAG": "agent of a passive",
    "CPRED": "secondary predicate", "ATR": "predicate of a copula",
    "CADV": "adverbial complement", "ET": "textual element", "MOD": "modifier of the verb", "VOC": "vocative",
    "NEG": "negation", "AO": "sentence adverbial", "PASS": "passive marker", "IMPERS": "impersonal marker",
    "IMPR": "impersonal marker",
}  # fmt: skip
_CESS_FEATURES: Final = {
    "m": "masculine",
    "f": "feminine",
    "c": "either gender",
    "s": "singular",
    "p": "plural",
    "n": "either number",
}
# The first two letters of a tag of CESS-ECE; further ones say gender, number, mood, tense and person.
_CESS_TAGS: Final = {
    "nc": "common noun", "np": "proper noun", "aq": "adjective", "ao": "ordinal adjective", "rg": "adverb",
    "rn": "negative adverb", "da": "article", "dd": "demonstrative determiner", "dp": "possessive determiner",
    "di": "indefinite determiner", "dn": "numeral determiner",
    "dt": "interrogative determiner", "de": "exclamative determiner", "pp": "personal pronoun",
    "pd": "demonstrative pronoun", "px": "possessive pronoun", "pi": "indefinite pronoun",
    "pt": "interrogative pronoun", "pr": "relative pronoun", "pn": "numeral pronoun",
    "p0": "reflexive or impersonal pronoun", "vm": "main verb", "va": "auxiliary verb", "vs": "the verb be",
    "cc": "coordinating conjunction", "cs": "subordinating conjunction", "sp": "preposition", "sn": "preposition",
    "i": "interjection", "w": "date", "z": "number", "zp": "percentage", "zm": "amount of money",
}  # fmt: skip
_CESS_MOODS: Final = {
    "i": "indicative",
    "s": "subjunctive",
    "m": "imperative",
    "n": "infinitive",
    "g": "gerund",
    "p": "participle",
}
_CESS_TENSES: Final = {"p": "present", "i": "imperfect", "f": "future", "s": "past", "c": "conditional"}
_CESS_PUNCTUATION: Final = {
    "fp": "full stop", "fc": "comma", "fe": "quotation mark", "fg": "dash", "fh": "slash", "fs": "ellipsis",
    "fx": "semicolon", "fd": "colon", "fz": "other punctuation", "ft": "percent sign",
    "fra": "opening quotation mark", "frc": "closing quotation mark",
    "fia": "opening question mark", "fit": "question mark", "faa": "opening exclamation mark",
    "fat": "exclamation mark", "fpa": "opening bracket", "fpt": "closing bracket", "fca": "opening square bracket",
    "fct": "closing square bracket",
}  # fmt: skip
_ALPINO: Final = {
    "top": "root of the tree", "smain": "main clause, with the verb second",
    "sv1": "clause with the verb first: a yes/no question or an imperative",
    "ssub": "subordinate clause, with the verb last", "np": "noun phrase", "pp": "prepositional phrase",
    "ap": "adjective phrase",
    "advp": "adverb phrase", "detp": "determiner phrase", "cp": "clause or phrase with a complementiser",
    "rel": "relative clause", "whrel": "free relative clause", "whq": "question with a question word",
    "whsub": "embedded question", "inf": "bare infinitive phrase", "ti": "infinitive phrase with te",
    "oti": "infinitive phrase with om te", "ahi": "infinitive phrase with aan het", "svan": "clause with van",
    "ppart": "past participle phrase", "ppres": "present participle phrase", "conj": "coordination",
    "du": "discourse unit", "mwu": "multi-word unit", "part": "particle of a verb",
    "adj": "adjective", "adv": "adverb", "comp": "complementiser", "comparative": "comparative conjunction",
    "det": "determiner", "fixed": "part of a fixed expression", "name": "name", "noun": "noun or pronoun",
    "num": "number", "prep": "preposition", "pron": "pronoun", "punct": "punctuation",
    "tag": "discourse particle", "verb": "verb", "vg": "coordinating conjunction",
}  # fmt: skip
SCHEMES: Final = {"penn": "Penn", "icepahc": "IcePaHC", "cess": "CESS-ECE", "alpino": "Alpino"}
# Indices of co-reference and gapping, states and Markov annotation are not explained.
_INDEX = re.compile(r"(?:[-=](?:\d+|XXX))+$")


def explain(label: str, *, scheme: str | None = None) -> str | None:
    """Return what a label stands for; None if no scheme has it.

    Parameters
    ----------
    label
        A phrase label, tag or function tag, such as `SBAR`, `NP-SBJ` or `-SBJ`.
    scheme
        Annotation scheme: `penn`, `icepahc`, `cess` or `alpino`. By default all schemes with the label are named.

    Examples
    --------
    >>> explain("SBAR")
    'subordinate clause with its conjunction or relative word (Penn)'
    >>> explain("NP-SBJ")
    'noun phrase: subject (Penn, IcePaHC)'
    >>> explain("VBDI"), explain("grup.nom.ms", scheme="cess")
    ('verb, past indicative (IcePaHC)', 'nominal group: the noun and its modifiers, masculine singular')
    """
    if scheme is not None:
        if scheme not in SCHEMES:
            raise UsageError(f"there is no annotation scheme {scheme!r}; choose from {', '.join(SCHEMES)}")
        return _EXPLAINERS[scheme](label)
    found: dict[str, list[str]] = {}
    for name, shown in SCHEMES.items():
        if (text := _EXPLAINERS[name](label)) is not None:
            found.setdefault(text, []).append(shown)
    return "; ".join(f"{text} ({', '.join(names)})" for text, names in found.items()) or None


def explain_all(labels: Iterable[str]) -> dict[str, str]:
    """Return the explanations of a treebank's labels, by the scheme that has most of them; others are left out.

    >>> explain_all(["np", "smain", "verb", "zzz"])["smain"]
    'main clause, with the verb second'
    """
    given = list(labels)
    tables = []
    for explainer in _EXPLAINERS.values():
        told = {label: explainer(label) for label in given}
        tables.append({label: text for label, text in told.items() if text is not None})
    return max(tables, key=len)


def _with_functions(label: str, base: dict[str, str], functions: dict[str, str]) -> str | None:
    """Explain a label with function tags behind hyphens, or a function tag alone."""
    if label in base:
        return base[label]
    label = _INDEX.sub("", label)
    if label.startswith("-") and label[1:] in functions:
        return functions[label[1:]]
    first, *tags = re.split(r"[-=|]", label)
    if first not in base:
        return None
    told = [functions[tag] for tag in tags if tag in functions]
    return f"{base[first]}: {', '.join(told)}" if told else base[first]


def _penn(label: str) -> str | None:
    return _with_functions(label, _PENN, _PENN_FUNCTIONS)


def _icepahc(label: str) -> str | None:
    found = _with_functions(label, _ICEPAHC, _ICEPAHC_FUNCTIONS)
    if found is not None:
        return found
    stem, *case = _INDEX.sub("", label).split("-")
    if "+" in stem:  # a word of two parts
        parts = [_icepahc(part) for part in stem.split("+")]
        joined = None if None in parts else " and ".join(part for part in parts if part is not None) + " in one word"
        return joined and _with_case(joined, case)
    form = _ICEPAHC_FORMS.get(stem[2:])
    if stem[:2] in _ICEPAHC_VERBS and form is not None:
        return _with_case(f"{_ICEPAHC_VERBS[stem[:2]]}, {form}", case)
    if stem[:1] in _ICEPAHC_PARTICIPLES and stem[1:] in ("AN", "AG"):
        verb = _ICEPAHC_VERBS[_ICEPAHC_PARTICIPLES[stem[:1]]]
        return _with_case(f"{verb}, {'passive' if stem[1:] == 'AN' else 'present'} participle", case)
    return None


def _with_case(text: str, case: list[str]) -> str:
    told = [_ICEPAHC_FUNCTIONS[one] for one in case if one in _ICEPAHC_FUNCTIONS]
    return f"{text}: {', '.join(told)}" if told else text


def _cess(label: str) -> str | None:
    label = re.sub(r"^\*+|\*+$", "", label)
    if label.startswith("-") and label[1:] in _CESS_FUNCTIONS:
        return _CESS_FUNCTIONS[label[1:]]
    first, *tags = label.split("-")
    told = [_CESS_FUNCTIONS[tag] for tag in tags if tag in _CESS_FUNCTIONS]
    base, features = first, ""
    if base not in _CESS and (found := re.fullmatch(r"(.+?)\.([mfc])?([spn])?(\.co)?", first)):
        base, features = found[1], " ".join(_CESS_FEATURES[one] for one in found.groups()[1:3] if one)
        features = f"{features}, coordinated".removeprefix(", ") if found[4] else features
    text = _CESS.get(base)
    if text is None:
        return None if tags else _cess_tag(first)
    text = f"{text}, {features}" if features else text
    return f"{text}: {', '.join(told)}" if told else text


def _cess_tag(tag: str) -> str | None:
    """Explain a tag of CESS-ECE by its letters: class, kind and features."""
    if tag.lower() in _CESS_PUNCTUATION:
        return _CESS_PUNCTUATION[tag.lower()]
    if not re.fullmatch(r"[a-z][a-z0-9]{0,7}", tag):
        return None
    text = _CESS_TAGS.get(tag[:2]) or (_CESS_TAGS.get(tag) if len(tag) == 1 else None)
    if text is None or (len(tag) < 4 and tag not in (*_CESS_TAGS, "rg", "rn", "cc", "cs")):
        return None
    if tag[0] == "v" and len(tag) >= 4:
        told = [_CESS_MOODS.get(tag[2]), _CESS_TENSES.get(tag[3])]
    elif tag[0] == "n":
        told = [_CESS_FEATURES.get(letter) for letter in tag[2:4]]
    elif tag[0] in "adp":
        told = [_CESS_FEATURES.get(letter) for letter in tag[3:5]]
    else:
        told = []
    features = " ".join(one for one in told if one)
    return f"{text}, {features}" if features else text


def _alpino(label: str) -> str | None:
    return _ALPINO.get(label)


_EXPLAINERS: Final = {"penn": _penn, "icepahc": _icepahc, "cess": _cess, "alpino": _alpino}
