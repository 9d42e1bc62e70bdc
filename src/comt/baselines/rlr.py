"""rLR: logistic regression that estimates how often labels are flipped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit

from comt.baselines.base import AgentRows, Array, Baseline, LinearModel, Task
from comt.baselines.checks import UseTrusted, check_agents, check_positive, training_rows
from comt.baselines.logistic import chance
from comt.errors import InputError

TINY = 1e-300  # keeps the log of an impossible label finite


def noisy_loss(
    coef: Array, flips: Array, features: Array, positive: Array, lambda_w: float
) -> tuple[float, Array, Array]:
    """Return -sum (y log S1 + (1 - y) log S0) + lambda_w/2 |w|^2 and its gradients in w and ``flips``.

    y is 0 or 1, flips = (gamma_01, gamma_10), S1 = gamma_01 (1 - p) + (1 - gamma_10) p and S0 = 1 - S1.
    """
    up, down = float(flips[0]), float(flips[1])
    scores = features @ coef
    # both tails on their own, as 1 - p loses all digits where the gradient needs them
    high, low = chance(scores), chance(-scores)
    ones = np.maximum(up * low + (1.0 - down) * high, TINY)
    zeros = np.maximum((1.0 - up) * low + down * high, TINY)
    loss = -float(np.log(np.where(positive > 0, ones, zeros)).sum()) + 0.5 * lambda_w * float(coef @ coef)
    lean = np.where(positive > 0, 1.0 / ones, -1.0 / zeros)
    by_coef = lambda_w * coef - (1.0 - up - down) * (features.T @ (lean * high * low))
    return loss, by_coef, np.array([-lean @ low, lean @ high])


def rlr_fit(
    features: Array, labels: Array, *, lambda_w: float = 1.0, start: float = 0.1, max_steps: int = 500
) -> tuple[Array, Array, float]:
    """Fit one data set (labels -1, +1) from flip chances ``start``; return w, gamma and the penalised loss.

    w and the logits of the flip chances move together, by quasi-Newton steps. The authors alternate between
    the two, which shares the optimum but creeps towards it, as |w| and gamma nearly make up for each other.
    With ``start=0`` the chances stay zero, as they do in the authors' updates.
    """
    positive, width = (labels > 0).astype(np.float64), features.shape[1]

    def objective(parameters: Array) -> tuple[float, Array]:
        flips = expit(parameters[width:]) if start > 0 else np.zeros(2)
        loss, by_coef, by_flips = noisy_loss(parameters[:width], flips, features, positive, lambda_w)
        if start == 0:
            return loss, by_coef
        return loss, np.concatenate([by_coef, by_flips * flips * (1.0 - flips)])

    first = np.append(np.zeros(width), logit([start, start]) if start > 0 else [])
    found = minimize(
        objective,
        first,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": max_steps, "ftol": 1e-13, "gtol": 1e-7 * labels.size},
    )
    coef, (up, down) = np.asarray(found.x[:width]), expit(found.x[width:]) if start > 0 else (0.0, 0.0)
    gamma = np.array([[1.0 - up, up], [down, 1.0 - down]])
    if up + down > 1.0:
        # exchanging the classes gives the same likelihood; of the two, most labels are taken to be right
        return -coef, gamma[::-1], float(found.fun)
    return coef, gamma, float(found.fun)


@dataclass(frozen=True, kw_only=True)
class Rlr(Baseline):
    """min_{w,gamma} -sum y log S1 + (1-y) log(1-S1) + lambda_w/2 |w|^2,  S1 = gamma_01 (1-p) + gamma_11 p.

    Bootkrajang and Kabán, "Label-noise robust logistic regression and its applications" (ECML 2012).
    p = s(w.x) is the chance of the true label being +1, gamma_jk = P(observed k | true j); both are estimated
    together. The likelihood has several optima, so each agent starts from every value of ``flip_starts`` and
    keeps the best; ``flip_starts=(0.0,)`` is logistic regression. Each agent fits alone; the server averages
    w = sum n_k/n w_k, n_k the rows trained on. ``found["gamma"]`` holds each agent's 2 x 2 flip chances.
    """

    lambda_w: float = 1.0
    flip_starts: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4)
    use_trusted: UseTrusted = "append"

    name: ClassVar[str] = "rLR"
    tasks: ClassVar[frozenset[Task]] = frozenset({"classification"})
    sends: ClassVar[str] = "each agent's coefficients and number of rows, once"

    def __post_init__(self) -> None:
        check_positive(lambda_w=self.lambda_w)
        if not self.flip_starts or not all(0 <= start < 0.5 for start in self.flip_starts):
            raise InputError(f"flip_starts={self.flip_starts!r} must be chances of at least 0 and below 1/2.")

    def fit(self, agents: Sequence[AgentRows], task: Task) -> LinearModel:
        """Fit each agent's rows under label noise and average the coefficients."""
        check_agents(self, agents, task)
        rows = [training_rows(agent, self.use_trusted) for agent in agents]
        fits = [self._best_fit(features, labels) for features, labels in rows]
        coef = np.average([coef for coef, _ in fits], axis=0, weights=[len(labels) for _, labels in rows])
        return LinearModel(coef, found={"gamma": [gamma for _, gamma in fits]})

    def _best_fit(self, features: Array, labels: Array) -> tuple[Array, Array]:
        fits = [rlr_fit(features, labels, lambda_w=self.lambda_w, start=start) for start in self.flip_starts]
        coef, gamma, _ = min(fits, key=lambda fit: fit[2])
        return coef, gamma
