"""Targets multiplied in part: a mixture found from the rows, and few trusted rows tell which part is right; capped cells."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

import teaching
from comt import CoMTClassifier, CoMTRegressor
from comt.agent import Agent, ArrayRows
from comt.datasets import noisy_federation
from comt.datasets.corruptions import ScaledTargets, WrongAgents
from comt.federation import LocalFederation
from comt.preparation import Preparation
from comt.queries import RANK_BINS, MomentsByAgent, MultipliedSums, rank_edges
from comt.server.auto.capped import mislead
from comt.server.auto.either_sign import either_sign
from comt.server.auto.error_shapes import by_prediction
from comt.server.auto.mixtures import find_mixtures
from comt.server.auto.moments import Moments
from comt.server.auto.part_multiplied import FAR_OUT, LARGER, belong, part_multiplied
from comt.server.auto.ranks import mean_rank_p, tail_p

D = 4
PREPARATION = Preparation.identity(D, 10.0)
NO_ROWS = Moments(np.zeros((D + 2, D + 2)), 0.0)


def mixture(share, n=1500, noise=0.4, seed=0):
    rng = np.random.default_rng(seed)
    features, theta = rng.normal(size=(n, D)), np.array([1.0, -0.5, 0.8, 0.0])
    targets = features @ theta + 0.3 + noise * rng.normal(size=n)
    targets[rng.random(n) > share] *= -1.0
    return features, targets, np.append(theta, 0.03)  # the constant column holds 10


def federation(features, targets, agents=3, trusted=None):
    trusted = (features[:0], targets[:0]) if trusted is None else trusted
    parts = zip(*(np.array_split(part, agents) for part in (features, targets, *trusted)), strict=True)
    return LocalFederation([Agent(f"a{k}", ArrayRows(*rows)) for k, rows in enumerate(parts)])


def moments(features, targets):
    return teaching.moments(np.column_stack([features, np.full(len(targets), 10.0)]), targets)


def parts_of(features, targets, agents, starts):
    """Both readings of targets of which part may be in another unit; eight rows of the right part are trusted."""
    found = found_in(features, targets, agents, starts)
    right, right_targets, _ = mixture(1.0, n=8, seed=1)
    with federation(features, targets, agents, (right, right_targets)).open() as run:
        return part_multiplied(run, PREPARATION, found, common=float((targets == 0.0).mean()))


def found_in(features, targets, agents=3, starts=(), rivals=()):
    with federation(features, targets, agents).open() as run:
        return find_mixtures(run, PREPARATION, moments(features, targets), starts, rivals, 1)


@pytest.mark.parametrize("center", [0.0, 4.0])
@pytest.mark.parametrize("factor", [-1.0, 3.0])
def test_the_sums_are_those_of_the_mixture_written_out(center, factor):
    """Whatever the targets are centred by, they are multiplied about raw zero."""
    features, targets, theta = mixture(0.7, n=60)
    models, noise, share = np.stack([theta, -0.5 * theta]), np.array([0.2, 1.5]), np.array([0.7, 0.4])
    how = replace(PREPARATION, target_center=center)
    query = MultipliedSums(
        loss_name="squared", preparation=how, theta=models, factor=np.full(2, factor), noise=noise, share=share
    )
    with federation(features, targets).open() as run:
        totals = run.sum(query)
    wide = np.column_stack([features, np.full(60, 10.0)])
    for b in range(2):
        scores = wide @ models[b]
        keeps = share[b] * norm.pdf(targets, scores, np.sqrt(noise[b]))
        turns = (1 - share[b]) * norm.pdf(targets, factor * scores, abs(factor) * np.sqrt(noise[b]))
        kept = keeps / (keeps + turns)
        expected = {
            "value": np.log(keeps + turns).sum(),
            "kept": kept.sum(),
            "kept_square": kept @ targets**2,
            "multiplied_square": (1 - kept) @ targets**2,
        }
        for name, value in expected.items():
            assert totals[name][b] == pytest.approx(value, rel=1e-9), name
        np.testing.assert_allclose(totals["kept_cross"][b], (kept * targets) @ wide, atol=1e-9)
        np.testing.assert_allclose(totals["multiplied_cross"][b], ((1 - kept) * targets) @ wide, atol=1e-9)


@pytest.mark.parametrize("share", [0.5, 0.7, 0.3])
def test_the_model_is_found_up_to_its_sign_whoever_holds_the_rows(share):
    features, targets, theta = mixture(share)
    found = [either_sign(PREPARATION, found_in(features, targets, agents), [], NO_ROWS) for agents in (1, 3)]
    first, second = found[0]
    np.testing.assert_allclose(first.theta, -second.theta)
    sign = np.sign(first.theta[0])
    np.testing.assert_allclose(sign * first.theta, theta, atol=0.06)
    if share != 0.5:
        assert sign == (1.0 if share > 0.5 else -1.0)  # the first one is that of most rows
        assert first.weight == pytest.approx(2 * max(share, 1 - share), abs=0.1)
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one.theta, other.theta, atol=1e-8)


def test_trusted_rows_with_larger_errors_than_a_sign_says_speak_against_it():
    features, targets, _ = mixture(0.6)
    right, right_targets, _ = mixture(1.0, n=6, seed=1)
    first, second = either_sign(PREPARATION, found_in(features, targets), [], moments(right, right_targets))
    assert first.weight > 1.0
    assert second.weight < 0.1 * 0.8  # four rows in ten have this sign


def test_rows_of_one_sign_are_not_called_a_mixture():
    features, targets, _ = mixture(1.0)
    assert either_sign(PREPARATION, found_in(features, targets), [], NO_ROWS) == []


def test_a_plain_fit_that_finds_something_else_speaks_against_two_signs():
    """Sizes of the targets follow one column whatever their sign, but their mean follows another."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(1500, D))
    either = np.sign(rng.normal(size=1500)) * features[:, 0]
    first, _ = either_sign(PREPARATION, found_in(features, either + 0.1 * rng.normal(size=1500)), [], NO_ROWS)
    assert first.weight > 0.9
    first, second = either_sign(PREPARATION, found_in(features, either + 0.4 * features[:, 1]), [], NO_ROWS)
    assert max(first.weight, second.weight) < 1e-6


def test_targets_that_keep_off_the_middle_are_not_called_a_mixture():
    """A scale from 0 to 9 about its mean has few values near zero: two signs explain it, and so does its shape."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(2000, D))
    targets = np.sign(rng.normal(size=2000)) + 0.3 * rng.normal(size=2000)
    mixtures = found_in(features, targets)
    normal = -0.5 * 2000 * (np.log(2 * np.pi * targets.var()) + 1.0)
    assert mixtures.negated.value > normal + 100.0
    assert either_sign(PREPARATION, mixtures, [], NO_ROWS) == []


@pytest.mark.parametrize(("factor", "share"), [(3.0, 0.5), (10.0, 0.8), (0.2, 0.7)])
def test_a_part_in_another_unit_is_found_with_its_factor(factor, share):
    features, targets, theta = mixture(1.0)
    multiplied = np.random.default_rng(3).random(len(targets)) > share
    targets = np.where(multiplied, factor * targets, targets)
    plain = moments(features, targets).ridge()
    one, three = (parts_of(features, targets, k, [plain]) for k in (1, 3))
    small, large = one
    right = small if factor > 1 else large
    np.testing.assert_allclose(right.theta, theta, atol=0.08)
    # the larger reading is the factor times the smaller one
    ratio = large.theta[0] / small.theta[0]
    assert ratio == pytest.approx(max(factor, 1 / factor), rel=0.05)
    assert small.share + large.share == pytest.approx(1.0)
    assert right.share == pytest.approx(share, abs=0.05)
    for first, second in zip(one, three, strict=True):
        np.testing.assert_allclose(first.theta, second.theta, atol=1e-8)
    most = -8.0 * np.log(right.share)  # what eight rows of this part can say
    assert 0.0 < right.belong <= most
    assert (large if right is small else small).belong < 0.0


def test_how_far_rows_belong_to_a_part_is_a_likelihood_ratio():
    """Against the densities written out, where rows of both parts are so many that their histogram is one."""
    rng = np.random.default_rng(0)
    share, width, other = 0.7, 0.5, 6.0
    every = np.where(rng.random(2_000_000) < share, width, other) * rng.normal(size=2_000_000)
    verified = np.array([0.1, -0.4, 0.9, 0.03, -0.6])
    counts = (np.bincount(np.searchsorted(rank_edges(), part), minlength=RANK_BINS) for part in (every, verified))
    of_part = (1 - FAR_OUT) * norm.pdf(verified, 0, width) + FAR_OUT * norm.pdf(verified, 0, LARGER * width)
    of_both = share * norm.pdf(verified, 0, width) + (1 - share) * norm.pdf(verified, 0, other)
    expected = np.log(of_part / np.maximum(of_both, share * of_part)).sum()
    assert belong(*counts, error=width**2, share=share) == pytest.approx(expected, abs=0.15)


def test_one_row_far_off_speaks_against_a_part():
    edges = np.concatenate([[-np.inf], rank_edges(), [np.inf]])
    near, far = np.diff(norm.cdf(edges)), np.diff(norm.cdf(edges, 50.0, 1.0))
    every = 7000 * near + 3000 * far
    # a row of the part says −log .7 for it, but that a few right rows are further out than normal ones
    assert 0.8 * -np.log(0.7) < belong(every, near, error=1.0, share=0.7) <= -np.log(0.7)
    assert belong(every, 5 * near + far, error=1.0, share=0.7) < -3.0


@pytest.mark.parametrize("zeros", [0.3, 0.7])
def test_zeros_are_no_part_in_another_unit(zeros):
    features, targets, _ = mixture(1.0)
    targets = np.maximum(targets - np.quantile(targets, zeros), 0.0)
    plain = moments(features, targets).ridge()
    assert parts_of(features, targets, 3, [plain]) == []


@pytest.mark.parametrize("errors", ["normal", "long-tailed", "skewed", "growing", "bent"])
def test_rows_in_one_unit_are_not_called_a_mixture_of_two(errors):
    features, targets, _ = mixture(1.0)
    rng = np.random.default_rng(5)
    if errors == "long-tailed":
        targets = targets + 0.4 * rng.standard_t(2.5, size=len(targets))
    elif errors == "skewed":
        targets = targets + rng.exponential(2.0, size=len(targets))
    elif errors == "growing":  # as those of prices
        targets = np.exp(0.6 * targets)
        targets -= targets.mean()
    elif errors == "bent":
        targets = np.minimum(features @ [2.0, -1.0, 1.0, 0.0] + 0.3 * targets, 0.3)
        targets -= targets.mean()
    plain = moments(features, targets).ridge()
    assert parts_of(features, targets, 3, [plain]) == []


def test_what_errors_of_their_own_in_every_range_explain_is_a_sum_of_normal_densities():
    rng = np.random.default_rng(0)
    errors = [rng.normal(mean, width, size=3000) for mean, width in ((-1.0, 0.3), (0.2, 1.0), (0.5, 2.0))]
    counts = np.stack([np.bincount(np.searchsorted(rank_edges(), part), minlength=RANK_BINS) for part in errors])
    expected = sum(norm.logpdf(part, part.mean(), part.std()).sum() for part in errors)
    assert by_prediction(counts[None].astype(float))[0] == pytest.approx(expected - 6.0, rel=2e-3)


def test_six_trusted_rows_are_enough_where_half_of_the_targets_are_three_times_too_large():
    scores = []
    for seed in range(5):
        data = noisy_federation(
            "regression", corruption=ScaledTargets(fraction=0.5, factor=3.0), n_rows=1500, n_trusted=6, seed=seed
        )
        X, y, agents, trusted = data.pooled()
        model = CoMTRegressor().fit(X, y, agents=agents, trusted=trusted)
        scores.append(model.score(data.test_features, data.test_targets))
    assert np.median(scores) > 0.8


def test_five_trusted_rows_are_enough_where_half_of_the_targets_are_negated():
    scores = []
    for seed in range(5):
        data = noisy_federation("regression", corruption="negated_targets", n_rows=1500, n_trusted=5, seed=seed)
        X, y, agents, trusted = data.pooled()
        model = CoMTRegressor().fit(X, y, agents=agents, trusted=trusted)
        scores.append(model.score(data.test_features, data.test_targets))
    assert np.median(scores) > 0.85  # trusted rows alone: about .3; clean rows: .92


@pytest.mark.parametrize("corruption", ["missing_codes", "unit_error"])
def test_labels_are_learnt_from_rows_without_capped_cells_where_those_mislead(corruption):
    from sklearn.metrics import roc_auc_score

    def auc(data):
        X, y, agents, trusted = data.pooled()
        model = CoMTClassifier().fit(X, y, agents=agents, trusted=trusted)
        return roc_auc_score(data.test_targets, model.decision_function(data.test_features))

    made = [
        noisy_federation("classification", corruption=corruption, n_rows=2000, n_trusted=20, n_test=4000, seed=seed)
        for seed in range(1, 7)
    ]
    assert np.mean([auc(data) - auc(data.clean()) for data in made]) > -0.01


def test_rare_rows_with_targets_of_their_own_are_believed():
    rng = np.random.default_rng(0)
    features, theta = rng.normal(size=(2000, D)), np.array([1.0, -0.5, 0.8, 0.0])
    wrong, rare = features.copy(), features.copy()
    chosen = rng.random(2000) < 0.1
    wrong[chosen, 0] = -999.0
    rare[chosen, 0] = 1000.0
    targets = features @ theta + 0.3 * rng.normal(size=2000)
    own = np.where(chosen, 9.0, targets)  # what the column says shows in the target
    compressed = Preparation(PREPARATION.center, PREPARATION.scale, constant=10.0).tamed()
    for cells, said, expected in ((wrong, targets, True), (rare, own, False), (features, targets, False)):
        with federation(cells, said).open() as run:
            answer = run.sum(MomentsByAgent(loss_name="squared", preparation=compressed, agents=run.agents, n_folds=1))
        everyone = Moments(answer["moments"].sum(axis=0), float(answer["rows"].sum()))
        whole = Moments(answer["whole"].sum(axis=0), float(answer["whole_rows"].sum()))
        assert mislead(compressed, everyone, whole) is expected


def test_a_minority_far_out_shows_in_the_tail_and_not_in_the_mean_rank():
    rng = np.random.default_rng(0)
    edges = rank_edges()

    def counts(values):
        return np.bincount(np.searchsorted(edges, values, side="right"), minlength=RANK_BINS)[None].astype(float)

    right, wrong = np.abs(rng.normal(size=900)), 8.0 + np.abs(rng.normal(size=100))
    trusted = np.abs(rng.normal(size=96))
    buggy = counts(np.append(right, wrong))
    assert tail_p(buggy, counts(trusted))[0] < 1e-3
    assert mean_rank_p(buggy, counts(trusted))[0] > 1e-3
    like = np.mean([tail_p(buggy, counts(rng.choice(np.append(right, wrong), 96)))[0] < 0.05 for _ in range(400)])
    assert like < 0.08  # it keeps its level


def test_all_targets_negated_is_found_by_two_dozen_trusted_rows():
    data = noisy_federation("regression", corruption=WrongAgents(agents=5), n_rows=1500, n_trusted=24, seed=2)
    X, y, agents, trusted = data.pooled()
    assert CoMTRegressor().fit(X, y, agents=agents, trusted=trusted).score(data.test_features, data.test_targets) > 0.88
