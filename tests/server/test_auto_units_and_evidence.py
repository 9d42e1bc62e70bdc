"""Factors that put all targets right, and how trusted rows are fitted together with believed ones."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_t

from comt.preparation import Preparation
from comt.server.auto.camps import Camps
from comt.server.auto.choice import Line, largest_first
from comt.server.auto.drawn_rows import DrawnRows, normal_rows
from comt.server.auto.evidence import MAY_COST, Evidence
from comt.server.auto.exchangeability import Compared
from comt.server.auto.other_units import AGREE, ERROR_ROWS, FACTORS, TOO_LARGE, Bearable, bearable_odds, other_units
from comt.server.auto.part_multiplied import Multiplied
from comt.server.auto.plain_fit import plain_log_odds
from teaching import moments

RIGHT = np.array([1.0, -2.0, 0.5])


def evidence(n=500, m=8, factor=1.0, noise=1.0, seed=0):
    """Unverified targets are ``factor`` times what they should be."""
    rng = np.random.default_rng(seed)
    X, T = rng.normal(size=(n, 3)), rng.normal(size=(m, 3))
    y, t = (rows @ RIGHT + noise * rng.normal(size=len(rows)) for rows in (X, T))
    folds = [moments(T[k::2], t[k::2]) for k in range(2)]
    believed = moments(X, factor * y)
    return Evidence(Preparation.identity(3), believed, folds, believed.target_sq / n), T, t


def odds(known, factor):
    prior = FACTORS[factor]
    if isinstance(prior, Bearable):
        return bearable_odds(factor, prior, normal_rows(known.explained, known.trusted.rows))
    return prior


def units(known, parts=(), averaged_error=np.inf, common=0.0, by_ranks=np.inf, drawn=None, camps=None):
    return other_units(known, parts, averaged_error, Compared(1.0, {}, 1.0, common, by_ranks), drawn, camps)


def test_the_odds_of_a_factor_are_those_of_students_t():
    known, T, t = evidence(factor=3.0)
    found = units(known)

    def likelihood(factor):
        errors = t - T @ (factor * known.plain)
        size = min(known.usual_error * min(1.0, factor**2), (errors**2).mean())
        return multivariate_t.logpdf(errors, shape=size * np.eye(len(t)), df=ERROR_ROWS)

    exact = [likelihood(factor) - likelihood(1.0) + np.log(odds(known, factor)) for factor in FACTORS]
    np.testing.assert_allclose(found.log_odds, exact, rtol=1e-9)


def test_where_many_targets_are_one_value_sizes_say_no_more_than_ranks():
    known, *_ = evidence(factor=3.0)
    free = units(known, by_ranks=1.5).log_odds
    held = units(known, by_ranks=1.5, common=0.3).log_odds
    np.testing.assert_allclose(held, np.minimum(free, np.log([odds(known, factor) for factor in FACTORS]) + 1.5))


def test_parts_are_weighed_by_the_rows_that_belong_to_them():
    """Errors far out make the larger part likely only if rows belong to it; the smaller one has also sizes to speak for it."""
    known, *_ = evidence(factor=1.0 / 3.0)
    weighed = []
    for belong in (-100.0, 40.0):
        parts = [
            Multiplied("smaller", known.plain / 3.0, known.usual_error / 9.0, 0.5, larger=False, belong=belong),
            Multiplied("larger", 3.0 * known.plain, known.usual_error * 9.0, 0.5, larger=True, belong=belong),
        ]
        weighed.append(units(known, parts).log_odds[-2:])
    np.testing.assert_allclose(weighed[1][1] - weighed[0][1], 140.0)
    assert 0.0 < weighed[1][0] - weighed[0][0] < 140.0


def test_a_larger_unit_needs_ranks_that_agree_and_a_smaller_one_does_not():
    known, *_ = evidence(factor=1.0 / 3.0)
    free, held = (units(known, by_ranks=ranks).log_odds for ranks in (np.inf, 0.5))
    priors = np.log([odds(known, factor) for factor in FACTORS])
    larger = np.array([factor > 1.0 for factor in FACTORS])
    assert (free - priors)[larger].max() > 0.5 + AGREE
    np.testing.assert_allclose(held[larger], np.minimum(free, priors + 0.5 + AGREE)[larger])
    np.testing.assert_allclose(held[~larger], free[~larger])


def test_a_fit_too_large_is_thought_of_as_often_as_drawn_rows_can_bear():
    """Sets that never look so make it as likely as may be; sets that look so by chance leave the odds of normal rows."""
    known, *_ = evidence(factor=3.0)
    rng = np.random.default_rng(0)
    errors = known.usual_error * rng.chisquare(8, size=2000)
    predicted = 8.0 * known.variance * np.ones(2000)
    too_large = np.array([prior is TOO_LARGE for prior in FACTORS.values()])
    smaller = np.array([factor < 1.0 for factor in FACTORS])
    plainly = units(known).log_odds
    for along, gained in ((0.0 * errors, True), (-0.9 * predicted, False)):
        drawn = DrawnRows(8.0, known.variance, known.usual_error, errors, along, predicted)
        said = units(known, drawn=drawn).log_odds
        np.testing.assert_allclose(said[smaller & ~too_large], plainly[smaller & ~too_large])
        assert ((said > plainly + 0.5)[too_large] == gained).all()
        assert (said >= plainly)[too_large].all()


def test_a_larger_unit_has_no_larger_odds_than_drawn_rows_can_bear():
    """Sets with a row far out ask for predictions three times as large; where they occur by chance that says little."""
    known, *_ = evidence(factor=1.0 / 3.0)
    rng = np.random.default_rng(0)
    predicted = 8.0 * known.explained * known.variance * np.ones(2000)
    larger = np.array([factor > 1.0 for factor in FACTORS])
    for often, allowed in ((0.0, True), (0.2, False)):
        along = np.where(rng.random(2000) < often, 2.0, 0.0) * predicted
        errors = known.usual_error * rng.chisquare(8, size=2000) + along**2 / predicted
        drawn = DrawnRows(8.0, known.variance, known.usual_error, errors, along, predicted)
        change = (units(known, drawn=drawn).log_odds - units(known).log_odds)[larger]
        assert (change.min() > -0.1) if allowed else (change[:2] < -1.0).all()


def test_the_smaller_camp_comes_first_with_its_own_odds():
    known, *_ = evidence(factor=-1.0)
    camps = Camps(np.array([False, True]), -1.0, np.zeros(3), 0.5)
    found, alone = units(known, camps=camps), units(known)
    assert found.names[0] == alone.names[0] == "unverified rows, all targets negated"
    assert found.log_odds[0] - np.log(0.5) == pytest.approx(alone.log_odds[0] - np.log(odds(known, -1.0)))
    # undecided camps look like a fit too large
    assert not any("divided by 2" in name for name in found.names)


@pytest.mark.parametrize(
    ("factor", "explained", "rows"), [(0.5, 0.5, 24), (0.5, 0.6, 6), (0.5, 0.85, 8), (-1.0, 0.2, 5), (-1.0, 0.3, 12)]
)
def test_factors_are_thought_of_as_often_as_right_rows_can_bear(factor, explained, rows):
    """Written out: right rows are drawn, and the model changed as far as they happen to ask for it."""
    prior = FACTORS[factor]
    found = bearable_odds(factor, prior, normal_rows(explained, rows))
    assert prior.least - 1e-9 < found < prior.most + 1e-9
    rng = np.random.default_rng(1)
    predicted = np.sqrt(explained) * rng.normal(size=(20_000, rows))
    errors = np.sqrt(1.0 - explained) * rng.normal(size=(20_000, rows))

    def likelihood(errors, usual):
        size = np.minimum(usual, (errors**2).mean(axis=1))
        kernel = -0.5 * (ERROR_ROWS + rows) * np.log1p((errors**2).sum(axis=1) / (ERROR_ROWS * size))
        return kernel - 0.5 * rows * np.log(size)

    changed = errors + (1.0 - factor) * predicted
    ahead = likelihood(changed, factor**2 * (1 - explained)) - likelihood(errors, 1 - explained)
    share = found * np.exp(ahead) / (1.0 + found * np.exp(ahead))
    cost = explained * (((1.0 - factor) * share) ** 2).mean()
    assert cost < 1.3 * prior.may_cost
    if prior.least + 1e-9 < found < prior.most - 1e-9:
        assert cost > 0.7 * prior.may_cost


@pytest.mark.parametrize(
    ("factor", "name"),
    [
        (-1.0, "unverified rows, all targets negated"),
        (10.0, "unverified rows, all targets divided by 10"),
        (0.01, "unverified rows, all targets times 100"),
    ],
)
def test_the_factor_that_puts_targets_right_is_found(factor, name):
    known, *_ = evidence(factor=factor)
    found = units(known)
    best = int(np.argmax(found.log_odds))
    assert found.names[best] == name
    assert found.log_odds[best] > 3.0
    np.testing.assert_allclose(found.theta[best], RIGHT, atol=0.4)


def test_errors_that_only_unverified_rows_have_do_not_speak_for_a_smaller_unit():
    """A tenth of the targets far out: trusted rows have smaller errors because they are right, not in another unit."""
    rng = np.random.default_rng(7)
    X, T = rng.normal(size=(500, 3)), rng.normal(size=(20, 3))
    y, t = X @ RIGHT + rng.normal(size=500), T @ RIGHT + rng.normal(size=20)
    y[:50] += 20.0 * rng.choice([-1.0, 1.0], size=50)
    believed = moments(X, y)
    known = Evidence(Preparation.identity(3), believed, [moments(T[k::2], t[k::2]) for k in range(2)], 40.0)
    assert known.usual_error > 30.0
    assert units(known).log_odds.max() < 0.0


def test_no_factor_where_targets_are_right_or_where_another_model_predicts_better():
    known, *_ = evidence(m=20)
    assert np.exp(units(known).log_odds).sum() < 0.01
    doubled, *_ = evidence(m=20, factor=2.0)
    believed, doubted = (units(doubled, averaged_error=error).log_odds.max() for error in (np.inf, 1.0))
    assert believed > 5.0
    assert doubted < believed - 10.0


def test_rows_that_a_model_of_two_signs_calls_negated_are_not_rare_rows_that_it_leaves_unexplained():
    """A third negated: the right model explains less of the unverified rows than the plain fit, but for their signs."""
    rng = np.random.default_rng(3)
    X, T = rng.normal(size=(3000, 3)), rng.normal(size=(24, 3))
    y, t = (rows @ RIGHT + 0.5 * rng.normal(size=len(rows)) for rows in (X, T))
    y[:1000] *= -1.0
    believed = moments(X, y)
    known = Evidence(Preparation.identity(3), believed, [moments(T[k::2], t[k::2]) for k in range(2)], float(y.var()))
    error = known.trusted.squared_error(RIGHT)
    kept, refuted = (
        plain_log_odds(known, Compared(1.0, {}, 1.0, 0.0, 0.0), 1.0, RIGHT, error, share) for share in (0.0, 1.0)
    )
    assert known.explained_by(RIGHT) == 0.0
    assert kept > 1.0
    assert refuted < -10.0


@pytest.mark.parametrize(("n", "m"), [(2000, 20), (5000, 100), (300, 200)])
def test_trusted_rows_count_as_often_as_right_rows_can_bear(n, m):
    known, *_ = evidence(n=n, m=m)
    weight = known.trusted_weight
    added = weight**2 * m / (n + weight * m) ** 2 * 3 * (1.0 - known.explained)
    if weight > 1.0 and weight * m < n:
        assert added == pytest.approx(MAY_COST)
    else:
        assert weight == pytest.approx(max(1.0, min(weight, n / m)))
    assert 1.0 <= weight <= max(1.0, n / m)


def test_counting_them_costs_no_more_than_that_where_nothing_is_wrong():
    lost = []
    for seed in range(200):
        known, *_ = evidence(n=1000, m=30, seed=seed)
        plain, together = known.plain - RIGHT, known.together - RIGHT
        lost.append((together @ together - plain @ plain) / known.variance)
    assert -0.001 < np.mean(lost) < 1.2 * MAY_COST


def test_candidates_of_one_name_are_added_up():
    told = largest_first([Line("a", 0.2, 1.0), Line("b", 0.5, 3.0), Line("a", 0.6, 2.0), Line("c", 1e-6, 0.0)])
    assert [line.candidate for line in told] == ["a", "b"]
    assert told[0].share == pytest.approx(0.8)
    assert told[0].loss == pytest.approx(1.75)
