"""NAME=VALUE on the command line, read as numbers, true, false, none, or text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any


def assignments(option: str, given: Sequence[str]) -> dict[str, Any]:
    """Return what was assigned; a comma makes a list.

    Examples
    --------
    >>> assignments("--set", ["lambda_w=10", "lambda_z=inf", "solver=admm"])
    {'lambda_w': 10, 'lambda_z': inf, 'solver': 'admm'}
    """
    from comt.errors import InputError

    found: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier() or not value:
            raise InputError(f"{option} {text} is no assignment; write it as NAME=VALUE.")
        if name in found:
            raise InputError(f"{option} gives {name} twice; give it once.")
        found[name] = [_value(part) for part in value.split(",")] if "," in value else _value(value)
    return found


def _value(text: str) -> Any:
    if text == "inf":
        return float("inf")
    if text.lower() == "none":
        return None
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, (bool, int, float, str)) else text
