"""JSON Schema subset for requests and responses, used for documentation and for validation.

Supported are `type`, `enum`, `const`, `properties`, `required`, `additionalProperties` (False, or a schema), `items`,
`prefixItems`, `minItems`, `maxItems`, `minLength`, `maxLength`, `minimum`, `maximum`, `exclusiveMinimum`,
`exclusiveMaximum` and `anyOf`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from sapwood.errors import SapwoodError, shortened

Schema = Mapping[str, Any]
# Number of characters of an unknown name to compare with known ones.
_LONGEST_NAME = 40

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
}


class BadRequest(SapwoodError):
    """A request that does not fit its schema."""


class RequestTooLarge(SapwoodError):
    """A request beyond a limit of the service on its size; in parts it can be answered."""


def read_json(body: bytes) -> Any:
    """Return a body as decoded JSON; raises `BadRequest` if it is not JSON, or not valid UTF-8."""
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_refuse, parse_float=_finite)
        if b"\\u" in body:  # an escape can encode a lone surrogate
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except RecursionError:
        raise BadRequest("the JSON is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise BadRequest(f"the body is not valid UTF-8 at byte {error.start + 1}") from None
    except UnicodeEncodeError:
        raise BadRequest("a string has half of a surrogate pair, which is not a character") from None
    except ValueError as error:
        raise BadRequest(f"the body is not JSON: {error}") from None
    return value


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a number in JSON")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{shortened(text)} is too large a number")
    return value


def check(value: Any, schema: Schema, place: str = "the body") -> None:
    """Raise `BadRequest`, with the place and the expected value, unless a value fits a schema."""
    if problem := _problem(value, schema, place):
        raise BadRequest(problem)


def _problem(value: Any, schema: Schema, place: str) -> str:
    if "anyOf" in schema:
        if problem := _unknown_of_all(value, schema["anyOf"], place):
            return problem
        problems: list[str] = []
        for one in schema["anyOf"]:
            problems.append(_problem(value, one, place))
            if not problems[-1]:
                return ""
        # The alternative that was probably meant: it has the members that are there, or fits up to the deepest place.
        found = zip(problems, schema["anyOf"], strict=True)
        return min(found, key=lambda one: (_mismatches(value, one[1]), -one[0].count(".") - one[0].count("[")))[0]
    types = schema.get("type")
    if types is not None:
        names = [types] if isinstance(types, str) else types
        if not any(_is(value, name) for name in names):
            return f"{place} must be {' or '.join(_WITH_ARTICLE[name] for name in names)}, not {_shown(value)}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{place} must be one of {', '.join(map(_shown, schema['enum']))}, not {_shown(value)}"
    if isinstance(value, str):
        return _size(len(value), schema, "Length", place, "characters")
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _range(value, schema, place)
    if isinstance(value, list):
        return _size(len(value), schema, "Items", place, "items") or _of_items(value, schema, place)
    return _of_members(value, schema, place) if isinstance(value, dict) else ""


_WITH_ARTICLE = {name: ("an " if name[0] in "aio" else "a ") + name for name in _TYPES} | {"null": "null"}


def _is(value: Any, name: str) -> bool:
    return isinstance(value, _TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


def _size(size: int, schema: Schema, what: str, place: str, unit: str) -> str:
    if size < schema.get(f"min{what}", 0):
        return f"{place} must have at least {schema[f'min{what}']} {unit}, not {size}"
    if size > schema.get(f"max{what}", size):
        return f"{place} may have up to {schema[f'max{what}']} {unit}, not {size}"
    return ""


def _range(value: float, schema: Schema, place: str) -> str:
    if "minimum" in schema and value < schema["minimum"]:
        return f"{place} must be at least {schema['minimum']}, not {_shown(value)}"
    if "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]:
        return f"{place} must be more than {schema['exclusiveMinimum']}, not {_shown(value)}"
    if "exclusiveMaximum" in schema and value >= schema["exclusiveMaximum"]:
        return f"{place} must be less than {schema['exclusiveMaximum']}, not {_shown(value)}"
    if "maximum" in schema and value > schema["maximum"]:
        return f"{place} must be at most {schema['maximum']}, not {_shown(value)}"
    return ""


def _of_items(value: list[Any], schema: Schema, place: str) -> str:
    first = schema.get("prefixItems", ())
    for number, item in enumerate(value):
        one = first[number] if number < len(first) else schema.get("items", {})
        if one and (problem := _problem(item, one, f"{place}[{number}]")):
            return problem
    return ""


def _of_members(value: dict[str, Any], schema: Schema, place: str) -> str:
    known, others = schema.get("properties", {}), schema.get("additionalProperties", {})
    if others is False and (problem := _unknown(value, known, place)):
        return problem
    for name in schema.get("required", ()):
        if name not in value:
            return f"{place} has no {name!r}"
    for name, item in value.items():
        if problem := _problem(item, known.get(name, others), f"{place}.{shortened(name)}"):
            return problem
    return ""


def _mismatches(value: Any, schema: Schema) -> int:
    """Return the number of members of an object that are unknown to a schema, and of those that are missing."""
    if not isinstance(value, dict) or schema.get("type") != "object":
        return 0
    return len(value.keys() - schema.get("properties", {}).keys()) + len(set(schema.get("required", ())) - value.keys())


def _unknown(value: dict[str, Any], known: Collection[str], place: str) -> str:
    """Return a message about the first unknown member, if any, with the known name that is most like it."""
    for name in value:
        if name not in known:
            close = get_close_matches(name[:_LONGEST_NAME].lower(), known, 1)
            hint = f"did you mean {close[0]}? " if close else ""
            return f"{place}.{shortened(name)} is not known; {hint}known are: {', '.join(known)}"
    return ""


def _unknown_of_all(value: Any, schemas: Sequence[Schema], place: str) -> str:
    """Return a message about a member of an object that no alternative knows; none if one takes any members."""
    records = [schema for schema in schemas if schema.get("type") == "object"]
    if not isinstance(value, dict) or any(schema.get("additionalProperties") is not False for schema in records):
        return ""
    known = dict.fromkeys(name for schema in records for name in schema["properties"])
    return _unknown(value, known, place) if known else ""


def _shown(value: Any) -> str:
    return (
        shortened(json.dumps(value, ensure_ascii=False))
        if not isinstance(value, dict | list)
        else ("an object" if isinstance(value, dict) else "an array")
    )


# Shorthands that keep the schemas of endpoints readable.


def record(required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None) -> dict[str, Any]:
    """Return the schema of an object with exactly these members."""
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


def listing(items: Schema, **bounds: int) -> dict[str, Any]:
    """Return the schema of an array."""
    return {"type": "array", "items": items, **bounds}


def row(*items: Schema) -> dict[str, Any]:
    """Return the schema of an array with one item per schema."""
    return {"type": "array", "prefixItems": list(items), "minItems": len(items), "maxItems": len(items)}


def mapping(values: Schema) -> dict[str, Any]:
    """Return the schema of an object with arbitrary keys."""
    return {"type": "object", "additionalProperties": values}


def either(*schemas: Schema) -> dict[str, Any]:
    """Return the schema of a value that fits one of several."""
    return {"anyOf": list(schemas)}


def whole(least: int = 0, most: int | None = None, **more: Any) -> dict[str, Any]:
    """Return the schema of an integer."""
    return {"type": "integer", "minimum": least, **({} if most is None else {"maximum": most}), **more}


NUMBER: Schema = {"type": "number"}
MAYBE_NUMBER: Schema = {"type": ["number", "null"]}
FLAG: Schema = {"type": "boolean"}
TEXT: Schema = {"type": "string"}
MAYBE_TEXT: Schema = {"type": ["string", "null"]}
PROBABILITY: Schema = {"type": "number", "minimum": 0, "maximum": 1}
