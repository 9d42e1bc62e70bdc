"""Differential privacy: bounds that hold, noise of the right size, a budget that is kept."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from comt.agent import Agent, ArrayRows, Ledger, Policy
from comt.agent.ledger import read_lines
from comt.agent.noise import Accountant, ClippedPreparation, _normal, multiplier_for
from comt.agent.policy import read_policy
from comt.cli import main
from comt.errors import GateError, InputError
from comt.federation import LocalFederation
from comt.masking.seeds import threshold
from comt.noise import Noise, sensitivities
from comt.preparation import Preparation
from comt.queries import DualSums, Histogram, Spread
from masked_sites import mask_federation
from teaching import is_one_sentence, random_data, split_agents

NOISE = Noise(multiplier=3.0, clip_rows=2.0, clip_targets=1.5, delta=1e-6, max_epsilon=100.0)


def query(loss_name, r, theta, constant=0.0, **kwargs):
    return DualSums(
        loss_name=loss_name, preparation=Preparation.identity(r.shape[1] - bool(constant), constant), r=r, theta=theta,
        lambda_alpha=np.zeros(len(r)), lambda_z=np.full(len(r), np.inf), **kwargs,
    )  # fmt: skip


@given(
    st.sampled_from(["squared", "logistic"]),
    st.sampled_from(["full", "diagonal", "none"]),
    st.sampled_from([0.0, 1.0, 10.0]),
    st.integers(0, 10_000),
)
def test_one_row_moves_no_array_beyond_its_bound(loss_name, curvature, constant, seed):
    """Add one row, of any size, buggy or trusted, to a clipped agent: every array moves by at most its sensitivity."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(4, 3)) * 10.0 ** rng.uniform(-2, 3)
    targets = rng.normal(size=4) * 10.0 ** rng.uniform(-2, 3)
    if loss_name == "logistic":
        targets = np.sign(targets)
    points = rng.normal(size=(2, 2, 3 + bool(constant))) * 10.0 ** rng.uniform(-2, 1)
    question = query(loss_name, *points, constant=constant, curvature=curvature)
    bounds = sensitivities(question, NOISE)

    def sums(n, m):
        source = ArrayRows(rows[:n], targets[:n], rows[2 : 2 + m], targets[2 : 2 + m])
        clipped = ClippedPreparation.of(question.preparation, NOISE)
        agent = Agent("a", source)
        agent.prepared = lambda preparation: type(agent).prepared(agent, clipped)
        return agent.answer(question, 1).arrays

    base = sums(1, 1)
    for more in (sums(2, 1), sums(1, 2)):
        for name, bound in bounds.items():
            moved = (more[name] - base[name]).reshape(2, -1)
            assert (np.linalg.norm(moved, axis=1) <= np.asarray(bound) * (1 + 1e-9) + 1e-12).all(), name


def test_rows_are_clipped():
    clipped = ClippedPreparation.of(Preparation.identity(2, constant=1.0), NOISE)
    assert not clipped.trivial
    prepared = clipped.features(np.array([[3.0, 4.0], [0.3, 0.4]]))
    np.testing.assert_allclose(prepared, [[1.2, 1.6, 1.0], [0.3, 0.4, 1.0]])  # the constant is no row's own
    np.testing.assert_allclose(clipped.targets(np.array([-9.0, 0.5, 9.0])), [-1.5, 0.5, 1.5])


def test_the_noise_is_normal_and_never_the_same():
    draws = _normal((2, 20_000))
    assert stats.kstest(draws.ravel(), "norm").pvalue > 1e-6
    assert not (draws == _normal((2, 20_000))).any()


@pytest.mark.parametrize("masked", [False, True])
def test_the_noise_has_the_agreed_size(masked):
    """Over all sites: the whole noise, or a little more because a site may yet fall silent."""
    data = random_data("logistic", n=60, d=2, m=10, seed=0)
    n_sites = 5 if masked else 1
    agents = split_agents(data, n_sites, policy=Policy(noise=Noise(3.0, 2.0, 1.5, max_epsilon=1e9)))
    federation = mask_federation(agents) if masked else LocalFederation(agents)
    columns = Histogram(n_columns=3)
    noisy = federation.sum(columns)["counts"]
    exact = LocalFederation(split_agents(data, 1)).sum(columns)["counts"]
    spread = (noisy - exact).std()
    wanted = 3.0 * np.sqrt(3.0) * (np.sqrt(5 / threshold(5)) if masked else 1.0)
    assert spread == pytest.approx(wanted, rel=0.1)


def test_matrices_stay_symmetric():
    data = random_data("squared", n=60, d=3, m=10, seed=0)
    (agent,) = split_agents(data, 1, policy=Policy(noise=NOISE))
    arrays = agent.answer(query("squared", np.zeros((2, 3)), np.zeros((2, 3))), 1).arrays
    for name in ("weight_xx", "trusted_bend"):
        np.testing.assert_array_equal(arrays[name], arrays[name].transpose(0, 2, 1))


def test_the_budget_is_kept(tmp_path, capsys):
    data = random_data("squared", n=60, d=2, m=10, seed=0)
    noise = Noise(5.0, 2.0, 1.5, delta=1e-5, max_epsilon=2.0)
    allowed = sum(Accountant(noise).epsilon(rounds) <= 2.0 for rounds in range(1, 50))
    ledger = Ledger(tmp_path / "ledger.jsonl")
    agent = Agent("a", split_agents(data, 1)[0].rows, Policy(noise=noise), ledger)
    for number in range(allowed):
        agent.answer(Histogram(n_columns=2), number)
    with pytest.raises(GateError, match="privacy budget") as caught:
        agent.answer(Histogram(n_columns=2), 99)
    assert is_one_sentence(caught.value)
    assert agent.accountant.rounds == allowed
    spent = [line["epsilon"] for line in read_lines(tmp_path / "ledger.jsonl") if line["event"] == "noise"]
    assert spent == sorted(spent)
    assert spent[-1] == agent.accountant.epsilon() <= 2.0
    assert main(["ledger", str(tmp_path)]) == 0
    assert "was spent in all" in capsys.readouterr().out


def test_the_accountant_agrees_with_the_closed_form():
    """n Gaussian mechanisms are one of multiplier σ/√n, whose exact ε is known (Balle and Wang 2018)."""
    noise = Noise(10.0, 1.0, 1.0, delta=1e-6)
    found = Accountant(noise).epsilon(15)
    mu = np.sqrt(15) / 10.0

    def delta_at(epsilon):
        return stats.norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu)

    assert delta_at(found) <= 1e-6  # never less than what was really spent
    assert delta_at(0.85 * found) > 1e-6  # and not much more
    assert multiplier_for(found, 1e-6, 15) == pytest.approx(10.0, rel=1e-3)


def test_more_rounds_need_more_noise():
    assert multiplier_for(1.0, 1e-6, 1500) == pytest.approx(10 * multiplier_for(1.0, 1e-6, 15), rel=0.01)


def test_questions_without_a_bound_are_refused():
    (agent,) = split_agents(random_data("squared", n=60, d=2, m=10), 1, policy=Policy(noise=NOISE))
    with pytest.raises(GateError, match="no bound"):
        agent.answer(Spread(center=np.zeros(3)), 1)
    question = query("squared", np.zeros((1, 2)), np.zeros((1, 2)))
    question.lambda_z[0] = 3.0
    with pytest.raises(GateError, match="lambda_z"):
        agent.answer(question, 1)
    assert len(agent.ledger) == 0


def test_noise_in_the_policy_file(tmp_path):
    path = tmp_path / "site.toml"
    path.write_text("[policy.noise]\nmultiplier = 4\nclip_rows = 5.0\nclip_targets = 3.0\nmax_epsilon = 2\n")
    assert read_policy(path).noise == Noise(4.0, 5.0, 3.0, 1e-6, 2.0)
    for wrong in ("multiplier = 4", "multiplier = 0\nclip_rows = 1\nclip_targets = 1", "sigma = 4"):
        path.write_text(f"[policy.noise]\n{wrong}\n")
        with pytest.raises(InputError) as caught:
            read_policy(path)
        assert is_one_sentence(caught.value)
