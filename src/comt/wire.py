"""Messages as bytes: one canonical form per value, read back only into the types that were allowed.

A value is None, a bool, an int of 64 bits, a float, a text, bytes, an array, a tuple, a dict with text keys, or a
dataclass of the vocabulary. Equal values have equal bytes, so a digest of the bytes is a digest of the message. Nothing
that is read is ever executed, unlike a pickle: the reader builds only the classes it was given, checks every field
against its annotation, and refuses everything else with a :class:`comt.errors.ProtocolError`.
"""

from __future__ import annotations

import struct
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from math import prod
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
    b"b": np.dtype("bool"),
}
_CODES = {dtype: code for code, dtype in _DTYPES.items()}

_COUNT, _LONG, _DOUBLE = struct.Struct("<I"), struct.Struct("<q"), struct.Struct("<d")
_HEAD, _SHAPES = struct.Struct("<cB"), [struct.Struct(f"<{n}I") for n in range(_MAX_DIMENSIONS + 1)]
_TEXT, _BYTES, _INTEGER, _FLOAT, _ARRAY, _LIST, _MAPPING, _CLASS = b"SBIDALMC"
_SINGLE = {ord("N"): None, ord("T"): True, ord("F"): False}

Classes = Mapping[str, type]
Parts = list[bytes | memoryview]
Writer = Callable[[Any, Parts], None]


def vocabulary(classes: Iterable[type]) -> Classes:
    """Return the classes by the names under which they travel."""
    return {cls.__name__: cls for cls in classes}


def pack(value: Any) -> bytes:
    """Return the canonical bytes of a value."""
    parts: Parts = []
    _write(value, parts)
    return b"".join(parts)


def _write(value: Any, parts: Parts) -> None:
    writer = _WRITERS.get(type(value))
    if writer is None:
        writer = _WRITERS[type(value)] = _writer(type(value))
    writer(value, parts)


def _write_text(value: str, parts: Parts) -> None:
    encoded = value.encode()
    parts += (b"S" + _COUNT.pack(len(encoded)), encoded)


def _write_bytes(value: bytes, parts: Parts) -> None:
    parts += (b"B" + _COUNT.pack(len(value)), bytes(value))


def _write_array(value: np.ndarray[Any, Any], parts: Parts) -> None:
    if value.dtype not in _CODES:  # a solver may well hand over small integers
        value = value.astype(np.float64, casting="safe")
    head = _HEAD.pack(_CODES[value.dtype], value.ndim) + _SHAPES[value.ndim].pack(*value.shape)
    parts += (b"A" + head, np.ascontiguousarray(value).data if value.size else b"")  # not copied before the end


def _write_list(value: tuple[Any, ...], parts: Parts) -> None:
    parts.append(b"L" + _COUNT.pack(len(value)))
    for item in value:
        _write(item, parts)


def _write_mapping(value: Mapping[str, Any], parts: Parts) -> None:
    parts.append(b"M" + _COUNT.pack(len(value)))
    for key in sorted(value):
        _write(key, parts)
        _write(value[key], parts)


def _message_writer(cls: type) -> Writer:
    head: Parts = [b"C"]
    _write_text(cls.__name__, head)
    start, names = b"".join(head), _names(cls)

    def write(value: Any, parts: Parts) -> None:
        parts.append(start)
        for name in names:
            _write(getattr(value, name), parts)

    return write


def _writer(kind: type) -> Writer:
    """Return what writes values of a type."""
    for base, writer in _KINDS.items():
        if issubclass(kind, base):
            return writer
    if is_dataclass(kind):
        return _message_writer(kind)
    if issubclass(kind, Mapping):
        return _write_mapping
    raise TypeError(f"a {kind.__name__} cannot travel; send numbers, text, arrays or messages")


#: in this order: a bool is an int, too
_KINDS: dict[type, Writer] = {
    str: _write_text,
    bytes: _write_bytes,
    bytearray: _write_bytes,
    type(None): lambda value, parts: parts.append(b"N"),
    bool: lambda value, parts: parts.append(b"T" if value else b"F"),
    int: lambda value, parts: parts.append(b"I" + _LONG.pack(value)),
    np.integer: lambda value, parts: parts.append(b"I" + _LONG.pack(int(value))),
    float: lambda value, parts: parts.append(b"D" + _DOUBLE.pack(value)),
    np.floating: lambda value, parts: parts.append(b"D" + _DOUBLE.pack(float(value))),
    np.ndarray: _write_array,
    tuple: _write_list,
    list: _write_list,
}
#: by the very type of a value, found once: every message of every site passes here
_WRITERS: dict[type, Writer] = {}


def unpack(message: bytes, classes: Classes, limit: int = MAX_BYTES) -> Any:
    """Return the value, or refuse: bytes left over, unknown classes, wrong types of fields, too much of anything."""
    if len(message) > limit:
        raise ProtocolError(f"a message of {len(message):,} bytes arrived where {limit:,} is the limit; it is refused.")
    reader = _Reader(bytes(message), classes)
    try:
        value = reader.value(0)
    except ComtError:
        raise
    except (
        ValueError,
        TypeError,
        KeyError,
        struct.error,
        OverflowError,
        RecursionError,
        AttributeError,
        IndexError,
    ) as error:
        raise ProtocolError(
            f"a message of {len(message):,} bytes cannot be read ({type(error).__name__}); update the sender's software."
        ) from None
    if reader.place != len(message):
        raise ProtocolError(
            f"a message has {len(message) - reader.place:,} bytes too many; update the sender's software."
        )
    return value


class _Reader:
    """Reads one message from front to back. (Written for speed: every answer of every site passes here.)"""

    def __init__(self, data: bytes, classes: Classes) -> None:
        self.data, self.size, self.classes, self.place = data, len(data), classes, 0

    def number(self, form: struct.Struct) -> Any:
        found = form.unpack_from(self.data, self.place)[0]
        self.place += form.size
        return found

    def value(self, depth: int) -> Any:
        place = self.place
        tag = self.data[place]
        if tag in (_TEXT, _BYTES):
            start = place + 5  # behind the tag and a count
            end = self.place = start + _COUNT.unpack_from(self.data, place + 1)[0]
            if end > self.size:
                raise ValueError("ends early")
            found = self.data[start:end]
            return found.decode() if tag == _TEXT else found
        self.place = place + 1
        if tag == _INTEGER:
            return self.number(_LONG)
        if tag == _ARRAY:
            return self.array()
        if tag == _FLOAT:
            value = self.number(_DOUBLE)
            if value != value:
                raise ValueError("not a number")
            return value
        if tag in _SINGLE:
            return _SINGLE[tag]
        if depth >= _MAX_DEPTH:
            raise ValueError("nested too deeply")
        if tag == _CLASS:
            return self.message(depth + 1)
        if tag == _MAPPING:
            return self.mapping(depth + 1)
        if tag == _LIST:
            return tuple([self.value(depth + 1) for _ in range(self.items())])
        raise ValueError("unknown tag")

    def items(self) -> int:
        count = int(self.number(_COUNT))
        if count > min(_MAX_ITEMS, self.size - self.place):  # every item has a byte at least
            raise ValueError("more items than bytes")
        return count

    def array(self) -> np.ndarray[Any, Any]:
        code, ndim = _HEAD.unpack_from(self.data, self.place)
        dtype = _DTYPES[code]
        if ndim > _MAX_DIMENSIONS:
            raise ValueError("too many dimensions")
        form = _SHAPES[ndim]
        shape = form.unpack_from(self.data, self.place + _HEAD.size)
        start, count = self.place + _HEAD.size + form.size, prod(shape)
        self.place = start + dtype.itemsize * count
        if self.place > self.size:
            raise ValueError("ends early")
        if count == 0:
            return np.empty(shape, dtype)
        flat: np.ndarray[Any, Any] = np.frombuffer(self.data, dtype, count, start)
        # the smallest of values among which one is not a number is not a number
        if dtype.kind == "f" and (least := flat.min()) != least:
            raise ValueError("not a number")
        if dtype.kind == "b" and flat.view(np.uint8).max() > 1:
            raise ValueError("neither true nor false")
        return flat.reshape(shape)

    def mapping(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        last = None
        for _ in range(self.items()):
            key = self.value(depth)
            if not isinstance(key, str) or (last is not None and key <= last):
                raise ValueError("keys are not in order")
            found[key] = self.value(depth)
            last = key
        return found

    def message(self, depth: int) -> Any:
        name = self.value(depth)
        cls = self.classes[name]
        values = {}
        for key, fits in _checks(cls):
            value = values[key] = self.value(depth)
            if not fits(value):
                raise ProtocolError(f"'{key}' of a {name} message is of the wrong type; update the sender's software.")
        return cls(**values)


Check = Callable[[Any], bool]


@cache
def _names(cls: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(cls))


@cache
def _checks(cls: type) -> tuple[tuple[str, Check], ...]:
    """Return, for every field, the function that says whether a value is of its annotated type."""
    hints = get_type_hints(cls)
    return tuple((name, _check(hints[name])) for name in _names(cls))


def _check(hint: Any) -> Check:
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        first, *others = (_check(option) for option in args)
        rest = _check(Union[args[1:]]) if len(others) > 1 else others[0]  # noqa: UP007 (made from a tuple)
        return lambda value: first(value) or rest(value)
    if origin is Literal:
        return lambda value: any(type(value) is type(option) and value == option for option in args)
    if origin is np.ndarray:
        dtype = np.dtype(get_args(args[1])[0])
        return lambda value: isinstance(value, np.ndarray) and value.dtype == dtype
    if origin is tuple:
        item = _check(args[0])
        return lambda value: isinstance(value, tuple) and all(map(item, value))
    if origin in (dict, Mapping):
        entry = _check(args[1])
        return lambda value: isinstance(value, dict) and all(map(entry, value.values()))
    if hint is float:
        return lambda value: type(value) in (int, float)
    if hint is int:
        return lambda value: type(value) is int
    kind = type(None) if hint is None else hint
    return lambda value: isinstance(value, kind)
