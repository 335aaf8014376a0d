r"""Escape codes for characters that a file's tokens cannot hold.

A character that a format reserves, or that text files cannot hold, is written as a code: by its number, a space as
`-U+0020-`, or by the format's name for it (`-LRB-`). An empty token is `-U+-`. A hyphen of the token itself that would
begin a code is written `-U+002D-`. All other text is unchanged.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping

# The zero byte, and halves of surrogate pairs, which are not valid UTF-8.
_NO_TEXT = r"\0\ud800-\udfff"


class Codes:
    """The codes of a format.

    Parameters
    ----------
    characters
        Characters to escape, as inside the brackets of a regular expression (ASCII only).
    names
        Names of some of these characters.
    """

    def __init__(self, characters: str, names: Mapping[str, str] | None = None) -> None:
        self._codes = {character: f"-{name}-" for character, name in (names or {}).items()}
        self._characters = {code: character for character, code in self._codes.items()}
        known = "|".join([*(names or {}).values(), r"U\+[0-9A-F]{0,6}"])
        never = characters + _NO_TEXT
        self._to_read = re.compile(rf"-(?:{known})-")
        # After a hyphen that does not begin a code, the next one may belong to the token or begin a code itself.
        self._to_write = re.compile(rf"[{never}]|-(?=(?:{known})[-{never}])", re.ASCII)

    def write(self, token: str) -> str:
        """Return the token with reserved characters as codes."""
        return token if token.isalnum() else self._to_write.sub(self._code, token) or "-U+-"

    def read(self, token: str) -> str:
        """Return the decoded token."""
        return self._to_read.sub(self._character, token) if "-" in token else token

    def _code(self, found: re.Match[str]) -> str:
        return self._codes.get(found[0]) or code(found[0])

    def _character(self, found: re.Match[str]) -> str:
        if found[0] in self._characters:
            return self._characters[found[0]]
        digits = found[0][3:-1]
        number = int(digits or "0", 16)
        return found[0] if number > sys.maxunicode else chr(number) if digits else ""


def code(character: str) -> str:
    """Return the code of a character by its number."""
    return f"-U+{ord(character):04X}-"
