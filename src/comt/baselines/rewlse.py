"""REWLSE: robust and efficient weighted least squares with an adaptive cut-off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

from comt.baselines.base import AgentRows, Array, Baseline, LinearModel, Task
from comt.baselines.checks import UseTrusted, check_agents, training_rows
from comt.baselines.lts import least_trimmed_squares

NORMAL_CONSISTENT = 1.4826  # makes a median of |r| estimate the deviation of Gaussian residuals


def kept_rows(residuals: Array, eta: float = 2.5) -> NDArray[np.bool_]:
    """Drop the floor(n d) largest |r|,  d = max_{|r|_(i) >= eta} (F+(|r|_(i)) - (i-1)/n)+.

    F+ is the half-normal cdf; d is the share of rows by which the tail beyond eta exceeds a Gaussian one.

    >>> kept_rows(np.array([0.1, -0.2, 0.3, -0.4, 0.5, -0.6, 0.7, -0.8, 10.0, -12.0])).sum()
    np.int64(8)
    """
    n = residuals.size
    order = np.argsort(np.abs(residuals), kind="stable")
    size = np.abs(residuals)[order]
    excess = erf(size / np.sqrt(2.0)) - np.arange(n) / n
    share = float(excess[size >= eta].max(initial=0.0))
    kept = np.ones(n, dtype=np.bool_)
    # the slack keeps n d = 2 from being read as 1.999...; rows below eta stay in any case
    dropped = order[n - int(np.floor(n * share + 1e-9)) :]
    kept[dropped[np.abs(residuals)[dropped] > eta]] = False
    return kept


def ridge_fit(features: Array, targets: Array, lambda_w: float) -> Array:
    """Minimise 1/2 |X w - y|^2 + lambda_w/2 |w|^2; lambda_w = 0 gives the shortest solution."""
    width = features.shape[1]
    rows = np.vstack([features, np.sqrt(lambda_w) * np.eye(width)])
    return np.asarray(np.linalg.lstsq(rows, np.append(targets, np.zeros(width)))[0])


def rewlse_fit(
    features: Array, targets: Array, *, lambda_w: float = 0.0, eta: float = 2.5, seed: int = 0
) -> tuple[Array, NDArray[np.bool_]]:
    """Fit one data set; return the coefficients and which rows were kept."""
    n, p = features.shape
    everything = np.ones(n, dtype=np.bool_)
    if n <= p + 1:
        return ridge_fit(features, targets, lambda_w), everything
    start = least_trimmed_squares(features, targets, seed=seed)
    residuals = targets - features @ start
    scale = NORMAL_CONSISTENT * (1.0 + 5.0 / (n - p)) * float(np.median(np.abs(residuals)))
    if scale <= 1e-12 * float(np.abs(targets).max()):
        # most rows lie on a plane: the start is exact, and no residual has a unit to be measured in
        return start, np.abs(residuals) <= 1e-9 * float(np.abs(targets).max())
    kept = kept_rows(residuals / scale, eta)
    return ridge_fit(features[kept], targets[kept], lambda_w), kept


@dataclass(frozen=True, kw_only=True)
class Rewlse(Baseline):
    """w = (X'W X + lambda_w I)^-1 X'W y,  W_ii = [|r_i| <= t_n],  r from least trimmed squares.

    Gervini and Yohai, "A class of robust and fully efficient regression estimators" (Annals of Statistics 30,
    2002): the cut-off t_n falls only as far as the tail of the scaled residuals r is heavier than a Gaussian
    one, so clean data lose hardly a row. The ridge term is ours, for a common penalty. Each agent fits alone;
    the server averages w = sum n_k/n w_k, n_k the rows trained on. ``found["kept"]`` tells per agent which of
    its buggy rows entered the last fit.
    """

    lambda_w: float = 1.0
    eta: float = 2.5
    use_trusted: UseTrusted = "append"
    seed: int = 0

    name: ClassVar[str] = "REWLSE"
    tasks: ClassVar[frozenset[Task]] = frozenset({"regression"})
    sends: ClassVar[str] = "each agent's coefficients and number of rows, once"

    def fit(self, agents: Sequence[AgentRows], task: Task) -> LinearModel:
        """Fit each agent's rows robustly and average the coefficients."""
        check_agents(self, agents, task)
        rows = [training_rows(agent, self.use_trusted) for agent in agents]
        fits = [
            rewlse_fit(features, targets, lambda_w=self.lambda_w, eta=self.eta, seed=self.seed)
            for features, targets in rows
        ]
        coef = np.average([coef for coef, _ in fits], axis=0, weights=[len(targets) for _, targets in rows])
        kept = [kept[: agent.targets.size] for agent, (_, kept) in zip(agents, fits, strict=True)]
        return LinearModel(coef, found={"kept": kept})
