r"""Regular expressions in linear time, for untrusted patterns.

Python's `re` backtracks, in some expressions practically for ever. Here an expression becomes a nondeterministic
automaton (Thompson's construction), which reads each character once; the sets of states that occur are cached, so that
most characters cost one look-up. The price is that there are no back-references and no look-around.

Supported are characters, `.`, sets `[a-z]` and `[^,.]`, `\d \w \s` and their complements `\D \W \S`, `\n \t`, `(...)`
and `(?:...)`, `|`, `* + ? {2} {2,} {2,5}` (a `?` after them has no effect here), `^`, `$` and `\` before any character
that is not alphanumeric. Like `re.search`, a search matches any part of the text; `$` is the very end.

`find` returns the places of the match and its groups: the leftmost match, in which earlier alternatives and longer
repetitions are preferred. It runs all threads of the automaton side by side in the order of preference (Pike's
algorithm), in time proportional to the text's length and the number of states.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial

from sapwood.errors import UsageError, shortened

# Maximum number of states of an automaton, of numbered groups, depth of groups, and number of cached sets of states.
_MOST_STATES = 1000
_MOST_GROUPS = 99
_DEEPEST = 50
_MOST_KEPT = 2000
# Steps between two calls of `check`.
_STRIDE = 20_000
# Limits on what a replacement reads: a number of characters, and a multiple of those in the text.
_FREE, _TIMES = 100_000, 20

# A set of characters; and letters with a meaning after a backslash.
_SET = re.compile(r"\[\^?+(?:\\.|[^\\])(?:\\.|[^\]\\])*\]", re.DOTALL)
_ESCAPES = "dwsDWSntrfv"


class PatternError(UsageError):
    """A pattern that cannot be parsed.

    The attributes `problem`, `pattern` and `column` (from 1) hold the parts of the message.
    """

    def __init__(self, problem: str, pattern: str, at: int) -> None:
        self.problem = problem
        self.pattern = pattern
        self.column = at + 1
        # Long patterns are cut to the text around the error.
        begin = max(0, at - 50)
        shown = "".join(c if c.isprintable() else " " for c in pattern[begin : begin + 100])
        before, after = "..." if begin else "", "..." if begin + 100 < len(pattern) else ""
        pointer = " " * (len(before) + at - begin) + "^"
        super().__init__(f"pattern, column {self.column}: {problem}\n  {before}{shown}{after}\n  {pointer}")

    def __reduce__(self) -> tuple[Callable[[], PatternError], tuple[()]]:
        return partial(PatternError, self.problem, self.pattern, self.column - 1), ()


class _State:
    """A state: it reads a character, or has empty transitions, optionally only at the start or the end.

    `save` is the number of the group's bound that it records, or -1: twice that of the group, and one more at its end.
    """

    __slots__ = ("characters", "next", "save", "where")

    def __init__(self, characters: re.Pattern[str] | None, next: list[int], where: str = "", save: int = -1) -> None:
        self.characters = characters
        self.next = next
        self.where = where
        self.save = save


class _Compiler:
    """Compiler from an expression to an automaton; every part has one entry and one exit state of its own."""

    def __init__(self, text: str, flags: int, offset: int, source: str) -> None:
        self.text = text
        self.flags = flags
        self.at = 0
        self.offset = offset
        self.source = source
        self.states: list[_State] = []
        self.depth = 0
        # Where each group begins in the text, in the order of its number.
        self.groups: list[int] = []

    def error(self, problem: str, at: int | None = None) -> PatternError:
        return PatternError(problem, self.source, self.offset + (self.at if at is None else at))

    def peek(self) -> str:
        return self.text[self.at] if self.at < len(self.text) else ""

    def add(
        self, characters: re.Pattern[str] | None = None, next: Iterable[int] = (), where: str = "", save: int = -1
    ) -> int:
        if len(self.states) >= _MOST_STATES:
            raise self.error(f"the regular expression {shortened(self.text)!r} is too large; repeat less")
        self.states.append(_State(characters, list(next), where, save))
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
        # The part is parsed again for each further copy.
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
        """Parse the repetition of the preceding part, if there is one."""
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
            group = None
            if self.text.startswith("?:", self.at):
                self.at += 2
            elif self.peek() == "?":
                raise self.error("(?...) is not understood: nothing can look around or refer back here", at)
            else:
                if at not in self.groups and len(self.groups) < _MOST_GROUPS:
                    self.groups.append(at)
                group = self.groups.index(at) + 1 if at in self.groups else None
            first, last = self.alternatives()
            if self.peek() != ")":
                raise self.error("a parenthesis that is not closed", at)
            self.at += 1
            self.depth -= 1
            if group is not None:
                first = self.add(next=[first], save=2 * group)
                end = self.add(save=2 * group + 1)
                self.states[last].next.append(end)
                last = end
            return first, last
        if c in ("*", "+", "?", "{"):
            raise self.error(f"nothing for {c!r} to repeat", at)
        if c in ("^", "$"):
            last = self.add()
            return self.add(next=[last], where=c), last
        if c == "[":
            found = _SET.match(self.text, at)
            if found is None:
                raise self.error("a set [ that is not closed", at)
            self.at = found.end()
        elif c == "\\":
            self.at += 1
        last = self.add()
        return self.add(self.characters(at), [last]), last

    def characters(self, begin: int) -> re.Pattern[str]:
        """Return what the part since `begin` says about a single character, which Python's `re` decides."""
        text = self.text[begin : self.at]
        for found in re.finditer(r"\\(.?)", text, re.DOTALL):
            if not found[1]:
                raise self.error("a backslash with nothing after it", begin)
            if found[1].isalnum() and found[1] not in _ESCAPES:
                problem = f"\\{found[1]} is not understood; see what regular expressions there are"
                raise self.error(problem, begin + found.start())
        if text[0] == "[":
            if "--" in text:
                raise self.error("two hyphens one after the other in a set; write \\- for the sign itself", begin)
            text = "[" + re.sub(r"\\.|[\[&~|]", lambda found: found[0].rjust(2, "\\"), text[1:])
        elif text not in (".", *(f"\\{c}" for c in _ESCAPES)):
            text = re.escape(text[-1])
        try:
            return re.compile(text, self.flags)
        except re.error:
            raise self.error("a range in a set whose end is before its beginning", self.at - 1) from None


class Regex:
    """A regular expression.

    Parameters
    ----------
    text
        The expression.
    ignore_case
        Ignore case.
    offset, source
        Position in a longer text, for errors.

    Examples
    --------
    >>> Regex("^NP(-SBJ)?$").search("NP-SBJ")
    True
    """

    def __init__(self, text: str, *, ignore_case: bool = False, offset: int = 0, source: str | None = None) -> None:
        self.text = text
        compiler = _Compiler(text, re.IGNORECASE if ignore_case else 0, offset, text if source is None else source)
        self._first, self._accepting = compiler.whole()
        self._states = compiler.states
        # Number of groups.
        self.groups = len(compiler.groups)
        # Where the last call of `find` stopped reading.
        self._read = 0
        self._forget()

    def _forget(self) -> None:
        # Sets of states by number, and the transitions of each by character.
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
        """Return the closure of the states under empty transitions."""
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
        """Return whether the expression matches a part of the text; `check`, called now and then, may raise to stop."""
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
                    if (characters := self._states[state].characters) is not None and characters.match(c)
                    for next in self._states[state].next
                ]
                moves = self._moves[number]
                if len(self._sets) >= _MOST_KEPT:
                    self._forget()
                moves[c] = following = self._number(self._closed([*read, self._first], start=False, end=False))
            number = following
        if self._accepting in self._sets[number]:
            return True
        return self._accepting in self._closed(self._sets[number], start=not text, end=True)

    def find(self, text: str, begin: int = 0) -> list[tuple[int, int] | None] | None:
        """Return the bounds of the leftmost match at `begin` or later, then of its groups; None without a match.

        A group that took no part in the match is None. `^` is the start of the whole text.

        >>> Regex("(a+)(b)?").find("xaac")
        [(1, 3), (1, 3), None]
        """
        found: list[int] | None = None
        # Threads in the order of preference: a state that reads a character, and the bounds of groups so far.
        threads: list[tuple[int, list[int]]] = []
        empty = [-1] * (2 * self.groups + 2)
        at = begin
        for at in range(begin, len(text) + 1):
            seen: set[int] = set()
            ready: list[tuple[int, list[int]]] = []
            starts = [*threads] if found is not None else [*threads, (self._first, [at, *empty[1:]])]
            for state, bounds in starts:
                accepted = self._advance(state, bounds, at, len(text), seen, ready)
                if accepted is not None:
                    found = accepted
                    break
            if at == len(text) or (not ready and found is not None):
                break
            c = text[at]
            threads = []
            for state, bounds in ready:
                characters = self._states[state].characters
                if characters is not None and characters.match(c):
                    threads.extend((next, bounds) for next in self._states[state].next)
        self._read = at
        if found is None:
            return None
        pairs = zip(found[::2], found[1::2], strict=True)
        return [(first, last) if first >= 0 and last >= 0 else None for first, last in pairs]

    def _advance(
        self, state: int, bounds: list[int], at: int, end: int, seen: set[int], ready: list[tuple[int, list[int]]]
    ) -> list[int] | None:
        """Follow empty transitions by preference, adding threads that read a character; return bounds on acceptance.

        Threads that are less preferred than acceptance are not added.
        """
        waiting = [(state, bounds)]
        while waiting:
            number, bounds = waiting.pop()
            if number in seen:
                continue
            seen.add(number)
            here = self._states[number]
            if here.save >= 0:
                bounds = [*bounds[: here.save], at, *bounds[here.save + 1 :]]
            if number == self._accepting:
                return [bounds[0], at, *bounds[2:]]
            if here.characters is not None:
                ready.append((number, bounds))
                continue
            if (here.where == "^" and at > 0) or (here.where == "$" and at < end):
                continue
            waiting.extend((next, bounds) for next in reversed(here.next))
        return None

    def replace(self, text: str, replacement: Callable[[list[str | None]], str]) -> str:
        """Replace all matches, from left to right, by what `replacement` makes of the match and its groups."""
        pieces: list[str] = []
        at = read = 0
        while at <= len(text) and (found := self.find(text, at)) is not None:
            first, last = found[0] or (at, at)
            read += self._read - at
            if read > _FREE + _TIMES * len(text):
                raise UsageError(f"/{shortened(self.text)}/ takes too long to replace in {shortened(text)!r}; say more")
            pieces += [text[at:first], replacement(texts_of(text, found))]
            if last == first:
                pieces.append(text[first : first + 1])
            at = max(last, first + 1)
        return "".join([*pieces, text[at:]])


def texts_of(text: str, bounds: Iterable[tuple[int, int] | None]) -> list[str | None]:
    """Return the parts of a text at these bounds."""
    return [None if pair is None else text[slice(*pair)] for pair in bounds]
