"""What the data holder allows, from a small TOML file of its own."""

from __future__ import annotations

import tomllib
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, Literal

from comt.errors import InputError
from comt.masking.messages import Terms
from comt.noise import Noise
from comt.queries import MAX_ANSWER_BYTES


@dataclass(frozen=True)
class Policy:
    """What may leave. In one process (the estimators) these defaults allow every sum; a file starts from ``protective``."""

    #: a sum over fewer rows stays inside, and so does one of two sums that differ by fewer (no row at all may pass)
    min_rows: int = 1
    #: answers larger than this stay inside
    max_bytes: int = MAX_ANSWER_BYTES
    #: purposes that may be asked; None: all of the vocabulary
    purposes: frozenset[str] | None = None
    #: may the server see this agent's answer by itself rather than only the sum over agents?
    individual: bool = False
    #: answer questions whose sum shows every agent by itself, in a slot of its own
    by_agent: bool = True
    #: answer only under masks
    masked: bool = False
    #: fewest sites in a sum
    min_participants: int = 1
    #: fewest trusted rows in a sum over them, of all sites together; "columns": as many as there are columns
    min_trusted_rows: int | Literal["columns"] = 0
    #: how many questions are answered before the owner is asked again; None: any number
    max_rounds: int | None = None
    #: how many questions are refused before nothing more is answered; a refusal tells something, too. None: any number
    max_refusals: int | None = None
    #: how many sums of a training may differ from earlier ones, for other models, by fewer than ``min_rows``; None: any
    max_close: int | None = None
    #: largest entry of a broadcast model; None: any
    max_magnitude: float | None = None
    #: go on when fewer than ``min_participants`` sites have left or joined, although sums before and after differ by them
    allow_leavers: bool = True
    #: sites with which sums are shared; None: all that the federation's certificates admit
    peers: frozenset[str] | None = None
    #: differential privacy; None: sums are exact
    noise: Noise | None = None

    @classmethod
    def protective(cls) -> Policy:
        """Return what a data holder gets who names nothing: masks, three sites, ten rows, as many trusted rows as columns."""
        return cls(
            min_rows=10,
            by_agent=False,
            masked=True,
            min_participants=3,
            min_trusted_rows="columns",
            allow_leavers=False,
            max_rounds=20_000,
            max_refusals=200,
            max_close=0,
            max_magnitude=1e6,
        )

    def terms(self) -> Terms:
        """Return what other sites have to know, in order to hold to it."""
        return Terms(
            self.min_rows,
            Terms.COLUMNS if isinstance(self.min_trusted_rows, str) else self.min_trusted_rows,
            # two sites are too few unless the owner says two
            self.min_participants if self.min_participants > 1 else 3,
            self.allow_leavers,
            Terms.ANY if self.max_close is None else self.max_close,
        )


_TYPES: dict[str, tuple[str, Any]] = {
    "min_rows": ("a whole number from 1 on", lambda v: _whole(v, 1)),
    "max_bytes": ("a whole number from 1 on", lambda v: _whole(v, 1)),
    "min_participants": ("a whole number from 2 on", lambda v: _whole(v, 2)),
    "min_trusted_rows": ('a whole number from 0 on or "columns"', lambda v: v == "columns" or _whole(v, 0)),
    "max_rounds": ("a whole number from 1 on", lambda v: _whole(v, 1)),
    "max_refusals": ("a whole number from 1 on", lambda v: _whole(v, 1)),
    "max_close": ("a whole number from 0 on", lambda v: _whole(v, 0)),
    "max_magnitude": ("a positive number", lambda v: type(v) in (int, float) and 0 < v < float("inf")),
    "by_agent": ("true or false", lambda v: isinstance(v, bool)),
    "allow_leavers": ("true or false", lambda v: isinstance(v, bool)),
    "individual": ("true or false", lambda v: isinstance(v, bool)),
    "masked": ("true or false", lambda v: isinstance(v, bool)),
    "noise": ("a table of numbers", lambda v: isinstance(v, dict)),
    "purposes": ("a list of texts", lambda v: isinstance(v, list) and all(isinstance(item, str) for item in v)),
    "peers": ("a list of texts", lambda v: isinstance(v, list) and all(isinstance(item, str) for item in v)),
}


def _whole(value: Any, least: int) -> bool:
    return type(value) is int and value >= least


def read_policy(path: Path) -> Policy:
    """Read the table ``[policy]`` of a TOML file; what it does not name is protective."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"the policy {path} cannot be read ({error.strerror}); name an existing TOML file.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        detail = " ".join(str(error).split()).rstrip(".").replace(". ", ", ")
        raise InputError(f"the policy {path} is not TOML ({detail}); correct that place.") from None
    return parse_policy(content.get("policy", {}), str(path))


def parse_policy(table: Any, where: str) -> Policy:
    """Return the policy; an unknown or unfit entry is refused rather than passed over."""
    if not isinstance(table, dict):
        raise InputError(f"{where}: 'policy' is not a table; write [policy] and its entries below.")
    for name, value in table.items():
        if name not in _TYPES:
            raise InputError(f"{where}: the policy has no entry '{name}'; known are {', '.join(sorted(_TYPES))}.")
        expected, fits = _TYPES[name]
        if not fits(value):
            raise InputError(f"{where}: {name} = {value!r} in the policy is not {expected}; write such a value.")
    start = Policy.protective()
    table = dict(table)
    if "noise" in table:
        table["noise"] = _parse_noise(table["noise"], where)
    given = {name: frozenset(value) if isinstance(value, list) else value for name, value in table.items()}
    return Policy(**({field.name: getattr(start, field.name) for field in fields(Policy)} | given))


def _parse_noise(table: dict[str, Any], where: str) -> Noise:
    known = {field.name for field in fields(Noise)}
    needed = {field.name for field in fields(Noise) if field.default is MISSING}
    if not needed <= set(table) <= known:
        raise InputError(
            f"{where}: noise has the entries {sorted(table)}; it needs {sorted(needed)} and may have {sorted(known - needed)}."
        )
    for name, value in table.items():
        if type(value) not in (int, float) or not 0 < value < float("inf") or (name == "delta" and value >= 1):
            raise InputError(f"{where}: {name} = {value!r} of the noise is not a positive number; write such a value.")
    return Noise(**{name: float(value) for name, value in table.items()})
