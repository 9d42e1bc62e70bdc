"""Known attacks, each a function of what a coordinator saw. None of them needs more than linear algebra and patience.

Every function returns what the attacker believes to have found; how right it is, is judged elsewhere, against the truth.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from comt.federation.transcript import Seen
from comt.masking.fixed_point import Layout
from comt.problem import Array
from comt.queries import CurvatureTimes, DualSums, ProximalStep, SubsetSum


def answer_of(seen: Seen, site: str) -> dict[str, Array] | None:
    """Return one site's answer: as it was sent, or the masked words read as if there were no masks."""
    if site in seen.answers:
        return seen.answers[site]
    if site not in seen.words:
        return None
    shapes = seen.question().shapes()
    layout = Layout(shapes, {}, len(seen.words))
    words = seen.words[site].copy()
    words[1] &= np.uint64(2**61 - 1)  # into the range that the decoder takes
    return layout.decode(words)


def trusted_gradient(v: Array, theta: Array, rho: float, lambda_trusted: float) -> Array:
    """Read an agent's trusted gradient off its reply θ_k to the printed θ̃-step at v: ρ(v − θ_k)/(2λ_trusted)."""
    gradient: Array = rho * (v - theta) / (2.0 * lambda_trusted)
    return gradient


def trusted_slopes(rounds: Sequence[Seen], site: str) -> Array:
    """Return a site's trusted gradients of all rounds (rounds × d), as far as they can be read."""
    found = [
        np.atleast_2d(answer["trusted_slope"])
        for seen in rounds
        if isinstance(seen.question(), (DualSums, ProximalStep)) and (answer := answer_of(seen, site)) is not None
    ]
    return np.concatenate(found) if found else np.empty((0, 0))


def chosen_directions(rounds: Sequence[Seen], site: str) -> Array:
    """Put a site's trusted X̃ᵀX̃ together from its answers along directions the coordinator chose."""
    along, products = [], []
    for seen in rounds:
        query = seen.question()
        if isinstance(query, CurvatureTimes) and (answer := answer_of(seen, site)) is not None:
            along.append(query.along_theta)
            products.append(answer["trusted"])
    if not along:
        return np.empty((0, 0))
    gram: Array = np.linalg.lstsq(np.array(along), np.array(products), rcond=None)[0]
    return gram


def nested_sums(rounds: Sequence[Seen]) -> list[Array]:
    """Subtract sums over selected rows whose counts differ by one: what is left is one row, times a factor."""
    found: list[Array] = []
    for seen in rounds:
        query = seen.question()
        if not isinstance(query, SubsetSum):
            continue
        for totals in (*seen.answers.values(), seen.totals):
            for first, second in combinations(range(len(query.r)), 2):
                if abs(totals["rows"][first] - totals["rows"][second]) == 1:
                    found.append(totals["vector"][second] - totals["vector"][first])
    return found


def one_site_less(rounds: Sequence[Seen]) -> list[dict[str, Array]]:
    """Subtract sums for the same question over different sites: what is left is the answer of whoever was missing."""
    found: list[dict[str, Array]] = []
    for first, second in combinations(rounds, 2):
        sites = [set(seen.answers) | set(seen.words) for seen in (first, second)]
        if first.query == second.query and len(sites[0] ^ sites[1]) == 1:
            sign = 1.0 if sites[0] > sites[1] else -1.0
            found.append({name: sign * (total - second.totals[name]) for name, total in first.totals.items()})
    return found


def row_space(rounds: Sequence[Seen]) -> Array:
    """Return a basis (rank × d) of the rows behind a summed X̃ᵀX̃: all of them, if they are fewer than columns."""
    for seen in rounds:
        bend = seen.totals.get("trusted_bend")
        if bend is not None and bend.ndim == 3:
            values, vectors = np.linalg.eigh(bend[0])
            return np.asarray(vectors[:, values > 1e-9 * values.max()].T)
    return np.empty((0, 0))


def separated_rows(slopes: Array, n_rows: int) -> Array:
    """Unmix gradients of many rounds: each is a mixture Σ e_j x̃_j of the same rows, with other residuals every time.

    Blind source separation (FastICA) takes the rows for the sources and the features for the samples.
    """
    from sklearn.decomposition import FastICA
    from sklearn.exceptions import ConvergenceWarning

    if len(slopes) < n_rows:
        return np.empty((0, 0))
    unmixing = FastICA(n_components=n_rows, whiten="unit-variance", random_state=0, max_iter=2000, tol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of noise there is nothing to converge to
        rows: Array = unmixing.fit_transform(slopes.T).T
    return rows


def membership(losses_of_members: Array, losses_of_others: Array) -> float:
    """Return how well a small loss tells training rows from others: the area under the curve, 0.5 for a guess."""
    both = np.concatenate([losses_of_members, losses_of_others])
    ranks = both.argsort(kind="stable").argsort() + 1.0
    n_members, n_others = len(losses_of_members), len(losses_of_others)
    above = ranks[:n_members].sum() - n_members * (n_members + 1) / 2.0
    return float(1.0 - above / (n_members * n_others))


def best_cosines(found: Array, truth: Array) -> Array:
    """Return, for every true row, the |cosine| of the found vector that is closest to it (0 if none was found)."""
    if found.size == 0 or found.shape[1] != truth.shape[1]:
        return np.zeros(len(truth))
    one, two = (part / np.maximum(np.linalg.norm(part, axis=1, keepdims=True), 1e-300) for part in (found, truth))
    best: Array = np.abs(two @ one.T).max(axis=1)
    return best
