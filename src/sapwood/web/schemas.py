"""A part of JSON Schema: what requests and answers hold, written once, for the description and for the check.

Known are `type`, `enum`, `const`, `properties`, `required`, `additionalProperties` (False, or a schema), `items`,
`prefixItems`, `minItems`, `maxItems`, `minLength`, `maxLength`, `minimum`, `maximum`, `exclusiveMinimum`,
`exclusiveMaximum` and `anyOf`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sapwood.errors import SapwoodError, shortened

Schema = Mapping[str, Any]

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
    """A request that is not what was described."""


def read_json(body: bytes) -> Any:
    """Return what a body means; raises `BadRequest` if it is no JSON, or says what UTF-8 cannot."""
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_refuse, parse_float=_finite)
        if b"\\u" in body:  # which is how half a character can be written
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except RecursionError:
        raise BadRequest("the JSON is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise BadRequest(f"the body is not valid UTF-8 at byte {error.start + 1}") from None
    except UnicodeEncodeError:
        raise BadRequest("a string has half of a surrogate pair, which is no character") from None
    except ValueError as error:
        raise BadRequest(f"the body is no JSON: {error}") from None
    return value


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number in JSON")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{shortened(text)} is too large a number")
    return value


def check(value: Any, schema: Schema, place: str = "the body") -> None:
    """Raise `BadRequest`, which names the place and what was expected there, unless a value fits a schema."""
    if problem := _problem(value, schema, place):
        raise BadRequest(problem)


def _problem(value: Any, schema: Schema, place: str) -> str:
    if "anyOf" in schema:
        problems: list[str] = []
        for one in schema["anyOf"]:
            problems.append(_problem(value, one, place))
            if not problems[-1]:
                return ""
        return min(problems, key=lambda text: -text.count(".") - text.count("["))
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
    for name in schema.get("required", ()):
        if name not in value:
            return f"{place} has no {name!r}"
    for name, item in value.items():
        inside = f"{place}.{shortened(name)}"
        if name not in known and others is False:
            return f"{inside} is not known; known are: {', '.join(known)}"
        if problem := _problem(item, known.get(name, others), inside):
            return problem
    return ""


def _shown(value: Any) -> str:
    return (
        shortened(json.dumps(value, ensure_ascii=False))
        if not isinstance(value, dict | list)
        else ("an object" if isinstance(value, dict) else "an array")
    )


# Words for schemas, so that those of endpoints are easy to read.


def record(required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None) -> dict[str, Any]:
    """Return the schema of an object with these members and no others."""
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
    """Return the schema of an array with one item of each."""
    return {"type": "array", "prefixItems": list(items), "minItems": len(items), "maxItems": len(items)}


def mapping(values: Schema) -> dict[str, Any]:
    """Return the schema of an object with any names."""
    return {"type": "object", "additionalProperties": values}


def either(*schemas: Schema) -> dict[str, Any]:
    """Return the schema of what fits one of several."""
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
