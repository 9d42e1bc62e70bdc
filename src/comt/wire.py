"""Messages as bytes: one canonical form per value, read back only into the types that were allowed.

A value is None, a bool, an int of 64 bits, a float, a text, bytes, an array, a tuple, a dict with text keys, or a
dataclass of the vocabulary. Equal values have equal bytes, so a digest of the bytes is a digest of the message. Nothing
that is read is ever executed, unlike a pickle: the reader builds only the classes it was given, checks every field
against its annotation, and refuses everything else with a :class:`comt.errors.ProtocolError`.
"""

from __future__ import annotations

import struct
import types
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from comt.errors import ComtError, ProtocolError
from comt.queries import MAX_ANSWER_BYTES

#: no message is larger: an answer of the largest size allowed, in two words per number
MAX_BYTES = 2 * MAX_ANSWER_BYTES + 2**20
_MAX_DEPTH = 8
_MAX_DIMENSIONS = 4
_MAX_ITEMS = 2**20
_DTYPES: dict[bytes, np.dtype[Any]] = {
    b"d": np.dtype("<f8"),
    b"q": np.dtype("<i8"),
    b"Q": np.dtype("<u8"),
    b"B": np.dtype("u1"),
}
_CODES = {dtype: code for code, dtype in _DTYPES.items()}

Classes = Mapping[str, type]


def vocabulary(classes: Iterable[type]) -> Classes:
    """Return the classes by the names under which they travel."""
    return {cls.__name__: cls for cls in classes}


def pack(value: Any) -> bytes:
    """Return the canonical bytes of a value."""
    parts: list[bytes] = []
    _write(value, parts)
    return b"".join(parts)


def _write(value: Any, parts: list[bytes]) -> None:
    if value is None or value is True or value is False:
        parts.append(b"N" if value is None else b"T" if value else b"F")
    elif isinstance(value, (int, np.integer)):
        parts.append(b"I" + struct.pack("<q", int(value)))
    elif isinstance(value, (float, np.floating)):
        parts.append(b"D" + struct.pack("<d", float(value)))
    elif isinstance(value, str):
        encoded = value.encode()
        parts += [b"S" + struct.pack("<I", len(encoded)), encoded]
    elif isinstance(value, (bytes, bytearray, memoryview)):
        parts += [b"B" + struct.pack("<I", len(value)), bytes(value)]
    elif isinstance(value, np.ndarray):
        code = _CODES[value.dtype]
        parts.append(b"A" + code + struct.pack(f"<B{value.ndim}I", value.ndim, *value.shape))
        parts.append(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, (tuple, list)):
        parts.append(b"L" + struct.pack("<I", len(value)))
        for item in value:
            _write(item, parts)
    elif isinstance(value, Mapping):
        parts.append(b"M" + struct.pack("<I", len(value)))
        for key in sorted(value):
            _write(key, parts)
            _write(value[key], parts)
    elif is_dataclass(value) and not isinstance(value, type):
        parts.append(b"C")
        _write(type(value).__name__, parts)
        for field in fields(value):
            _write(getattr(value, field.name), parts)
    else:
        raise TypeError(f"a {type(value).__name__} cannot travel; send numbers, text, arrays or messages")


def unpack(message: bytes, classes: Classes, limit: int = MAX_BYTES) -> Any:
    """Return the value, or refuse: bytes left over, unknown classes, wrong types of fields, too much of anything."""
    if len(message) > limit:
        raise ProtocolError(f"a message of {len(message):,} bytes arrived where {limit:,} is the limit; it is refused.")
    reader = _Reader(memoryview(message), classes)
    try:
        value = reader.value(0)
    except ComtError:
        raise
    except (ValueError, TypeError, KeyError, struct.error, OverflowError, RecursionError, AttributeError) as error:
        raise ProtocolError(
            f"a message of {len(message):,} bytes cannot be read ({type(error).__name__}); update the sender's software."
        ) from None
    if reader.place != len(message):
        raise ProtocolError(
            f"a message has {len(message) - reader.place:,} bytes too many; update the sender's software."
        )
    return value


class _Reader:
    def __init__(self, data: memoryview, classes: Classes) -> None:
        self.data, self.classes, self.place = data, classes, 0

    def take(self, count: int) -> memoryview:
        part = self.data[self.place : self.place + count]
        if len(part) != count:
            raise ValueError("ends early")
        self.place += count
        return part

    def number(self, form: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def value(self, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise ValueError("nested too deeply")
        tag = bytes(self.take(1))
        if tag in b"NTF":
            return {b"N": None, b"T": True, b"F": False}[tag]
        if tag == b"I":
            return self.number("<q")
        if tag == b"D":
            value = self.number("<d")
            if value != value:
                raise ValueError("not a number")
            return value
        if tag == b"S":
            return str(self.take(self.number("<I")), "utf-8")
        if tag == b"B":
            return bytes(self.take(self.number("<I")))
        if tag == b"A":
            return self.array()
        if tag == b"L":
            return tuple(self.value(depth + 1) for _ in range(self.items()))
        if tag == b"M":
            return self.mapping(depth)
        if tag == b"C":
            return self.message(depth)
        raise ValueError("unknown tag")

    def items(self) -> int:
        count = int(self.number("<I"))
        if count > min(_MAX_ITEMS, len(self.data) - self.place):  # every item has a byte at least
            raise ValueError("more items than bytes")
        return count

    def array(self) -> np.ndarray[Any, Any]:
        dtype = _DTYPES[bytes(self.take(1))]
        ndim = self.number("<B")
        if ndim > _MAX_DIMENSIONS:
            raise ValueError("too many dimensions")
        shape = tuple(self.number("<I") for _ in range(ndim))
        size = dtype.itemsize
        for length in shape:
            size *= length
        return np.frombuffer(self.take(size), dtype=dtype).reshape(shape)

    def mapping(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        last = None
        for _ in range(self.items()):
            key = self.value(depth + 1)
            if not isinstance(key, str) or (last is not None and key <= last):
                raise ValueError("keys are not in order")
            found[key] = self.value(depth + 1)
            last = key
        return found

    def message(self, depth: int) -> Any:
        name = self.value(depth + 1)
        cls = self.classes[name]
        hints = _hints(cls)
        values = {key: self.value(depth + 1) for key in hints}
        for key, value in values.items():
            if not _fits(value, hints[key]):
                raise ProtocolError(f"'{key}' of a {name} message is of the wrong type; update the sender's software.")
        return cls(**values)


@cache
def _hints(cls: type) -> dict[str, Any]:
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in fields(cls)}


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of an annotated type."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(value, option) for option in args)
    if origin is Literal:
        return any(type(value) is type(option) and value == option for option in args)
    if origin is np.ndarray:
        return isinstance(value, np.ndarray) and value.dtype == np.dtype(get_args(args[1])[0])
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(item, args[0]) for item in value)
    if origin in (dict, Mapping):
        return isinstance(value, dict) and all(_fits(item, args[1]) for item in value.values())
    if hint is type(None):
        return value is None
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)
