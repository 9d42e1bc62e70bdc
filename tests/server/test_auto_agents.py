"""Which agents contradict the trusted rows: ranks, evidence ridge, and the weights they give."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from comt.agent import Agent, ArrayRows
from comt.federation import LocalFederation
from comt.preparation import Preparation
from comt.server.auto.agents import ask_moments, moments_of, weigh_agents
from comt.server.auto.evidence import KEPT, Evidence
from comt.server.auto.moments import PENALTIES, Moments, total
from comt.server.auto.ranks import _mean_rank, bayes_bound, combine, mean_rank_p, stratified_p
from teaching import moments

D = 4


def federation(wrong, *, m=20, n=300, seed=0, labels=False, names=None):
    """Five agents; those named in ``wrong`` negate all their targets. Every agent holds some of the trusted rows."""
    rng = np.random.default_rng(seed)
    model = np.array([1.0, -1.0, 0.5, 2.0])
    agents = []
    for k in range(5):
        features = rng.normal(size=(n + m // 5, D))
        targets = features @ model + 0.5 * rng.normal(size=len(features))
        if labels:
            targets = np.sign(targets)
        sign = -1.0 if k in wrong else 1.0
        rows = ArrayRows(features[:n], sign * targets[:n], features[n:], targets[n:])
        agents.append(Agent((names or "abcde")[k], rows))
    return LocalFederation(agents, threads=1)


def agent_weights(asked, preparation):
    answer = ask_moments(asked, preparation)
    per_agent = moments_of(answer["moments"], answer["rows"])
    fits = np.stack([part.ridge() for part in per_agent])
    return weigh_agents(asked, preparation, per_agent, fits, float(answer["trusted_rows"].sum()))


@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("wrong", [set(), {1}, {0, 2, 3}])
def test_agents_that_contradict_lose_their_weight(wrong, labels):
    found = agent_weights(federation(wrong, labels=labels, m=40), Preparation.identity(D))
    assert set(found.doubted) == {"abcde"[k] for k in wrong}
    right = [k for k in range(5) if k not in wrong]
    assert found.weights[right].max() == 1.0
    assert (found.weights[right] > 0.1).all()
    assert (found.weights[sorted(wrong)] < 0.02).all()
    for k in wrong:
        assert "abcde"[k] + " (p = " in found.sentence()
    if not wrong:
        assert "No agent" in found.sentence()


def test_optimism_is_how_much_worse_a_fit_meets_other_rows():
    """Thirty rows and as many others, a thousand times; the penalty is negligible."""
    rng = np.random.default_rng(1)
    model = 10.0 * rng.normal(size=8)
    own = other = told = 0.0
    for _ in range(1000):
        features = rng.normal(size=(2, 30, 8))
        targets = features @ model + rng.normal(size=(2, 30))
        rows, others = (moments(x, y) for x, y in zip(features, targets, strict=True))
        theta = rows.ridge()
        own, other = own + rows.squared_error(theta), other + others.squared_error(theta)
        told += rows.optimism / 1000
    assert told == pytest.approx(30 / (30 - 8), rel=0.01)
    assert np.sqrt(other / own) == pytest.approx(told, rel=0.03)
    assert Moments(np.zeros((9, 9)), 0.0).optimism == 1.0


def test_agents_of_few_rows_are_not_doubted_because_their_fits_meet_these_too_well():
    """Sixteen right rows of twelve columns at each agent: p-values below a tenth are no rule."""
    below = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        features = rng.normal(size=(5, 20, 12))
        targets = features.sum(axis=2) + rng.normal(size=(5, 20))
        agents = [
            Agent(str(k), ArrayRows(x[:16], y[:16], x[16:], y[16:]))
            for k, (x, y) in enumerate(zip(features, targets, strict=True))
        ]
        below.append(agent_weights(LocalFederation(agents, threads=1), Preparation.identity(12)).p_values < 0.1)
    assert np.mean(below) < 0.3  # .78 if errors of its own rows are taken as they are


def test_the_order_of_agents_does_not_matter():
    one = agent_weights(federation({1}), Preparation.identity(D))
    other = agent_weights(federation({1}, names="edcba"), Preparation.identity(D))
    np.testing.assert_allclose(one.weights, other.weights[::-1], rtol=1e-12)


def test_two_exchanges_and_none_of_ranks_without_trusted_rows():
    some = federation({1})
    agent_weights(some, Preparation.identity(D))
    assert some.rounds == 2
    none = federation({1}, m=0)
    found = agent_weights(none, Preparation.identity(D))
    assert none.rounds == 1
    np.testing.assert_array_equal(found.weights, 1.0)
    assert found.doubted == ()


def test_an_agent_without_rows_neither_speaks_nor_is_doubted():
    rng = np.random.default_rng(1)
    features = rng.normal(size=(200, D))
    targets = features.sum(axis=1)
    agents = [
        Agent("empty", ArrayRows(np.empty((0, D)), np.empty(0))),
        Agent("wrong", ArrayRows(features, -targets - 0.1 * rng.normal(size=200), features[:30] + 0.1, targets[:30])),
    ]
    found = agent_weights(LocalFederation(agents, threads=1), Preparation.identity(D))
    assert found.p_values[0] == 1.0
    np.testing.assert_array_equal(found.weights, 1.0)  # the only one that speaks is the best there is


def test_ranks_of_like_rows_are_uniform_and_of_shifted_rows_are_not():
    rng = np.random.default_rng(2)
    edges = np.linspace(-3, 3, 61)
    buggy = np.histogram(rng.normal(size=20_000), edges)[0].astype(float)
    p = [mean_rank_p(buggy, np.histogram(rng.normal(size=25), edges)[0].astype(float)) for _ in range(800)]
    assert stats.kstest(p, "uniform").pvalue > 1e-3
    shifted = np.histogram(rng.normal(1.0, size=25), edges)[0].astype(float)
    assert mean_rank_p(buggy, shifted) < 1e-3
    # one stratum is the same test
    assert stratified_p(buggy[None], shifted[None]) == pytest.approx(float(mean_rank_p(buggy, shifted)))


def test_moments_of_a_mean_rank_are_those_over_all_samples():
    """Every way to draw three of nine rows, tied as they are."""
    values = np.array([0, 0, 0, 0, 1, 1, 2, 5, 5])
    counts = np.bincount(values, minlength=6).astype(float)
    ranks = stats.rankdata(values) / 9 - 0.5 / 9 - 0.5
    means = np.array([ranks[list(sample)].mean() for sample in combinations(range(9), 3)])
    trusted = np.bincount(values[[0, 4, 8]], minlength=6).astype(float)
    away, variance, third = _mean_rank(counts - trusted, trusted)
    assert away == pytest.approx(ranks[[0, 4, 8]].mean())
    assert variance == pytest.approx((means**2).mean())
    assert third == pytest.approx((means**3).mean())


@pytest.mark.parametrize("other", [0.001, 0.01, 0.1])
def test_a_column_that_is_nearly_always_one_value_refutes_nothing(other):
    rng = np.random.default_rng(4)
    columns = np.where(rng.random((4000, 1006)) < other, rng.integers(1, 20, size=(4000, 1006)), 0)
    buggy, trusted = (
        np.stack([np.bincount(column, minlength=20) for column in part]).astype(float)
        for part in (columns[:, :1000], columns[:, 1000:])
    )
    p = mean_rank_p(buggy, trusted)
    assert (p < 0.01).mean() < 0.02
    assert p.min() > 1e-4


def test_combining_and_bounding_p_values():
    assert combine(np.array([0.03])) == pytest.approx(0.03)
    assert combine(np.array([])) == 1.0
    assert combine(np.array([1e-6, 0.9, 0.9])) < 1e-5
    assert bayes_bound(0.5) == 1.0
    assert bayes_bound(0.05) == pytest.approx(0.4072, abs=1e-4)
    assert 0.0 <= bayes_bound(0.0) < 1e-200


def test_the_ridge_of_largest_evidence_by_direct_evaluation():
    rng = np.random.default_rng(3)
    features = rng.normal(size=(40, D))
    targets = features @ np.array([1.0, 0.0, 0.0, 0.2]) + rng.normal(size=40)
    joint = np.column_stack([features, targets])
    moments = total([Moments(part.T @ part, len(part)) for part in (joint[:15], joint[15:])])

    def log_evidence(penalty):  # marginal likelihood with the noise's variance integrated out, up to a constant
        covariance = np.eye(40) + features @ features.T / penalty
        return -0.5 * np.linalg.slogdet(covariance)[1] - 20 * np.log(targets @ np.linalg.solve(covariance, targets))

    best = max(PENALTIES, key=log_evidence)
    expected = np.linalg.solve(features.T @ features + best * np.eye(D), features.T @ targets)
    np.testing.assert_allclose(moments.ridge(), expected, rtol=1e-8)
    assert moments.squared_error(expected) == pytest.approx(float(((targets - features @ expected) ** 2).sum()))
    np.testing.assert_allclose(moments.squared_errors(expected[None]), [moments.squared_error(expected)])
    np.testing.assert_allclose(moments.scaled(3.0).ridge(np.array([3.0])), moments.ridge(np.array([1.0])))


def test_a_fit_told_to_keep_its_parameters_keeps_them_if_rows_are_enough():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(60, D))
    targets = features @ np.array([0.3, 0.0, 0.0, 0.1]) + 2.0 * rng.normal(size=60)  # hardly anything to find
    joint = np.column_stack([features, targets])
    gram = features.T @ features
    moments = Moments(joint.T @ joint, 60.0)

    def parameters(penalty):
        return np.trace(np.linalg.solve(gram + penalty * np.eye(D), gram))

    allowed = [penalty for penalty in PENALTIES if parameters(penalty) >= 0.7 * parameters(PENALTIES[0])]
    strongest = np.linalg.solve(gram + allowed[-1] * np.eye(D), features.T @ targets)
    assert np.linalg.norm(moments.ridge()) < 0.8 * np.linalg.norm(strongest)  # its evidence would shrink it further
    np.testing.assert_allclose(moments.ridge(kept=0.7), strongest, rtol=1e-8)
    few = joint[: 4 * D]
    few_moments = Moments(few.T @ few, float(len(few)))
    np.testing.assert_allclose(few_moments.ridge(kept=0.7), few_moments.ridge())


def test_errors_that_make_targets_too_large_take_the_floor_away():
    rng = np.random.default_rng(1)
    features = np.column_stack([rng.normal(size=(200, D)), np.ones(200)])
    targets = rng.normal(size=200)
    joint, right = np.column_stack([features, targets]), np.column_stack([features, targets])[:10]
    kept = []
    for larger in (1.0, 6.0):
        unverified = joint * np.append(np.ones(D + 1), larger)
        believed = Moments(unverified.T @ unverified, 200.0)
        known = Evidence(Preparation.identity(D, 1.0), believed, [Moments(right.T @ right, 10.0)], larger**2)
        kept.append(known.kept)
    assert kept[0] == KEPT
    assert kept[1] < 0.2 * KEPT


def test_noise_that_few_trusted_rows_show_leaves_a_fit_all_its_parameters():
    rng = np.random.default_rng(2)
    kept = []
    for noise, rows in ((0.0, 12), (2.0, 12), (2.0, 30)):  # thirty rows need no such help
        right = rng.normal(size=(rows, D))
        features = rng.normal(size=(400, D)) + noise * rng.normal(size=(400, D))
        believed, trusted = (np.column_stack([x, np.ones(len(x)), rng.normal(size=len(x))]) for x in (features, right))
        moments = [Moments(joint.T @ joint, float(len(joint))) for joint in (believed, trusted)]
        kept.append(Evidence(Preparation.identity(D, 1.0), moments[0], moments[1:], 1.0).kept)
    assert kept == pytest.approx([KEPT, 1.0, 0.0], abs=0.02)
