"""Trainings whose sites add noise: a fixed number of rounds, a model near the exact one, and what it cost in all reports."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from sites_in_process import FIXED, SitesInProcess, open_sites, site_files

from comt import CoMTClassifier, CoMTRegressor
from comt.agent import Agent, ArrayRows, Policy
from comt.cli.train import finish
from comt.federation import LocalFederation
from comt.model_file import load
from comt.noise import Noise
from comt.problem import TeachingProblem
from comt.server import noisy
from comt.server.coordinator import Request, coordinate
from comt.server.training import Settings, train
from teaching import is_one_sentence

pytest.importorskip("dp_accounting")
PROBLEM = TeachingProblem("logistic", lambda_w=10.0)
NOISE = {"multiplier": 1.0, "clip_rows": 4.0, "clip_targets": 3.0, "max_epsilon": 50.0}


def trained(folder, paths, task, parameters=FIXED, **policy):
    estimator = CoMTClassifier if task == "classification" else CoMTRegressor
    run = folder / "run"
    run.mkdir()
    transport = SitesInProcess(open_sites(folder, paths, protective=True, **policy))
    coordinate(transport, Request(training="a" * 16, task=task, parameters=estimator(**parameters).get_params()), run)
    return run, json.loads((run / "result.json").read_text())


@pytest.mark.parametrize(("task", "rounds"), [("regression", 1), ("classification", noisy.ROUNDS)])
def test_a_noisy_training_under_masks(tmp_path, capsys, task, rounds):
    models = []
    for name, policy in (("exact", {}), ("noisy", {"noise": NOISE})):
        (tmp_path / name).mkdir()
        paths = site_files(tmp_path / name, 3, task=task, n=6000, trusted=2000)
        run, result = trained(tmp_path / name, paths, task, FIXED | {"lambda_w": 10.0}, **policy)
        assert result["done"], result
        models.append(load(run / "model.json").coef)
    exact, found = models
    assert exact @ found >= 0.98 * np.linalg.norm(exact) * np.linalg.norm(found)

    ledger = (tmp_path / "noisy" / "results" / "site-1" / "ledger.jsonl").read_text().splitlines()
    spent = [json.loads(line) for line in ledger if json.loads(line)["event"] == "noise"]
    events = [json.loads(line) for line in (run / "progress.jsonl").read_text().splitlines()]
    assert [event.get("purpose") for event in events].count("sums at a model") == rounds
    assert result["privacy"] == {"epsilon": spent[-1]["epsilon"], "delta": 1e-6}
    shown = f"ε = {spent[-1]['epsilon']:.3g}"
    finish(result, run, tmp_path / "out", as_json=False)
    assert shown in capsys.readouterr().out
    page = (tmp_path / "out" / "report.html").read_text()
    assert shown in page
    assert "below the dashed line the problem is solved" not in page
    assert shown in (tmp_path / "noisy" / "results" / "site-1" / ("a" * 16) / "report.html").read_text()


def test_what_noise_cannot_cover_is_refused_before_anything_is_spent(tmp_path):
    paths = site_files(tmp_path)
    _, result = trained(tmp_path, paths, "regression", {}, noise=NOISE)
    assert not result["done"]
    assert "teaching='auto'" in result["message"]
    assert is_one_sentence(result["message"])
    assert "noise" not in (tmp_path / "results" / "site-1" / "ledger.jsonl").read_text()


def agents(noises, loss_name="logistic"):
    rng = np.random.default_rng(0)
    made = []
    for name, noise in zip("abc", noises, strict=True):
        x = rng.normal(size=(800, 4))
        y = x @ [1.0, -1.0, 0.5, 0.0] + rng.normal(size=800)
        y = np.sign(y) if loss_name == "logistic" else y
        made.append(Agent(name, ArrayRows(x[:600], y[:600], x[600:], y[600:]), Policy(noise=noise)))
    return LocalFederation(made)


def test_sites_have_to_agree_on_their_noise():
    noise = Noise(4.0, 4.0, 3.0)
    assert agents([noise, replace(noise, max_epsilon=1.0), noise]).noise.copies == 3
    assert agents([None, None, None]).noise is None
    with pytest.raises(Exception, match="the same noise") as caught:
        _ = agents([noise, replace(noise, multiplier=5.0), noise]).noise
    assert is_one_sentence(str(caught.value))


@pytest.mark.parametrize("loss_name", ["squared", "logistic"])
def test_with_hardly_any_noise_the_model_is_the_exact_one(loss_name):
    """Lifting, averaging and a fixed number of rounds move nothing by themselves."""
    settings = Settings(replace(PROBLEM, loss_name=loss_name), standardize=False)
    exact = train(agents([None] * 3, loss_name), settings)
    tiny = Noise(1e-12, 1e3, 1e3, max_epsilon=1e300)
    found = train(agents([tiny] * 3, loss_name), settings)
    np.testing.assert_allclose(found.theta, exact.theta, rtol=1e-4, atol=1e-5)


def test_too_large_models_and_negative_counts_do_no_harm():
    """A hundred times too much noise for so few rows: a model comes out that is no larger than allowed."""
    loud = Noise(500.0, 4.0, 3.0, max_epsilon=1e300)
    found = train(agents([loud] * 3), Settings(PROBLEM))
    assert np.linalg.norm(found.theta) <= noisy.LONGEST
    assert noisy.residual_size(found.solution.sums) >= noisy.SMALLEST
