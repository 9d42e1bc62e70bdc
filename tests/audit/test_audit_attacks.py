"""Every known attack works without protection and fails with the defaults, each with a number."""

from __future__ import annotations

import json

import numpy as np
import pytest

from comt.agent import Policy
from comt.audit import attacks, laboratory
from comt.audit.recorded import findings
from comt.cli import main
from comt.federation import LocalFederation
from comt.federation.transcript import Transcript
from comt.problem import TeachingProblem
from comt.server.training import Settings, train


@pytest.fixture(scope="module")
def outcomes():
    return {outcome.attack: outcome for outcome in laboratory.run(seed=3)}


@pytest.mark.parametrize(
    "attack",
    [
        "trusted gradient from replies",
        "Gram matrix by chosen directions",
        "nested subset sums",
        "differencing of rounds",
        "row space of trusted rows",
        "blind source separation",
        "membership in the training rows",
    ],
)
def test_succeeds_without_protection_and_fails_with_defaults(outcomes, attack):
    outcome = outcomes[attack]
    assert outcome.off > 0.85
    assert outcome.on < outcome.chance + 0.15


def test_refusals_are_told(outcomes):
    assert "subtraction" in outcomes["nested subset sums"].refusal
    assert "have left or joined" in outcomes["differencing of rounds"].refusal
    assert "trusted" in outcomes["row space of trusted rows"].refusal
    assert outcomes["Gram matrix by chosen directions"].refusal == ""  # here it is the masks alone that protect


def test_the_printed_reply_is_the_trusted_gradient():
    """ρ(v − θ_k)/(2λ) at the reply θ_k is X̃ᵀ(X̃θ_k − ỹ), by the optimality of θ_k."""
    rng = np.random.default_rng(0)
    x, y, v = rng.normal(size=(3, 4)), rng.normal(size=3), rng.normal(size=4)
    rho, weight = 7.0, 2.0
    theta = np.linalg.solve(rho * np.eye(4) + 2 * weight * x.T @ x, rho * v + 2 * weight * x.T @ y)
    np.testing.assert_allclose(attacks.trusted_gradient(v, theta, rho, weight), x.T @ (x @ theta - y))


def test_membership_is_an_area():
    assert attacks.membership(np.array([1.0, 2.0]), np.array([3.0, 4.0])) == 1.0
    assert attacks.membership(np.array([3.0, 4.0]), np.array([1.0, 2.0])) == 0.0
    assert attacks.membership(np.arange(0.0, 9, 2), np.arange(1.0, 8, 2)) == pytest.approx(0.5)


def training(transcript, protected):
    parts = laboratory.holders(n_trusted=6)
    settings = Settings(TeachingProblem("squared", 1.0, 1.0, intercept=True), standardize=False)
    if protected:
        train(laboratory.masked(laboratory.agents(parts, Policy.protective()), transcript), settings)
    else:
        train(LocalFederation(laboratory.agents(parts), transcript=transcript), settings)


def test_recorded_trainings(tmp_path, capsys):
    """A whole training, recorded: everybody's Gram matrix without masks, nobody's with them."""
    for protected in (False, True):
        folder = tmp_path / str(protected)
        folder.mkdir()
        transcript = Transcript(folder / "transcript.comt")
        training(transcript, protected)
        assert main(["audit", str(folder), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["rounds"] == len(transcript.rounds) > 0
        assert found["masked_rounds"] == (found["rounds"] if protected else 0)
        readable = 0 if protected else 5
        assert found["recorded"]["trusted gradient from replies"]["number"] == readable
        assert found["recorded"]["Gram matrix by chosen directions"]["number"] == readable
        for attack in ("nested subset sums", "differencing of rounds", "row space of trusted rows"):
            assert found["recorded"][attack]["number"] == 0
        assert len(found["laboratory"]) == 7


def test_few_trusted_rows_are_found_in_a_transcript():
    transcript = Transcript()
    parts = laboratory.holders(n_trusted=1)
    LocalFederation(laboratory.agents(parts), transcript=transcript).sum(laboratory._sums(parts, np.zeros(10)))
    found = {finding.attack: finding.number for finding in findings(transcript)}
    assert found["row space of trusted rows"] == 5
    assert found["membership in the training rows"] == 0.5


def test_the_tables_are_readable(tmp_path, capsys):
    transcript = Transcript(tmp_path / "transcript.comt")
    training(transcript, protected=True)
    assert main(["audit", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "masked" in shown
    assert "nested subset sums" in shown


def test_no_transcript(tmp_path, capsys):
    assert main(["audit", str(tmp_path)]) == 2
    assert "holds no transcript.comt; run `comt fit` or `comt train` with --transcript" in capsys.readouterr().err
    assert main(["audit", str(tmp_path / "gone.comt")]) == 2
    assert "cannot be read" in capsys.readouterr().err
