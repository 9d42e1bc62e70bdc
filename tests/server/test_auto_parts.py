"""The parts of the automatic choice against independent computations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import logsumexp
from scipy.stats import multivariate_t
from sklearn.linear_model import LogisticRegression, RidgeCV

from comt import CoMTRegressor
from comt.agent import Agent, ArrayRows
from comt.bench.unseen_tables import table
from comt.datasets import federate
from comt.datasets.corruptions import GaussianNoise
from comt.federation import LocalFederation
from comt.preparation import CAP, Preparation, compress
from comt.queries import RankCounts, RobustMoments, rank_edges
from comt.server.auto.agents import ask_moments
from comt.server.auto.centres import Centre, noise_centres
from comt.server.auto.correction import (
    BY_CHANCE,
    NARROWEST,
    PRECISE,
    PULLS,
    PULLS_OF_PREDICTIONS,
    SMALLER,
    correct,
    evidence_share,
)
from comt.server.auto.flips import flipped
from comt.server.auto.labels import NARROWEST as NARROWEST_OF_LABELS
from comt.server.auto.labels import PENALTIES, BuggyLabels, Together
from comt.server.auto.laplace import Hypothesis, weigh
from comt.server.auto.trimming import quantiles, trimmed_fits
from teaching import moments


def rows(n=400, d=3, m=40, seed=0, classify=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + m, d))
    y = X @ np.arange(1.0, d + 1) + 0.5 * rng.normal(size=n + m)
    if classify:
        y = np.where(y > 0, 1.0, -1.0)
    return X[:n], y[:n], X[n:], y[n:]


def federation(X, y, Xt, yt, agents=3):
    parts = np.arange(len(y)) % agents, np.arange(len(yt)) % agents
    return LocalFederation(
        [
            Agent(f"a{k}", ArrayRows(X[parts[0] == k], y[parts[0] == k], Xt[parts[1] == k], yt[parts[1] == k]))
            for k in range(agents)
        ]
    )


def test_moments_are_what_the_rows_say():
    X, y, Xt, yt = rows()
    answer = ask_moments(federation(X, y, Xt, yt), Preparation.identity(3, 10.0), n_folds=4, whole=True)
    joint = np.column_stack([X, np.full(len(y), 10.0), y])
    np.testing.assert_allclose(answer["moments"].sum(axis=0), joint.T @ joint)
    trusted = np.column_stack([Xt, np.full(len(yt), 10.0), yt])
    np.testing.assert_allclose(answer["trusted"].sum(axis=0), trusted.T @ trusted)
    assert answer["trusted_rows"].sum() == 40
    assert (answer["columns"].sum(axis=(0, 2)) == 400).all()
    np.testing.assert_allclose(answer["whole_rows"], answer["rows"])


def test_compression_is_monotone_continuous_and_capped():
    z = np.linspace(-200, 200, 20001)
    squeezed = compress(z)
    assert (np.diff(squeezed) >= 0).all()
    assert np.abs(np.diff(squeezed)).max() <= np.diff(z).max() + 1e-12
    assert np.abs(squeezed).max() == CAP
    np.testing.assert_array_equal(squeezed[np.abs(z) <= 3], z[np.abs(z) <= 3])


def test_rows_left_out_weigh_the_more_the_more_trusted_rows_there_are_per_column():
    few, some, many = (evidence_share(rows, 10) for rows in (5, 20, 100))
    assert few < some
    assert many < some
    assert evidence_share(50, 10) == pytest.approx(0.5 * (some + many))


def test_many_trusted_rows_find_what_noise_hides_in_columns_that_nearly_repeat_each_other():
    """Radius, perimeter and area of cells: models of noisy ones are wrong along directions in which right ones hardly vary."""
    lost = []
    for seed in range(720, 732):
        data = federate(table("tumour cells"), corruption=GaussianNoise(1.2, 0.0), trusted=96, test=0.4, seed=seed)
        X, y, agents, trusted = data.pooled()
        model = CoMTRegressor().fit(X, y, agents=agents, trusted=trusted)
        alone = RidgeCV(np.logspace(-3, 2, 20)).fit(X[trusted], y[trusted])
        scores = [each.score(data.test_features, data.test_targets) for each in (alone, model)]
        lost.append(scores[0] - scores[1])
    assert np.mean(lost) < 0.005


def test_corrections_are_ridge_fits_around_the_centre_and_their_evidence_is_students_t():
    X, y, *_ = rows(n=12)
    behind = np.random.default_rng(1).normal(size=(30, 3))
    centre = np.array([0.5, 1.0, -1.0])
    folds = [moments(X[:6], y[:6]), moments(X[6:], y[6:])]
    found = correct([Centre("c", "noise", centre)], folds, 0.7, behind.T @ behind)
    spread = X.T @ X / 12 + NARROWEST * np.trace(X.T @ X) / 36 * np.eye(3)
    firmness = [
        *(pull * np.eye(3) for pull in PULLS),
        *(pull * spread for pull in PULLS_OF_PREDICTIONS),  # four trusted rows per column are enough for these
        behind.T @ behind,
    ]
    for index, firm in enumerate(firmness):
        wanted = centre + np.linalg.solve(X.T @ X + firm, X.T @ (y - X @ centre))
        np.testing.assert_allclose(found.theta[0, index], wanted, rtol=1e-6)
    # right but for chance: the rows behind the centre and the trusted ones, fitted together
    together = np.linalg.lstsq(np.vstack([behind, X]), np.append(behind @ centre, y), rcond=None)[0]
    np.testing.assert_allclose(found.theta[0, -1], together, rtol=1e-6)
    held_out = 0.0
    for left, used in ((slice(0, 6), slice(6, 12)), (slice(6, 12), slice(0, 6))):
        at = centre + np.linalg.solve(X[used].T @ X[used] + PULLS[4] * np.eye(3), X[used].T @ (y - X @ centre)[used])
        held_out += ((y - X @ at)[left] ** 2).sum()
    assert found.held_out[0, 4] == pytest.approx(held_out)
    # δ ~ N(0, σ²/firmness), σ² ~ inverse gamma with 2 degrees of freedom around .7 or far less: targets are a mixture of
    # Student-t ones
    sizes = 0.7 * np.array(SMALLER)
    by_validation = logsumexp(
        np.log(PRECISE)[:, None]
        + 0.5 * np.log(sizes)[:, None]
        - 6.0 * np.log(sizes[:, None] + found.held_out[0][None]),
        axis=0,
    )
    tried = len(firmness) - 1
    prior = np.log(np.append(np.full(tried, (1.0 - BY_CHANCE) / tried), BY_CHANCE))
    evidence = (found.log_weight[0] - prior - 0.2 * by_validation) / 0.8
    exact = [
        logsumexp(
            [
                multivariate_t.logpdf(y, X @ centre, size * (np.eye(12) + X @ np.linalg.solve(firm, X.T)), df=2.0)
                for size in sizes
            ],
            b=PRECISE,
        )
        for firm in firmness
    ]
    np.testing.assert_allclose(np.diff(evidence), np.diff(exact), atol=1e-7)


def test_no_row_is_behind_a_model_that_is_zero():
    X, y, *_ = rows(n=12)
    found = correct([Centre("z", "zero", np.zeros(3))], [moments(X, y)], 0.7, 5.0 * np.eye(3))
    assert not found.theta[0, -1].any()
    assert found.held_out[0, -1] == pytest.approx(float(y @ y))


def test_noise_centres_undo_attenuation():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200_000, 3))
    theta = np.array([1.0, -2.0, 0.5])
    y = X @ theta
    noisy = X + np.sqrt(0.5) * rng.normal(size=X.shape)
    centres = noise_centres(Preparation.identity(3), moments(noisy, y), moments(X[:2000], y[:2000]), "noise")
    estimated = [c for c in centres if "trusted rows show" in c.name]
    assert len(estimated) == 2
    for centre in estimated:
        np.testing.assert_allclose(centre.theta, theta, atol=0.15)


def test_trimming_finds_the_majority_and_quantiles_are_quantiles():
    X, y, Xt, yt = rows(n=900)
    wrong = np.arange(900) < 270
    y[wrong] = -y[wrong] + 20
    parts = federation(X, y, Xt, yt)
    preparation = Preparation.identity(3, 10.0)
    fit = trimmed_fits(parts, preparation, np.zeros((1, 4)), np.array([0.6]), 1)[0]
    np.testing.assert_allclose(fit[:3], [1.0, 2.0, 3.0], atol=0.15)
    values = np.abs(np.random.default_rng(0).normal(size=5000))
    counts = np.bincount(np.searchsorted(rank_edges(), values, side="right"), minlength=320).astype(float)
    for share in (0.2, 0.5, 0.9):
        assert quantiles(counts[None], share)[0] == pytest.approx(np.quantile(values, share), rel=0.02)


def test_robust_moments_and_ranks_against_plain_numpy():
    X, y, Xt, yt = rows()
    parts, preparation = federation(X, y, Xt, yt), Preparation.identity(3)
    theta = np.array([[1.0, 2.0, 2.5]])
    common = {"loss_name": "squared", "preparation": preparation, "theta": theta}
    answer = parts.sum(RobustMoments(**common, limit=np.array([1.0]), smooth=np.array([True])))
    error = y - X @ theta[0]
    weight = np.where(np.abs(error) < 1, (1 - error**2) ** 2, 0.0)
    joint = np.column_stack([X, y])
    np.testing.assert_allclose(answer["moments"][0], (joint * weight[:, None]).T @ joint)
    ranks = parts.sum(
        RankCounts(
            **common,
            agents=parts.agents,
            towards=theta,
            weights=np.array([[1.0, 0.0, 2.0]]),
            fold=np.array([-1]),
            n_folds=1,
        )
    )
    assert ranks["trusted"][0].sum() == 5 * 40
    per_agent = np.bincount(np.arange(400) % 3)
    assert ranks["buggy"][0, 0].sum() == per_agent[0] + 2 * per_agent[2]


def test_label_fits_agree_with_scikit_learn_and_flip_rates_are_found():
    X, y, Xt, yt = rows(n=6000, classify=True)
    rng = np.random.default_rng(5)
    wrong = np.where(y > 0, rng.random(6000) < 0.3, rng.random(6000) < 0.1)
    given = np.where(wrong, -y, y)
    parts, preparation = federation(X, given, Xt, yt), Preparation.identity(3, 10.0)
    (fit,) = BuggyLabels(parts, preparation, 1).fits(np.ones((1, 3)))
    best = LogisticRegression(C=1e3).fit(X, given)
    cosine = fit.theta[:3] @ best.coef_[0] / np.linalg.norm(fit.theta[:3]) / np.linalg.norm(best.coef_)
    assert cosine > 0.999
    assert fit.certificate < 1e-6
    (turned,) = BuggyLabels(federation(X, -given, Xt, yt), preparation, 1).fits(-np.ones((1, 3)))
    np.testing.assert_allclose(turned.theta, fit.theta, atol=1e-6)
    found, _ = flipped(BuggyLabels(parts, preparation, 1), fit.theta, np.full((3, 2), 0.2), fit.theta, 0.2, [])
    np.testing.assert_allclose(found.rates, np.tile([0.3, 0.1], (3, 1)), atol=0.08)


def nearly_repeating_columns(seed, n=600):
    """Labels that follow what two columns differ in, and the columns' covariance."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 1)) + rng.normal(size=(n, 3)) * np.array([0.15, 0.15, 1.0])
    y = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-5.0 * (X[:, 0] - X[:, 1]))), 1.0, -1.0)
    return X, y, np.cov(X.T, bias=True)


def test_penalties_of_scores_are_those_of_whitened_features():
    X, y, spread = nearly_repeating_columns(3)
    parts = federation(X, y, X[:5], y[:5])
    _, found = BuggyLabels(parts, Preparation.identity(3), 1).fits(np.ones((1, 3)), spread)
    shape = spread / np.trace(spread) * 3.0 + NARROWEST_OF_LABELS * np.eye(3)
    values, vectors = np.linalg.eigh(shape)
    whitened = X @ vectors / np.sqrt(values)
    fits, evidence = [], []
    for penalty in PENALTIES:
        theta = LogisticRegression(C=1.0 / penalty, fit_intercept=False, tol=1e-10).fit(whitened, y).coef_[0]
        scores = whitened @ theta
        weights = 0.25 / np.cosh(0.5 * scores) ** 2
        bend = (whitened * weights[:, None]).T @ whitened
        lost = np.logaddexp(0.0, -y * scores).sum() + 0.5 * penalty * theta @ theta
        evidence.append(-lost - 0.5 * np.linalg.slogdet(np.eye(3) + bend / penalty)[1])
        fits.append(vectors / np.sqrt(values) @ theta)
    np.testing.assert_allclose(found.theta, fits[int(np.argmax(evidence))], rtol=1e-4)
    assert found.evidence == pytest.approx(max(evidence), abs=1e-3)


def test_labels_that_follow_what_columns_differ_in_speak_for_penalties_of_scores():
    preparation = Preparation.identity(3)
    X, y, spread = nearly_repeating_columns(4, n=200)
    fits = BuggyLabels(federation(X, y, X[:5], y[:5]), preparation, 1).fits(np.ones((1, 3)), spread)
    both = Together(*fits, rows_per_column=60.0)
    assert both.likelier is both.scores
    assert both.chance_of_other < 0.5
    # labels that follow all columns alike do not
    alike = np.where(X.sum(axis=1) + np.random.default_rng(5).normal(size=200) > 0, 1.0, -1.0)
    fits = BuggyLabels(federation(X, alike, X[:5], alike[:5]), preparation, 1).fits(np.ones((1, 3)), spread)
    assert Together(*fits, rows_per_column=60.0).likelier is fits[0]


def test_the_evidence_of_a_hypothesis_is_its_integral():
    X, y, Xt, yt = rows(m=15, classify=True)
    parts, preparation = federation(X, y, Xt, yt), Preparation.identity(3)
    mean, direction = np.array([0.3, 0.1, 0.2]), np.array([0.2, 0.5, 0.4])
    hypothesis = Hypothesis("h", mean, 0.3 * direction[:, None], 0.0)
    _, log_weight = weigh(parts, preparation, [hypothesis], np.eye(3))

    def integrand(u):
        scores = Xt @ (mean + 0.3 * u * direction)
        return np.exp(-np.logaddexp(0.0, -yt * scores).sum() - 0.5 * u * u) / np.sqrt(2 * np.pi)

    assert log_weight[0] == pytest.approx(np.log(quad(integrand, -8, 8)[0]), abs=0.02)
