"""What differential privacy costs in accuracy, and why few rounds are a privacy feature: Newton's 15 against 1,500.

Logistic regression on 20,000 rows by noisy sums (of one agent; under masks the sites' parts of the noise add up to the same;
simulated here without the agent, with its clipping and its spreads of noise), at the same (ε, δ) for the whole training.
Each round's noise grows with the number of rounds that the budget is spread over. Both methods have one setting, how
cautious their steps are; for every ε the best of the same values is taken, on other seeds than those that are reported.
Features are standard normal, independent or correlated. Independent ones are the first-order method's best case: its very
first direction is the right one, so that 1,500 tiny steps average their noise away.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

from comt.agent.noise import ClippedPreparation, multiplier_for
from comt.errors import MissingExtraError
from comt.noise import Noise, spreads
from comt.preparation import Preparation
from comt.problem import Array
from comt.queries import Curvature, DualSums

EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
DELTA = 1e-6
NEWTON_ROUNDS, PAPER_ROUNDS = 15, 1500
N_ROWS, N_FEATURES, N_TEST = 20_000, 10, 20_000
CLIP, LAMBDA = 4.0, 10.0
#: how cautious steps are: Newton's smallest curvature in units of the noise in it, the first-order step as a divisor
CAUTION = tuple(2.0**power for power in range(-1, 13))
#: of every pair of features
CORRELATIONS = (0.0, 0.8)
#: seeds on which caution is chosen begin here; those that are reported begin at 0
TUNING_SEEDS, FIRST_TUNING_SEED = 3, 1000
TABLE, FIGURE = "privacy_cost.csv", "privacy_cost.png"


def draw(seed: int, correlation: float = 0.0) -> tuple[Array, Array, Array, Array]:
    """Draw training and test rows of one logistic model; its scores have standard deviation 2 whatever the correlation."""
    rng = np.random.default_rng(seed)
    covariance = (1.0 - correlation) * np.eye(N_FEATURES) + correlation
    model = rng.standard_normal(N_FEATURES)
    features = rng.standard_normal((N_ROWS + N_TEST, N_FEATURES)) @ np.linalg.cholesky(covariance).T
    scores = features @ model / np.sqrt(model @ covariance @ model) * 2.0
    targets = np.where(rng.random(len(scores)) < 1.0 / (1.0 + np.exp(-scores)), 1.0, -1.0)
    return features[:N_ROWS], targets[:N_ROWS], features[N_ROWS:], targets[N_ROWS:]


def question(r: Array, curvature: Curvature) -> DualSums:
    """Return what an agent would be asked in one round."""
    return DualSums(
        loss_name="logistic",
        preparation=Preparation.identity(N_FEATURES),
        r=r[None, :],
        theta=np.zeros((1, N_FEATURES)),
        lambda_alpha=np.zeros(1),
        lambda_z=np.full(1, np.inf),
        curvature=curvature,
    )


def fit(
    features: Array, targets: Array, rounds: int, noise: Noise | None, caution: float = 2.0, seed: int = 0
) -> Array:
    """Take Newton steps if rounds are few, gradient steps of the same problem if they are many.

    Noise is averaged as our solver does it (:mod:`comt.server.noisy`): the result is the mean of the later half of the points.
    """
    rng = np.random.default_rng(seed)
    newton = rounds <= NEWTON_ROUNDS
    slope_spread = bend_spread = 0.0
    if noise is not None:
        features = ClippedPreparation.of(Preparation.identity(N_FEATURES), noise).features(features)
        spread = spreads(question(np.zeros(N_FEATURES), "full" if newton else "none"), noise, 1)
        slope_spread = spread["alpha_x"].item()  # of logistic sums, the same at every model
        bend_spread = spread["weight_xx"].item() if newton else 0.0
    steepest = caution * (0.25 * N_ROWS + LAMBDA)  # with independent features the largest curvature, times caution
    # noise may turn a direction of small curvature over; how large it is, is public
    floor = max(0.02 * N_ROWS, caution * bend_spread * np.sqrt(N_FEATURES))
    r, late = np.zeros(N_FEATURES), np.zeros(N_FEATURES)
    for number in range(rounds):
        alpha = expit(-targets * (features @ r))
        slope = (alpha * targets) @ features + slope_spread * rng.standard_normal(N_FEATURES)
        gradient = LAMBDA * r - slope
        if newton:
            normal = np.triu(rng.standard_normal((N_FEATURES, N_FEATURES)))
            bend = (features.T * (alpha * (1.0 - alpha))) @ features
            values, vectors = np.linalg.eigh(bend + bend_spread * (normal + np.triu(normal, 1).T))
            step = vectors @ ((vectors.T @ gradient) / (np.maximum(values, floor) + LAMBDA))
        else:
            step = gradient / steepest
        r = r - step
        r *= min(1.0, 10.0 / max(float(np.linalg.norm(r)), 1e-300))
        if number >= rounds // 2:
            late += r
    return late / (rounds - rounds // 2)


def accuracy(model: Array, features: Array, targets: Array) -> float:
    """Return the share of right labels."""
    return float(np.mean(np.sign(features @ model) == targets))


@cache
def noise_for(epsilon: float, rounds: int) -> Noise:
    """Return the noise with which so many rounds stay within (ε, δ)."""
    return Noise(multiplier_for(epsilon, DELTA, rounds), CLIP, 1.0, DELTA, max_epsilon=1.01 * epsilon)


def scored(seed: int, correlation: float, rounds: int, epsilon: float, caution: float) -> float:
    """Return the accuracy of one noisy fit on fresh rows."""
    features, targets, *test = draw(seed, correlation)
    return accuracy(fit(features, targets, rounds, noise_for(epsilon, rounds), caution, seed), *test)


def chosen(correlation: float, rounds: int, epsilon: float) -> float:
    """Return the caution that does best on seeds kept for choosing it."""
    seeds = range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + TUNING_SEEDS)
    means = [np.mean([scored(seed, correlation, rounds, epsilon, caution) for seed in seeds]) for caution in CAUTION]
    return CAUTION[int(np.argmax(means))]


Line = tuple[int, float, int, float, float, float, float]


def experiment(seeds: int) -> Iterator[Line]:
    """Yield seed, correlation, rounds (0: exact), ε, noise multiplier, caution, accuracy."""
    for correlation in CORRELATIONS:
        for seed in range(seeds):
            features, targets, *test = draw(seed, correlation)
            exact = accuracy(fit(features, targets, NEWTON_ROUNDS, None), *test)
            yield seed, correlation, 0, np.inf, 0.0, 0.0, exact
        for rounds in (NEWTON_ROUNDS, PAPER_ROUNDS):
            for epsilon in EPSILONS:
                caution, multiplier = chosen(correlation, rounds, epsilon), noise_for(epsilon, rounds).multiplier
                for seed in range(seeds):
                    found = scored(seed, correlation, rounds, epsilon, caution)
                    yield seed, correlation, rounds, epsilon, multiplier, caution, found


def run(out: Path, seeds: int = 10) -> list[Path]:
    """Run, write the table and the figure."""
    from rich.progress import track

    out.mkdir(parents=True, exist_ok=True)
    table = out / TABLE
    draft = table.with_suffix(".part")
    total = len(CORRELATIONS) * seeds * (1 + 2 * len(EPSILONS))
    with open(draft, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["seed", "correlation", "rounds", "epsilon", "multiplier", "caution", "accuracy"])
        for line in track(experiment(seeds), "privacy", total):
            writer.writerow([f"{value:.6g}" for value in line])
    draft.rename(table)
    return [table, draw_figure(out)]


def draw_figure(out: Path) -> Path:
    """Draw accuracy against ε, and noise against rounds, from the stored table."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise MissingExtraError("figures need matplotlib; install comt[plot].") from None
    with open(out / TABLE, encoding="utf-8") as file:
        lines = [{name: float(value) for name, value in line.items()} for line in csv.DictReader(file)]
    figure, axes = plt.subplots(1, 3, figsize=(11.5, 3.6), layout="constrained")
    for axis, correlation in zip(axes, CORRELATIONS, strict=False):
        axis.sharey(axes[0])
        _draw_accuracy(axis, [line for line in lines if line["correlation"] == correlation])
        axis.set_title("independent features" if correlation == 0 else f"features correlated by {correlation}")
    axes[0].set_ylabel("right labels, % of fresh rows")
    axes[0].legend(frameon=False)
    _draw_multipliers(axes[-1])
    path = out / FIGURE
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path


def _draw_accuracy(axis: Any, lines: Sequence[Mapping[str, float]]) -> None:
    exact = np.mean([line["accuracy"] for line in lines if line["rounds"] == 0])
    axis.axhline(100 * float(exact), color="0.5", linestyle="--", label="no noise")
    for rounds, color, label in (
        (NEWTON_ROUNDS, "C0", f"Newton, {NEWTON_ROUNDS} rounds"),
        (PAPER_ROUNDS, "C3", f"first order, {PAPER_ROUNDS:,} rounds"),
    ):
        found = 100 * np.array(
            [[li["accuracy"] for li in lines if li["rounds"] == rounds and li["epsilon"] == e] for e in EPSILONS]
        )
        axis.plot(EPSILONS, found.mean(axis=1), "o-", color=color, label=label)
        axis.fill_between(EPSILONS, found.min(axis=1), found.max(axis=1), color=color, alpha=0.15, linewidth=0)
    axis.set(xscale="log", xlabel="ε for the whole training (δ = 1e−6)")


def _draw_multipliers(axis: Any) -> None:
    counts = (1, 2, 5, NEWTON_ROUNDS, 50, 150, 500, PAPER_ROUNDS)
    axis.plot(counts, [multiplier_for(1.0, DELTA, count) for count in counts], "k.-")
    for count, color in ((NEWTON_ROUNDS, "C0"), (PAPER_ROUNDS, "C3")):
        value = multiplier_for(1.0, DELTA, count)
        axis.plot([count], [value], "o", color=color)
        axis.annotate(
            f"{count:,} rounds: {value:.0f}", (count, value), (-9, -3), textcoords="offset points", ha="right"
        )
    axis.set(xscale="log", yscale="log", xlabel="rounds", title="noise per round, in sensitivities (ε = 1)")
