"""The attacks on a transcript that somebody recorded: without the truth at hand, what could be read is counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from comt.audit import attacks
from comt.federation.transcript import Seen, Transcript
from comt.queries import CurvatureTimes, DualSums, ModelQuery, MomentsByAgent, SubsetSum

#: sums closer than this are counted as nested
CLOSE = 10


@dataclass(frozen=True)
class Finding:
    """What an attack gets from a transcript: how many of something, and of what."""

    attack: str
    number: float
    of: str


def findings(transcript: Transcript) -> list[Finding]:
    """Run every attack that needs nothing but the transcript."""
    rounds = transcript.rounds
    sites = sorted({site for seen in rounds for site in (*seen.answers, *seen.words)})
    readable = sorted({site for seen in rounds for site in seen.answers})
    slopes = {
        site: attacks.trusted_slopes([seen for seen in rounds if site in seen.answers], site) for site in readable
    }
    return [
        Finding("trusted gradient from replies", sum(len(found) > 0 for found in slopes.values()), _of(sites)),
        Finding("Gram matrix by chosen directions", sum(_gram_known(rounds, site) for site in sites), _of(sites)),
        Finding(
            "nested subset sums", _close_sums(rounds), f"pairs of sums for one model fewer than {CLOSE} rows apart"
        ),
        Finding(
            "differencing of rounds", len(attacks.one_site_less(rounds)), "answers of a site that was missing once"
        ),
        Finding(
            "row space of trusted rows", _visible_directions(rounds), "directions of trusted rows, fewer than columns"
        ),
        Finding("blind source separation", sum(map(_separable, slopes.values())), _of(sites)),
        Finding(
            "membership in the training rows",
            _rows_per_coefficient(rounds),
            "trusted rows per coefficient (few: known)",
        ),
    ]


def _of(sites: Sequence[str]) -> str:
    return f"of {len(sites)} sites"


def _gram_known(rounds: Sequence[Seen], site: str) -> bool:
    if any(
        isinstance(query, MomentsByAgent) and site in query.agents for query in (seen.question() for seen in rounds)
    ):
        return True  # masked or not: the question has a slot for every agent
    directions = [seen.question() for seen in rounds if site in seen.answers]
    if any(isinstance(query, DualSums) and query.curvature == "full" for query in directions):
        return True
    along = [query.along_theta for query in directions if isinstance(query, CurvatureTimes)]
    return bool(along) and np.linalg.matrix_rank(np.array(along)) == len(along[0])


def _close_sums(rounds: Sequence[Seen]) -> int:
    by_model: dict[bytes, list[float]] = {}
    for seen in rounds:
        query = seen.question()
        if isinstance(query, (DualSums, SubsetSum)):
            for model, count in zip(query.r, seen.totals["rows"], strict=True):
                by_model.setdefault(model.tobytes(), []).append(float(count))
    pairs = (pair for counts in by_model.values() for pair in combinations(sorted(set(counts)), 2))
    return sum(0 < second - first < CLOSE for first, second in pairs)


def _visible_directions(rounds: Sequence[Seen]) -> int:
    basis = attacks.row_space(rounds)
    return len(basis) if basis.size and len(basis) < basis.shape[1] else 0


def _separable(slopes: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> bool:
    """Whether gradients span fewer dimensions than they have: mixtures of few rows."""
    return len(slopes) > 1 and int(np.linalg.matrix_rank(slopes)) < min(slopes.shape)


def _rows_per_coefficient(rounds: Sequence[Seen]) -> float:
    for seen in rounds:
        query = seen.question()
        if isinstance(query, ModelQuery) and "trusted_rows" in seen.totals:
            return float(np.max(seen.totals["trusted_rows"])) / query.preparation.width
    return 0.0
