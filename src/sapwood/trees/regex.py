r"""Regular expressions that take linear time, for patterns from people one does not know.

Python's `re` goes back and tries again, and some expressions make it do so for ever. Here an expression becomes a
nondeterministic automaton (Thompson's construction), which reads each character once; the sets of its states that turn
up are kept, so that most characters cost one look-up. The price is that nothing can refer back or look around.

What is understood: characters, `.`, sets `[a-z]` and `[^,.]`, `\d \w \s` and their opposites `\D \W \S`, `\n \t`,
`(...)` and `(?:...)`, `|`, `* + ? {2} {2,} {2,5}` (also with `?` behind, which changes nothing here), `^`, `$` and `\`
before any sign. A search is for any part of the text, as with `re.search`; `$` is the very end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from sapwood.errors import shortened
from sapwood.trees.pattern_error import PatternError

# States of an automaton, groups within groups, and sets of states that are kept.
_MOST_STATES = 1000
_DEEPEST = 50
_MOST_KEPT = 2000
# Steps between two calls of what may stop the search.
_STRIDE = 20_000

_CLASSES: Final[dict[str, Callable[[str], bool]]] = {
    "d": str.isdigit,
    "w": lambda c: c.isalnum() or c == "_",
    "s": str.isspace,
}
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}


class _Characters(NamedTuple):
    """A set of characters: single ones, ranges, and classes, each as a test."""

    singles: frozenset[str] = frozenset()
    ranges: tuple[tuple[str, str], ...] = ()
    tests: tuple[Callable[[str], bool], ...] = ()
    negated: bool = False

    def has(self, c: str, ignore_case: bool) -> bool:
        forms = {c, c.lower(), c.upper()} if ignore_case else (c,)
        found = any(
            form in self.singles
            or any(low <= form <= high for low, high in self.ranges)
            or any(test(form) for test in self.tests)
            for form in forms
        )
        return found != self.negated


_ANY = _Characters(frozenset("\n"), negated=True)


class _State:
    """A state: it reads a character, or goes on by itself, at the start or the end alone if it says so."""

    __slots__ = ("characters", "next", "where")

    def __init__(self, characters: _Characters | None, next: list[int], where: str = "") -> None:
        self.characters = characters
        self.next = next
        self.where = where


class _Compiler:
    """Reads an expression and makes the automaton; every part has one way in and leaves by a state of its own."""

    def __init__(self, text: str, offset: int, source: str) -> None:
        self.text = text
        self.at = 0
        self.offset = offset
        self.source = source
        self.states: list[_State] = []
        self.depth = 0

    def error(self, problem: str, at: int | None = None) -> PatternError:
        return PatternError(problem, self.source, self.offset + (self.at if at is None else at))

    def peek(self) -> str:
        return self.text[self.at] if self.at < len(self.text) else ""

    def add(self, characters: _Characters | None = None, next: Iterable[int] = (), where: str = "") -> int:
        if len(self.states) >= _MOST_STATES:
            raise self.error(f"the regular expression {shortened(self.text)!r} is too large; repeat less")
        self.states.append(_State(characters, list(next), where))
        return len(self.states) - 1

    def whole(self) -> tuple[int, int]:
        first, last = self.alternatives()
        if self.at < len(self.text):
            raise self.error("a closing parenthesis without an opening one")
        return first, last

    def alternatives(self) -> tuple[int, int]:
        parts = [self.sequence()]
        while self.peek() == "|":
            self.at += 1
            parts.append(self.sequence())
        if len(parts) == 1:
            return parts[0]
        last = self.add()
        for _, end in parts:
            self.states[end].next.append(last)
        return self.add(next=[begin for begin, _ in parts]), last

    def sequence(self) -> tuple[int, int]:
        first = last = self.add()
        while self.peek() not in ("", "|", ")"):
            begin, end = self.repeated()
            self.states[last].next.append(begin)
            last = end
        return first, last

    def repeated(self) -> tuple[int, int]:
        begins = self.at
        part = self.atom()
        ends = self.at
        bounds = self.bounds()
        if bounds is None:
            return part
        least, most = bounds
        # The part is read again for each further copy of it.
        copies = [part]
        after = self.at
        for _ in range(max(least, 1 if most is None else most, 1) - 1):
            self.at = begins
            copies.append(self.atom())
            assert self.at == ends
        self.at = after
        first = last = self.add()
        leaving: list[int] = []
        for number, (begin, end) in enumerate(copies):
            if number >= least:
                leaving.append(last)
            if most != 0:
                self.states[last].next.append(begin)
                last = end
        if most is None:
            back = self.add(next=[copies[-1][0]])
            self.states[last].next.append(back)
            last = back
        end = self.add()
        for state in (*leaving, last):
            self.states[state].next.append(end)
        return first, end

    def bounds(self) -> tuple[int, int | None] | None:
        """Read how often the part before is repeated, if anything is said."""
        sign = self.peek()
        if sign not in ("*", "+", "?", "{") or not sign:
            return None
        at = self.at
        self.at += 1
        found: tuple[int, int | None] = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(sign, (0, 0))
        if sign == "{":
            close = self.text.find("}", self.at)
            low, comma, high = self.text[self.at : max(close, self.at)].partition(",")
            if close < 0 or not all(n.isascii() and n.isdigit() and len(n) < 5 for n in (low, high or "0")):
                raise self.error("a repetition is {2}, {2,} or {2,5}; for the sign itself write \\{", at)
            found = (int(low), int(high) if high else None if comma else int(low))
            if found[1] is not None and found[1] < found[0]:
                raise self.error("a repetition whose upper bound is below its lower one", at)
            self.at = close + 1
        if self.peek() == "?":
            self.at += 1
        if self.peek() in ("*", "+", "?", "{") and self.peek():
            raise self.error("two repetitions one after the other; put parentheses around the first")
        return found

    def atom(self) -> tuple[int, int]:
        c = self.peek()
        at = self.at
        self.at += 1
        if c == "(":
            self.depth += 1
            if self.depth > _DEEPEST:
                raise self.error("too many parentheses within each other", at)
            if self.text.startswith("?:", self.at):
                self.at += 2
            elif self.peek() == "?":
                raise self.error("(?...) is not understood: nothing can look around or refer back here", at)
            first, last = self.alternatives()
            if self.peek() != ")":
                raise self.error("a parenthesis that is not closed", at)
            self.at += 1
            self.depth -= 1
            return first, last
        if c in ("*", "+", "?", "{"):
            raise self.error(f"nothing for {c!r} to repeat", at)
        if c in ("^", "$"):
            last = self.add()
            return self.add(next=[last], where=c), last
        characters = _ANY if c == "." else self.set(at) if c == "[" else None
        if characters is None:
            characters = self.escaped() if c == "\\" else _Characters(frozenset(c))
        last = self.add()
        return self.add(characters, [last]), last

    def escaped(self) -> _Characters:
        c = self.peek()
        if not c:
            raise self.error("a backslash with nothing after it", self.at - 1)
        self.at += 1
        if c.lower() in _CLASSES:
            return _Characters(tests=(_CLASSES[c.lower()],), negated=c.isupper())
        if c in _CONTROLS:
            return _Characters(frozenset(_CONTROLS[c]))
        if c.isalnum():
            raise self.error(f"\\{c} is not understood; see what regular expressions there are", self.at - 2)
        return _Characters(frozenset(c))

    def set(self, opened: int) -> _Characters:
        negated = self.peek() == "^"
        self.at += negated
        singles: set[str] = set()
        ranges: list[tuple[str, str]] = []
        tests: list[Callable[[str], bool]] = []
        first = self.at
        while True:
            c = self.peek()
            if not c:
                raise self.error("a set [ that is not closed", opened)
            self.at += 1
            if c == "]" and self.at - 1 > first:
                return _Characters(frozenset(singles), tuple(ranges), tuple(tests), negated)
            low = self.escaped() if c == "\\" else _Characters(frozenset(c))
            if low.tests:
                tests.append(low.tests[0] if not low.negated else _opposite(low.tests[0]))
                continue
            (single,) = low.singles
            if self.peek() == "-" and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                c = self.peek()
                self.at += 1
                high = self.escaped() if c == "\\" else _Characters(frozenset(c))
                if high.tests or min(high.singles) < single:
                    raise self.error("a range in a set whose end is before its beginning")
                ranges.append((single, min(high.singles)))
            else:
                singles.add(single)


def _opposite(test: Callable[[str], bool]) -> Callable[[str], bool]:
    return lambda c: not test(c)


class Regex:
    """A regular expression.

    Parameters
    ----------
    text
        The expression.
    ignore_case
        Whether upper and lower case are the same.
    offset, source
        Where it stands in a longer text, for errors.

    Examples
    --------
    >>> Regex("^NP(-SBJ)?$").search("NP-SBJ")
    True
    """

    def __init__(self, text: str, *, ignore_case: bool = False, offset: int = 0, source: str | None = None) -> None:
        self.text = text
        self.ignore_case = ignore_case
        compiler = _Compiler(text, offset, text if source is None else source)
        self._first, self._accepting = compiler.whole()
        self._states = compiler.states
        self._forget()

    def _forget(self) -> None:
        # Sets of states by number, and for each the set that follows a character.
        self._numbers: dict[frozenset[int], int] = {}
        self._sets: list[frozenset[int]] = []
        self._moves: list[dict[str, int]] = []
        self._start = self._number(self._closed([self._first], start=True, end=False))

    def _number(self, states: frozenset[int]) -> int:
        number = self._numbers.setdefault(states, len(self._sets))
        if number == len(self._sets):
            self._sets.append(states)
            self._moves.append({})
        return number

    def _closed(self, states: Iterable[int], *, start: bool, end: bool) -> frozenset[int]:
        """Return the states with those that can be reached without reading."""
        waiting = list(states)
        seen = set(waiting)
        while waiting:
            state = self._states[waiting.pop()]
            if state.characters is not None or (state.where == "^" and not start) or (state.where == "$" and not end):
                continue
            new = [next for next in state.next if next not in seen]
            seen.update(new)
            waiting.extend(new)
        return frozenset(seen)

    def search(self, text: str, check: Callable[[], object] | None = None) -> bool:
        """Return whether the expression matches a part of the text; `check` is called from time to time, to stop it."""
        number, steps = self._start, 0
        for c in text:
            if self._accepting in self._sets[number]:
                return True
            following = self._moves[number].get(c)
            if following is None:
                steps += len(self._sets[number])
                if check is not None and steps > _STRIDE:
                    steps = 0
                    check()
                read = [
                    next
                    for state in self._sets[number]
                    if (characters := self._states[state].characters) is not None
                    and characters.has(c, self.ignore_case)
                    for next in self._states[state].next
                ]
                if len(self._sets) >= _MOST_KEPT:
                    self._forget()
                    following = self._number(self._closed([*read, self._first], start=False, end=False))
                else:
                    following = self._number(self._closed([*read, self._first], start=False, end=False))
                    self._moves[number][c] = following
            number = following
        if self._accepting in self._sets[number]:
            return True
        return self._accepting in self._closed(self._sets[number], start=not text, end=True)
