"""Messages of the API: requests and answers are msgspec Structs, decoded, documented and explained from one source.

msgspec checks a request while it decodes it. Its errors name a place and a type; `decode` says the same in the terms of
the API's description, with the value that was sent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any, ClassVar, TypeVar

import msgspec
from msgspec import Meta, Struct, UnsetType

from sapwood.errors import SapwoodError, shortened

T = TypeVar("T")
Schema = Mapping[str, Any]
# Number of characters of an unknown name to compare with known ones.
_LONGEST_NAME = 40

Natural = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Seed = Annotated[int, Meta(ge=0, le=2**32)]
Probability = Annotated[float, Meta(ge=0, le=1)]

_NAMES = {"object": "an object", "array": "an array", "str": "a string", "bool": "true or false", "int": "an integer",
          "float": "a number", "null": "null"}  # fmt: skip
_WHERE = re.compile(r"(.*?)(?: - at `\$(.*)`)?", re.DOTALL)
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")
_BOUND = re.compile(r"Expected `\w+` (>=|<=|>|<) (\S+)")
_LENGTH = re.compile(r"Expected `(\w+)` of (?:length (>=|<=)|at (least|most) length) (\d+)")
_FIELD = re.compile(r"Object (missing required|contains unknown) field `(.*)`", re.DOTALL)
_KINDS = re.compile(r"Expected `([^`]*)`, got `")
_BOUNDS = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}


class Message(Struct, forbid_unknown_fields=True):
    """A request or answer, or an object in one.

    Attributes
    ----------
    also
        What its JSON Schema says besides types.
    """

    also: ClassVar[Schema] = {}


class ArrayMessage(Struct, forbid_unknown_fields=True, array_like=True):
    """An array with one item per field."""


class NoContent(Message):
    """A request without any parameters."""


class Error(Message):
    """The answer to a request that failed."""

    error: str


class BadRequest(SapwoodError):
    """A request that does not fit its description."""


class RequestTooLarge(SapwoodError):
    """A request beyond a limit of the service on its size; in parts it can be answered."""


def given(value: T | UnsetType) -> T | None:
    """Return the value of an optional parameter; None if it is absent."""
    return None if isinstance(value, UnsetType) else value


def decode(body: bytes, kind: type[T], name: str = "the body") -> T:
    """Return the message in a body; raises `BadRequest`, naming it so, if it is not JSON or does not fit.

    >>> class Order(Message):
    ...     count: Natural = 1
    >>> decode(b'{"count": 3}', Order)
    Order(count=3)
    >>> decode(b'{"cuont": 3}', Order)
    Traceback (most recent call last):
    sapwood.web.messages.BadRequest: the body has no field cuont; did you mean count? known are: count
    """
    try:
        return msgspec.json.decode(body, type=kind)
    except (ValueError, RecursionError) as error:
        raise _explained(error, _any_json(body, name), kind, name) from None


def convert(query: Mapping[str, str], kind: type[T]) -> T:
    """Return the message that the parameters of a query spell; raises `BadRequest` if they do not fit."""
    try:
        return msgspec.convert(query, kind, strict=False)
    except ValueError as error:
        raise _explained(error, query, kind, "the query") from None


def encode(value: Any) -> bytes:
    """Return a message as JSON; half of a surrogate pair, which a model's label may have, is escaped."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        text = json.dumps(msgspec.to_builtins(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8", "backslashreplace")


def _any_json(body: bytes, name: str) -> Any:
    """Return a body that does not fit as JSON; raises `BadRequest` if it is not even that."""
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_refuse)
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except RecursionError:
        raise BadRequest("the JSON is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise BadRequest(f"{name} is not valid UTF-8 at byte {error.start + 1}") from None
    except UnicodeEncodeError:
        raise BadRequest("a string has half of a surrogate pair, which is not a character") from None
    except ValueError as error:
        raise BadRequest(f"{name} is not JSON: {error}") from None
    return value


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a number in JSON")


def _explained(error: Exception, value: Any, kind: Any, name: str) -> BadRequest:
    """Return the error of msgspec about a value in the terms of the description."""
    found = _WHERE.fullmatch(str(error))
    problem, path = (found[1], found[2] or "") if found else (str(error), "")
    schemas = msgspec.json.schema_components([kind], ref_template="{name}")
    place, schema = name, _resolved(schemas[0][0], schemas[1])
    for member, index in _STEP.findall(path):
        value = value[int(index)] if index else value[member]
        place += f"[{index}]" if index else f".{shortened(member)}"
        schema = _inner(schema, member or int(index), schemas[1])
    return BadRequest(f"{place}{_reason(problem, value, schema)}")


def _reason(problem: str, value: Any, schema: Schema) -> str:
    shown = _shown(value)
    if found := _FIELD.match(problem):
        if found[1].startswith("missing"):
            return f" has no {found[2]!r}"
        known = list(schema.get("properties", ()))
        close = get_close_matches(found[2][:_LONGEST_NAME].lower(), known, 1)
        hint = f"did you mean {close[0]}? " if close else ""
        return f" has no field {shortened(found[2])}; {hint}known are: {', '.join(known) or 'none'}"
    if problem.startswith("Invalid enum value"):
        return f" must be one of {', '.join(map(_shown, schema.get('enum', ())))}, not {shown}"
    if found := _BOUND.match(problem):
        return f" must be {_BOUNDS[found[1]]} {float(found[2]):.15g}, not {shown}"
    if found := _LENGTH.match(problem):
        unit = "characters" if found[1] == "str" else "items"
        least = found[2] == ">=" or found[3] == "least"
        return f" {'must have at least' if least else 'may have up to'} {found[4]} {unit}, not {len(value)}"
    if found := _KINDS.match(problem):
        return f" must be {' or '.join(_NAMES.get(one, one) for one in found[1].split(' | '))}, not {shown}"
    if problem.endswith("out of range"):
        return ": the number is too large"
    return f": {problem}"


def _inner(schema: Schema, step: str | int, known: Mapping[str, Schema]) -> Schema:
    """Return the schema of a member or item; of several alternatives, the one that has it."""
    for one in schema.get("anyOf", [schema]):
        chosen = _resolved(one, known)
        if isinstance(step, str) and "properties" in chosen:
            return _resolved(chosen["properties"].get(step, {}), known)
        if isinstance(step, int) and chosen.get("type") == "array":
            first = chosen.get("prefixItems", [])
            return _resolved(first[step] if step < len(first) else chosen.get("items") or {}, known)
    return {}


def _resolved(schema: Schema, known: Mapping[str, Schema]) -> Schema:
    if "$ref" in schema:
        return known[schema["$ref"]]
    if "anyOf" in schema:  # the place of an error in it is that of an object, if any
        objects = [_resolved(one, known) for one in schema["anyOf"]]
        return {**schema, "properties": next((one["properties"] for one in objects if "properties" in one), {})}
    return schema


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "an array"
    return shortened(json.dumps(value, ensure_ascii=False))
