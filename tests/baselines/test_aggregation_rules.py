from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize
from scipy.stats import trim_mean

from comt.baselines.centered_clipping import centered_clipping
from comt.baselines.coordinate_median import coordinate_median
from comt.baselines.fedavg import weighted_mean
from comt.baselines.fltrust import fltrust, trust_scores
from comt.baselines.geometric_median import geometric_median
from comt.baselines.krum import krum, krum_scores, largest_n_bad, multi_krum
from comt.baselines.trimmed_mean import trimmed_mean
from comt.errors import InputError

RULES = {
    "mean": lambda g: weighted_mean(g, np.full(len(g), 1 / len(g))),
    "median": coordinate_median,
    "trimmed mean": lambda g: trimmed_mean(g, (len(g) - 1) // 2),
    "krum": lambda g: krum(g, largest_n_bad(len(g))),
    "multi-krum": lambda g: multi_krum(g, largest_n_bad(len(g))),
    "geometric median": geometric_median,
    "centered clipping": lambda g: centered_clipping(g, np.full(g.shape[1], 0.5)),
    "centered clipping, fixed radius": lambda g: centered_clipping(g, np.zeros(g.shape[1]), 1.0, n_clips=500),
    "fltrust": lambda g: fltrust(g, g[0]),
}
# those that see offsets between updates only, so that all updates can be shifted together
SHIFTED = ["mean", "median", "trimmed mean", "krum", "multi-krum", "geometric median"]

updates = arrays(np.float64, (6, 3), elements=st.floats(-50, 50, width=32))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("n_agents", [1, 2, 3, 7])
def test_identical_updates_give_that_update(rule, n_agents):
    update = np.array([0.3, -7.0, 120.0])
    np.testing.assert_allclose(RULES[rule](np.tile(update, (n_agents, 1))), update, rtol=1e-12)


@pytest.mark.parametrize("rule", SHIFTED)
@given(g=updates)
def test_shift_and_scale_pass_through(rule, g):
    moved = RULES[rule](4.0 * g + np.array([8.0, -16.0, 1.0]))
    # a sum of squares ties where rounding decides; then any tied update is right
    if "krum" in rule and len(np.unique(np.round(krum_scores(g, 3), 3))) < 6:
        return
    np.testing.assert_allclose(moved, 4.0 * RULES[rule](g) + np.array([8.0, -16.0, 1.0]), atol=1e-2)


@pytest.mark.parametrize("rule", ["median", "trimmed mean", "geometric median", "mean", "krum", "multi-krum"])
@given(g=updates)
def test_the_aggregate_lies_in_the_box_of_the_updates(rule, g):
    result = RULES[rule](g)
    assert (result >= g.min(axis=0) - 1e-9).all()
    assert (result <= g.max(axis=0) + 1e-9).all()


@pytest.mark.parametrize("rule", [r for r in RULES if r not in ("mean", "fltrust")])
def test_one_wild_update_is_bounded(rule):
    g = np.random.default_rng(0).normal(size=(7, 3))
    g[6] = 1e6
    assert np.linalg.norm(RULES[rule](g)) < 10


@pytest.mark.parametrize(("n_agents", "n_bad"), [(5, 0), (5, 1), (5, 2), (8, 3), (11, 2)])
def test_trimmed_mean_is_scipys(n_agents, n_bad):
    g = np.random.default_rng(n_agents).normal(size=(n_agents, 4))
    # half an agent more, or rounding could cut one less
    share = min((n_bad + 0.5) / n_agents, 0.499)
    np.testing.assert_allclose(trimmed_mean(g, n_bad), trim_mean(g, share, axis=0), rtol=1e-12)


def test_trimmed_to_the_utmost_it_is_the_median():
    g = np.random.default_rng(0).normal(size=(7, 4))
    np.testing.assert_allclose(trimmed_mean(g, 3), coordinate_median(g), rtol=1e-15)
    with pytest.raises(InputError, match="between 0 and 3 for 7 agents"):
        trimmed_mean(g, 4)


def test_krum_counts_the_originals_number_of_neighbours():
    g = np.array([0, 1, 2.5, 2.9, 10, -4, 3.4])[:, None]
    np.testing.assert_array_equal(krum(g, 1), [2.5])
    assert np.argmin(krum_scores(g, 7 - 1 - 2)) == 2
    # one neighbour more, as some libraries count, and another update wins
    assert np.argmin(krum_scores(g, 7 - 1 - 1)) == 1


def test_krum_scores_by_brute_force():
    g = np.random.default_rng(5).normal(size=(6, 3))
    for k, score in enumerate(krum_scores(g, 3)):
        distances = sorted(float(np.sum((g[k] - g[j]) ** 2)) for j in range(6) if j != k)
        assert score == pytest.approx(sum(distances[:3]))


def test_multi_krum_averages_the_best():
    g = np.array([[0.0], [0.1], [0.3], [0.6], [50.0]])
    np.testing.assert_allclose(multi_krum(g, 1), [0.25])
    np.testing.assert_allclose(multi_krum(g, 1, 1), krum(g, 1))
    np.testing.assert_allclose(multi_krum(g, 0, 5), g.mean(axis=0))
    with pytest.raises(InputError, match="n_selected=6"):
        multi_krum(g, 1, 6)
    with pytest.raises(InputError, match="between 0 and 1 for 5 agents"):
        krum(g, 2)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_geometric_median_is_the_minimum(seed, weighted):
    rng = np.random.default_rng(seed)
    g = rng.normal(size=(6, 3))
    g[0] += 30
    shares = rng.dirichlet(np.ones(6)) if weighted else np.full(6, 1 / 6)

    def objective(z):
        return shares @ np.linalg.norm(g - z, axis=1)

    options = {"xatol": 1e-10, "fatol": 1e-14, "maxiter": 5000, "maxfev": 5000}
    starts = [*g, np.median(g, axis=0)]
    best = min((minimize(objective, s, method="Nelder-Mead", options=options) for s in starts), key=lambda r: r.fun)
    found = geometric_median(g, shares)
    assert objective(found) <= best.fun + 1e-9
    np.testing.assert_allclose(found, best.x, atol=1e-4)


def test_geometric_median_leaves_an_update_where_it_starts():
    # the mean is an update, but not the minimum: a plain Weiszfeld step would never leave it
    g = np.array([[0.0, 0.0], [3.0, 0.1], [3.0, -0.1], [3.0, 0.0], [-9.0, 0.0]])
    found = geometric_median(g)
    # on the axis, the pull 2 s/sqrt(s^2 + .01) of the pair, s before it, balances what is left of the others
    np.testing.assert_allclose(found, [3.0 - 0.1 / np.sqrt(3), 0.0], atol=1e-6)


def test_geometric_median_with_a_majority_at_one_point_is_that_point():
    g = np.array([[1.0, 2.0]] * 3 + [[50.0, 0.0], [0.0, -90.0]])
    np.testing.assert_allclose(geometric_median(g), [1.0, 2.0], rtol=1e-12)


def test_centered_clipping_by_hand():
    g = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    np.testing.assert_allclose(centered_clipping(g, np.zeros(2), 1.0), [0.3, 0.4])
    # a wide radius clips nothing
    np.testing.assert_allclose(centered_clipping(g, np.ones(2), 1e6), g.mean(axis=0))
    # median distance 0.5: the long one is cut to (.3, .4)
    np.testing.assert_allclose(centered_clipping(g, np.zeros(2)), [0.2, 0.8 / 3])


def test_fltrust_known_answers():
    g0 = np.array([1.0, 0.0])
    np.testing.assert_allclose(fltrust(np.array([[2.0, 0.0], [0.0, 3.0], [-1.0, 0.0]]), g0), [1.0, 0.0])
    np.testing.assert_allclose(fltrust(np.array([[2.0, 0.0], [1.0, 1.0]]), g0), [0.87867966, 0.29289322], rtol=1e-7)
    np.testing.assert_array_equal(fltrust(np.array([[0.0, 3.0], [-1.0, 0.0]]), g0), [0.0, 0.0])
    np.testing.assert_array_equal(fltrust(np.array([[0.0, 0.0], [1.0, 0.0]]), g0), [1.0, 0.0])
    np.testing.assert_array_equal(fltrust(np.array([[1.0, 0.0]]), np.zeros(2)), [0.0, 0.0])
    np.testing.assert_allclose(trust_scores(np.array([[1.0, 1.0], [-1.0, 1.0]]), g0), [np.sqrt(0.5), 0.0])


@given(g=updates)
def test_fltrust_is_never_longer_than_the_servers_update_and_ignores_boosts(g):
    server = np.array([1.0, -2.0, 0.5])
    result = fltrust(g, server)
    assert np.linalg.norm(result) <= np.linalg.norm(server) * (1 + 1e-9)
    boosted = g.copy()
    boosted[2] *= 64.0
    np.testing.assert_allclose(fltrust(boosted, server), result, atol=1e-9)
