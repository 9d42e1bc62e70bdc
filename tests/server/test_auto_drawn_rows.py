"""Sets of rows drawn from a histogram of the believed ones: what chance makes of as many rows as are trusted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from comt.agent import Agent, ArrayRows
from comt.errors import GateError
from comt.federation import LocalFederation
from comt.preparation import Preparation
from comt.queries import RANK_BINS, ErrorsByPrediction, rank_edges
from comt.server.auto.drawn_rows import MANY, SETS, believed_rows, normal_rows
from comt.server.auto.evidence import Evidence
from teaching import moments

D, CONSTANT = 3, 10.0
PREPARATION = replace(Preparation.identity(D, CONSTANT), target_center=2.0)
RIGHT = np.array([0.5, -0.4, 0.3])


def rows(n, seed=0, *, skewed=True):
    """Prepared targets: counts (raw ones are larger by two), or normal errors."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, D))
    if skewed:
        return features, rng.poisson(np.exp(0.3 + features @ RIGHT)) - 2.0
    return features, features @ RIGHT + rng.normal(size=n)


def wide(features):
    return np.column_stack([features, np.full(len(features), CONSTANT)])


def federation(features, targets, kind=LocalFederation):
    parts = zip(np.array_split(features, 2), np.array_split(targets + 2.0, 2), strict=True)
    return kind([Agent(f"a{k}", ArrayRows(x, y, x[:0], y[:0])) for k, (x, y) in enumerate(parts)])


def known(features, targets, m=8):
    verified, right = rows(m, 99)
    believed, folds = moments(wide(features), targets), [moments(wide(verified), right)]
    return Evidence(PREPARATION, believed, folds, float(np.var(targets)))


def drawn_from(features, targets, m=8):
    with federation(features, targets).open() as run:
        return believed_rows(run, known(features, targets, m), np.ones(2), 1)


def test_errors_are_counted_in_every_range_of_predictions():
    features, targets = rows(400)
    theta = np.append(RIGHT, 0.03)
    models, edges = np.stack([theta, 0.5 * theta]), np.array([[-0.5, 0.1, 0.9], [-0.2, 0.0, 0.3]])
    query = ErrorsByPrediction(
        loss_name="squared",
        preparation=PREPARATION,
        agents=("a0", "a1"),
        theta=models,
        edges=edges,
        weights=np.array([1.0, 0.25]),
    )
    with federation(features, targets).open() as run:
        counts = run.sum(query)["counts"]
    for b in range(2):
        predicted = wide(features) @ models[b]
        ranges = (predicted[:, None] > edges[b]).sum(axis=1)
        bins = np.searchsorted(rank_edges(), targets - predicted, side="right")
        expected = np.zeros((4, RANK_BINS))
        np.add.at(expected, (ranges, bins), np.repeat([1.0, 0.25], 200))
        np.testing.assert_allclose(counts[b], expected)


@pytest.mark.parametrize("skewed", [True, False])
def test_drawn_sets_are_like_sets_of_the_rows_themselves(skewed):
    features, targets = rows(3000, skewed=skewed)
    found = drawn_from(features, targets)
    predicted = wide(features) @ moments(wide(features), targets).ridge()
    errors, from_zero = targets - predicted, predicted + 2.0
    sets = np.random.default_rng(1).integers(3000, size=(SETS, 8))
    for sums, values in (
        (found.errors, errors**2),
        (found.along, errors * from_zero),
        (found.predicted, from_zero**2),
        (found.under(0.5), (targets + 2.0 - 0.5 * from_zero) ** 2),
    ):
        exact = values[sets].sum(axis=1)
        np.testing.assert_allclose(
            np.quantile(sums, (0.1, 0.5, 0.9)), np.quantile(exact, (0.1, 0.5, 0.9)), rtol=0.1, atol=0.6
        )
    assert found.usual == pytest.approx((errors**2).mean())


def test_normal_rows_have_the_variances_that_they_should():
    found = normal_rows(0.7, 12)
    for sums, mean in (
        (found.errors, 12 * 0.3),
        (found.along, 0.0),
        (found.predicted, 12 * 0.7),
        (found.under(0.0), 12.0),
    ):
        assert sums.mean() == pytest.approx(mean, abs=0.1)


def test_fewer_sets_of_more_rows_and_none_of_many_or_where_owners_refuse():
    features, targets = rows(500)
    assert len(drawn_from(features, targets, m=400).errors) == 1000
    assert drawn_from(features, targets, m=MANY + 1) is None

    class Refuses(LocalFederation):
        def sum(self, query):
            raise GateError("it is refused")

    with federation(features, targets, Refuses).open() as run:
        assert believed_rows(run, known(features, targets), np.ones(2), 1) is None
