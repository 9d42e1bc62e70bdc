"""What travels between a coordinator and the sites besides sums: who joins, what was agreed on, how it ended.

Both sides use this module; it knows neither rows nor sums. Every message goes through :mod:`comt.wire`, which builds only
the classes that are listed here.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, ClassVar, Literal, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from comt import wire
from comt.declaration import MIN_COUNT, Declaration
from comt.errors import ProtocolError
from comt.masking.messages import query_classes
from comt.noise import Noise
from comt.problem import Array
from comt.queries import MAX_ANSWER_BYTES, Query

Task = Literal["regression", "classification"]
Label = str | bool | float
Kind = TypeVar("Kind")
Question = TypeVar("Question", bound=Query)


@dataclass(frozen=True, kw_only=True)
class Envelope:
    """A question on its way to the sites: which training and round it belongs to, who else is asked, until when."""

    training: str
    round: int
    purpose: str
    participants: tuple[str, ...]
    query: Query
    #: whether the answer is wanted by itself rather than as part of a sum
    individual: bool = False
    #: seconds after which nobody waits for the answer any more
    seconds: float = 60.0


@dataclass(frozen=True, kw_only=True)
class Reply:
    """A site's answer to an envelope: arrays, or the kind of its refusal."""

    training: str
    round: int
    site: str
    arrays: dict[str, Array] = field(default_factory=dict)
    refusal: str = ""


@dataclass(frozen=True, kw_only=True)
class Join:
    """Asks a site whether it takes part in a training of this kind."""

    training: str
    task: Task
    #: a level of a category may be named from so many rows on; a site's own minimum may be larger
    min_count: int = MIN_COUNT
    seconds: float = 60.0


@dataclass(frozen=True, kw_only=True)
class Joined:
    """What a site says about itself before anything is summed: columns, labels, version. No count, no value of a row.

    Of a column of categories the declaration names those that enough rows share, as its gate decides.
    """

    site: str
    version: str
    declaration: Declaration | None = None
    #: name of the column that is predicted
    target: str = ""
    labels: tuple[Label, ...] = ()
    #: whether it answers questions whose sum shows every site by itself, however few rows they sum
    by_agent: bool = False
    #: the noise that it adds to its sums
    noise: Noise | None = None
    #: what all its noisy answers so far have cost: ε, at the agreed δ
    epsilon: float = 0.0
    refusal: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of its columns, in the order of its file."""
        return () if self.declaration is None else tuple(column.name for column in self.declaration.columns)


@dataclass(frozen=True, kw_only=True)
class Begin:
    """Who takes part in an attempt, and the two labels of a classification."""

    training: str
    participants: tuple[str, ...]
    classes: tuple[Label, ...] = ()
    seconds: float = 60.0


@dataclass(frozen=True, kw_only=True)
class Agreed:
    """How all sites turn the columns of their tables into features."""

    training: str
    schema: str  # the text of a schema, as in model.json
    seconds: float = 60.0


@dataclass(frozen=True, kw_only=True)
class Finish:
    """The trained model, from which every site makes its private issue table."""

    training: str
    model: str  # the text of model.json
    residual_size: float
    seconds: float = 60.0


@dataclass(frozen=True, kw_only=True)
class Sealed:
    """Messages of secure summation (:mod:`comt.masking.messages`), one for each site; a site reads its own.

    What is the same for all of them stands once, under no name.
    """

    EVERYBODY: ClassVar[str] = ""
    training: str
    messages: dict[str, bytes]
    seconds: float = 60.0


@dataclass(frozen=True, kw_only=True)
class SealedReply:
    """A site's reply to its message of secure summation."""

    training: str
    site: str
    message: bytes
    refusal: str = ""


@cache
def vocabulary() -> wire.Classes:
    """Return every class that may travel: these messages and what the questions of comt.queries are made of."""
    own = (Envelope, Reply, Join, Joined, Noise, Begin, Agreed, Finish, Sealed, SealedReply)
    return {**query_classes(), **wire.vocabulary(own)}


def parse(data: object, *expected: type[Kind]) -> Kind:
    """Read a message, which must be of one of the expected kinds."""
    if not isinstance(data, bytes):
        raise ProtocolError(f"a message of type {type(data).__name__} came where bytes are due; update its sender.")
    message = wire.unpack(data, vocabulary())
    if not isinstance(message, expected):
        wanted = " or ".join(kind.__name__ for kind in expected)
        raise ProtocolError(f"a {type(message).__name__} came where {wanted} was due; update its sender.")
    if isinstance(message, Envelope):
        _check_size(message.query)
    return message


@cache
def _dtypes(kind: type) -> dict[str, np.dtype[Any]]:
    """Return the declared type of every field of a class that is an array (or may be one)."""
    found = {}
    for name, hint in get_type_hints(kind).items():
        for option in (hint, *get_args(hint)):
            if get_origin(option) is np.ndarray:
                found[name] = np.dtype(get_args(get_args(option)[1])[0])
    return found


def exact(query: Question) -> Question:
    """Return the question with every array of its declared type: on the wire, whole numbers are not floats."""
    changes = {
        name: value.astype(dtype)
        for name, dtype in _dtypes(type(query)).items()
        if isinstance(value := getattr(query, name), np.ndarray) and value.dtype != dtype
    }
    return replace(query, **changes) if changes else query


def _check_size(query: Query) -> None:
    """Refuse a question whose answer could not be sent, before anybody computes it."""
    size = 8 * sum(math.prod(shape) for shape in query.shapes().values())
    if size > MAX_ANSWER_BYTES:
        raise ProtocolError(f"the answer to '{query.purpose}' would have {size:,} bytes; ask for fewer models at once.")


def fingerprint(query: Any) -> str:
    """Identify a question by its content."""
    return hashlib.sha256(wire.pack(query)).hexdigest()
