"""The data sets of the cells that automatic choice was not designed on: they come with packages, or are made up here."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comt.baselines.base import Task
from comt.bench import unseen_surveys
from comt.datasets import Table
from comt.datasets.synthetic import noisy_table
from comt.datasets.table import numbered
from comt.problem import Array

#: features, and targets or labels ±1
Rows = tuple[Array, Array]
ROWS = 3_000
#: made-up data after other people's notes: task, columns, score of the true model
MADE_UP: dict[str, tuple[Task, int, float]] = {
    "low signal": ("regression", 10, 0.3),
    "linear": ("regression", 10, 0.92),
    "54 columns": ("classification", 54, 0.9),
    "logistic": ("classification", 10, 0.9),
}


@cache
def table(name: str) -> Table:
    """Return one of the data sets, standardised."""
    if name in MADE_UP:
        task, columns, oracle = MADE_UP[name]
        return noisy_table(task, n_rows=5_000, n_features=columns, oracle=oracle, seed=54)
    features, targets = _MAKERS[name]()
    labelled = bool((np.abs(targets) == 1.0).all())
    kind: Task = "classification" if labelled else "regression"
    return Table(name, features, targets.astype(float), kind, numbered(features.shape[1])).standardised()


def _loaded(name: str) -> Rows:
    """Return features and targets of a data set, of scikit-learn's."""
    from sklearn import datasets

    features, targets = getattr(datasets, f"load_{name}")(return_X_y=True)
    return features, targets


def _made(name: str, **settings: Any) -> Rows:
    """Return features and targets of a generator, of scikit-learn's."""
    from sklearn import datasets

    features, targets = getattr(datasets, f"make_{name}")(**{"n_samples": ROWS, **settings})
    return features, targets


def _labels(positive: NDArray[np.bool_]) -> Array:
    return np.where(positive, 1.0, -1.0)


def _odd(name: str) -> Rows:
    """An odd digit; a benign tumour."""
    features, targets = _loaded(name)
    return features, _labels(targets % 2 == 1)


def _high_digits() -> Rows:
    features, digits = _loaded("digits")
    return features, _labels(digits >= 5)


def _digits(first: int, second: int) -> Rows:
    """One of two digits; the second is positive."""
    pixels, digits = _loaded("digits")
    chosen = (digits == first) | (digits == second)
    return pixels[chosen], _labels(digits[chosen] == second)


def _classes(columns: int, informative: int, redundant: int, share: float, apart: float, seed: int) -> Rows:
    """Return clusters of two classes."""
    features, classes = _made(
        "classification",
        n_features=columns,
        n_informative=informative,
        n_redundant=redundant,
        weights=[share],
        class_sep=apart,
        random_state=seed,
    )
    return features, _labels(classes == 1)


def _long_tailed_errors() -> Rows:
    rng = np.random.default_rng(3)
    features = rng.normal(size=(ROWS, 8)) + rng.normal(size=(ROWS, 1))  # columns that go together
    return features, features @ np.array([1.0, -0.8, 0.6, 0.0, 0.0, 0.4, 0.0, -0.3]) + rng.standard_t(3, ROWS)


def _with_chance(rows: Rows, columns: int, seed: int) -> Rows:
    """Return the rows with further columns that say nothing."""
    return np.hstack([rows[0], np.random.default_rng(seed).normal(size=(len(rows[0]), columns))]), rows[1]


def _moons() -> Rows:
    features, classes = _with_chance(_made("moons", noise=0.4, random_state=3), 6, 3)
    return features, _labels(classes == 1)


def _tumour_cells() -> Rows:
    """The worst compactness from the mean of ten measurements."""
    measured, _ = _loaded("breast_cancer")
    return measured[:, :10], measured[:, 25]


def _four_measurements() -> Rows:
    """Texture, smoothness, symmetry and fractal dimension; a benign tumour."""
    measured, benign = _loaded("breast_cancer")
    return measured[:, [1, 4, 8, 9]], _labels(benign == 1)


def _blobs() -> Rows:
    features, blob = _made("blobs", n_features=6, centers=5, cluster_std=9.0, random_state=5)
    return features, _labels(blob < 2)


def _wine() -> Rows:
    """Alcohol from twelve other measurements."""
    measured, _ = _loaded("wine")
    return measured[:, 1:], measured[:, 0]


def _prices() -> Rows:
    """Targets whose logarithm is linear: skewed, as prices are."""
    rng = np.random.default_rng(6)
    features = rng.normal(size=(ROWS, 10))
    logarithm = features @ np.array([0.4, -0.3, 0.25, 0.2, 0.0, 0.0, 0.15, 0.0, -0.1, 0.0])
    return features, 100.0 * np.exp(logarithm + 0.3 * rng.normal(size=ROWS))


def _one_of_three_classes() -> Rows:
    features, classes = _made(
        "classification",
        n_features=10,
        n_informative=7,
        n_redundant=0,
        n_classes=3,
        class_sep=0.9,
        random_state=6,
    )
    return features, _labels(classes == 2)


def _counts() -> Rows:
    """Numbers of events, none or one most often; their rates differ by the columns."""
    rng = np.random.default_rng(7)
    features = rng.normal(size=(ROWS, 8))
    rates = np.exp(0.3 + features @ np.array([0.5, -0.35, 0.3, 0.2, 0.0, 0.0, -0.15, 0.0]))
    return features, rng.poisson(rates).astype(float)


def _blood_sugar() -> Rows:
    """From nine other measurements of patients with diabetes."""
    measured, _ = _loaded("diabetes")
    return measured[:, :9], measured[:, 9]


def _fast_progression() -> Rows:
    """Diabetes that progresses faster than that of most."""
    measured, progress = _loaded("diabetes")
    return measured, _labels(progress > np.median(progress))


def _skewed_columns() -> Rows:
    """Columns with long tails, labels that follow their logarithms."""
    rng = np.random.default_rng(8)
    logarithms = rng.normal(size=(ROWS, 9))
    score = logarithms @ np.array([1.0, -0.8, 0.6, 0.5, -0.4, 0.3, 0.0, 0.0, 0.0]) + 0.5
    return np.exp(0.8 * logarithms), _labels(rng.random(ROWS) < 1.0 / (1.0 + np.exp(-score)))


def _body_mass() -> Rows:
    """From nine other measurements of patients with diabetes."""
    measured, _ = _loaded("diabetes")
    return np.delete(measured, 2, axis=1), measured[:, 2]


def _waiting_times() -> Rows:
    """Times until something happens, many of them short; rates differ by columns that go together."""
    rng = np.random.default_rng(9)
    features = rng.normal(size=(ROWS, 10)) + 0.7 * rng.normal(size=(ROWS, 1))
    logarithm = features @ np.array([0.35, 0.3, -0.25, 0.2, 0.0, 0.0, 0.15, 0.0, -0.1, 0.0])
    return features, np.exp(logarithm) * rng.gamma(2.0, 0.5, size=ROWS)


def _cultivar() -> Rows:
    """A wine of the second cultivar, by its thirteen measurements."""
    measured, cultivar = _loaded("wine")
    return measured, _labels(cultivar == 1)


def _yes_or_no() -> Rows:
    """Columns that are 0 or 1, each with a frequency of its own."""
    rng = np.random.default_rng(10)
    features = (rng.random((ROWS, 14)) < rng.uniform(0.15, 0.6, size=14)).astype(float)
    score = features @ np.array([1.5, -1.2, 1.0, 0.8, -0.8, 0.6, 0.5, -0.4, 0.3, 0.0, 0.0, 0.0, 0.0, 0.0])
    return features, _labels(score - np.median(score) + rng.normal(size=ROWS) > 0)


def _proline() -> Rows:
    """Of a wine, from twelve other measurements."""
    measured, _ = _loaded("wine")
    return measured[:, :12], measured[:, 12]


def _ratings() -> Rows:
    """Whole numbers from one to five."""
    rng = np.random.default_rng(11)
    features = rng.normal(size=(ROWS, 12))
    opinion = 3.4 + features @ np.array([0.5, -0.4, 0.35, 0.3, 0.2, -0.2, 0.1, 0.0, 0.0, 0.0, 0.0, 0.0])
    return features, np.clip(np.round(opinion + 0.7 * rng.normal(size=ROWS)), 1.0, 5.0)


def _proportions() -> Rows:
    """Between nothing and all; most are small."""
    rng = np.random.default_rng(12)
    features = rng.normal(size=(ROWS, 9)) * np.array([1.0, 1.0, 2.0, 0.5, 1.0, 1.0, 3.0, 1.0, 1.0])
    odds = features @ np.array([0.8, -0.6, 0.25, 0.7, 0.0, 0.3, 0.0, 0.0, -0.2]) - 1.0
    return features, 1.0 / (1.0 + np.exp(-odds - 0.8 * rng.normal(size=ROWS)))


def _nines() -> Rows:
    pixels, digits = _loaded("digits")
    return pixels, _labels(digits == 9)


def _ten_errors() -> Rows:
    """A benign tumour, from the standard errors of ten measurements."""
    measured, benign = _loaded("breast_cancer")
    return measured[:, 10:20], _labels(benign == 1)


def _correlated_columns() -> Rows:
    """Sixteen columns that go together in groups of four; three rows in ten are positive."""
    rng = np.random.default_rng(13)
    features = rng.normal(size=(ROWS, 16)) + np.repeat(rng.normal(size=(ROWS, 4)), 4, axis=1)
    score = features @ np.array([0.6, 0.2, 0, 0, -0.5, 0, 0, 0.2, 0.3, 0, 0, 0, 0, 0, 0, 0.4])
    score += 1.2 * rng.normal(size=ROWS)
    return features, _labels(score > np.quantile(score, 0.7))


def _blood_pressure() -> Rows:
    """From nine other measurements of patients with diabetes."""
    measured, _ = _loaded("diabetes")
    return np.delete(measured, 3, axis=1), measured[:, 3]


def _area_errors() -> Rows:
    """The standard error of a tumour cell's area from the mean of ten measurements: skewed, and surer of small cells."""
    measured, _ = _loaded("breast_cancer")
    return measured[:, :10], measured[:, 13]


def _products_of_columns() -> Rows:
    """Targets that follow columns and, as far as no linear model tells, products of them."""
    rng = np.random.default_rng(14)
    features = rng.uniform(-1.7, 1.7, size=(ROWS, 12))
    linear = features @ np.array([0.9, -0.7, 0.6, 0.5, -0.3, 0.2, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    return features, linear + 0.8 * features[:, 0] * features[:, 3] + 0.5 * rng.normal(size=ROWS)


def _worst_measurements() -> Rows:
    """A benign tumour, from the worst of ten measurements."""
    measured, benign = _loaded("breast_cancer")
    return measured[:, 20:], _labels(benign == 1)


def _ink() -> Rows:
    """Of the lower half of a written digit, from the pixels of the upper half that are not always white."""
    pixels, _ = _loaded("digits")
    upper = pixels[:, :32]
    return upper[:, upper.std(axis=0) > 0.1], pixels[:, 32:].sum(axis=1)


def _seasons() -> Rows:
    """Something that follows the time of year and a trend; errors are larger in winter."""
    rng = np.random.default_rng(15)
    time, others = rng.uniform(0.0, 6.0, size=ROWS), rng.normal(size=(ROWS, 8))
    winter, spring = np.cos(2.0 * np.pi * time), np.sin(2.0 * np.pi * time)
    weights = np.array([0.5, -0.4, 0.3, 0.2, 0.0, 0.0, 0.0, 0.0])
    expected = 0.3 * time - 0.9 * winter + 0.4 * spring + others @ weights
    errors = (0.5 + 0.3 * winter) * rng.normal(size=ROWS)
    return np.column_stack([time, winter, spring, others]), expected + errors


def _fractal_dimension() -> Rows:
    """The mean of a tumour cell's fractal dimension from nine other measurements."""
    measured, _ = _loaded("breast_cancer")
    return measured[:, :9], measured[:, 9]


_MAKERS: dict[str, Callable[[], Rows]] = {
    "diabetes": partial(_loaded, "diabetes"),
    "Friedman": partial(_made, "friedman1", n_samples=4_000, n_features=10, noise=1.0, random_state=0),
    "breast cancer": partial(_odd, "breast_cancer"),
    "digits": partial(_odd, "digits"),
    "Friedman 3": partial(_made, "friedman3", noise=0.1, random_state=1),
    "low rank": partial(
        _made, "regression", n_features=15, n_informative=8, effective_rank=5, noise=1.0, random_state=1
    ),
    "20 columns": partial(_classes, 20, 6, 4, 0.5, 1.0, 1),
    "rare positives": partial(_classes, 12, 6, 4, 0.85, 0.8, 1),
    "Friedman 2": partial(_made, "friedman2", noise=100.0, random_state=2),
    "uncorrelated": partial(_made, "sparse_uncorrelated", n_features=10, random_state=2),
    "high digits": _high_digits,
    "8 columns": partial(_classes, 8, 5, 1, 0.6, 0.7, 2),
    "digit values": partial(_loaded, "digits"),
    "long-tailed errors": _long_tailed_errors,
    "moons": _moons,
    "uncertain classes": partial(_classes, 15, 5, 5, 0.7, 0.5, 3),
    "tumour cells": _tumour_cells,
    "S curve": lambda: _with_chance(_made("s_curve", noise=0.3, random_state=5), 5, 5),
    "blobs": _blobs,
    "threes and eights": partial(_digits, 3, 8),
    "wine": _wine,
    "prices": _prices,
    "four measurements": _four_measurements,
    "one of three classes": _one_of_three_classes,
    "counts": _counts,
    "blood sugar": _blood_sugar,
    "fast progression": _fast_progression,
    "skewed columns": _skewed_columns,
    "body mass": _body_mass,
    "waiting times": _waiting_times,
    "cultivar": _cultivar,
    "yes or no": _yes_or_no,
    "proline": _proline,
    "ratings": _ratings,
    "proportions": _proportions,
    "nines": _nines,
    "ten errors": _ten_errors,
    "correlated columns": _correlated_columns,
    "blood pressure": _blood_pressure,
    "area errors": _area_errors,
    "products of columns": _products_of_columns,
    "fours and nines": partial(_digits, 4, 9),
    "worst measurements": _worst_measurements,
    "25 columns": partial(_classes, 25, 8, 5, 0.5, 0.9, 14),
    "school results": unseen_surveys.school_results,
    "years married": unseen_surveys.years_married,
    "party preference": unseen_surveys.party_preference,
    "affairs": unseen_surveys.affairs,
    "votes": unseen_surveys.votes,
    "journeys": unseen_surveys.journeys,
    "income": unseen_surveys.income,
    "ink": _ink,
    "seasons": _seasons,
    "visits": unseen_surveys.visits,
    "ones and sevens": partial(_digits, 1, 7),
    "12 columns": partial(_classes, 12, 7, 2, 0.55, 0.8, 16),
    "schooling": unseen_surveys.schooling,
    "fractal dimension": _fractal_dimension,
    "left or right": unseen_surveys.left_or_right,
    "occupation": unseen_surveys.occupation,
    "twos and threes": partial(_digits, 2, 3),
    "16 columns": partial(_classes, 16, 6, 3, 0.45, 0.85, 17),
}
