"""The measurements of masks and noise run, on sizes that take no time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from comt.agent import Agent, ArrayRows, Policy
from comt.agent.noise import multiplier_for
from comt.bench import masking, privacy_cost
from comt.noise import Noise, spreads


def test_masks_are_measured(tmp_path):
    (path,) = masking.run(tmp_path, rounds=2, sizes=[(3, 3)])
    *_, line = path.read_text().splitlines()
    assert line.startswith("| 3 | 3 |")
    assert float(line.split("|")[-2]) < 1e-12


def test_noise_costs_accuracy_and_few_rounds_cost_less(monkeypatch):
    monkeypatch.setattr(privacy_cost, "PAPER_ROUNDS", 150)
    features, targets, *test = privacy_cost.draw(0)
    exact = privacy_cost.fit(features, targets, 15, None)
    few, many = (
        privacy_cost.fit(features, targets, rounds, Noise(multiplier_for(1.0, 1e-6, rounds), 4.0, 1.0, max_epsilon=2.0))
        for rounds in (15, 150)
    )
    cosine = few @ exact / np.linalg.norm(few) / np.linalg.norm(exact)
    assert cosine > 0.95
    assert privacy_cost.accuracy(exact, *test) > 0.75
    assert privacy_cost.accuracy(few, *test) > privacy_cost.accuracy(many, *test) - 0.01


def test_the_simulation_has_the_agents_sums_and_the_agents_noise():
    """Without noise the same model as by agents; with it, errors of the same size."""
    features, targets, *_ = privacy_cost.draw(0)
    r = np.linspace(-0.3, 0.3, privacy_cost.N_FEATURES)
    noise = Noise(5.0, privacy_cost.CLIP, 1.0, max_epsilon=1e30)
    query = privacy_cost.question(r, "full")
    exact = Agent("a", ArrayRows(features, targets)).answer(query, 1).arrays
    alpha = 1.0 / (1.0 + np.exp(targets * (features @ r)))
    np.testing.assert_allclose(exact["alpha_x"][0], (alpha * targets) @ features)
    clipped = (
        Agent("a", ArrayRows(features, targets), Policy(noise=replace(noise, multiplier=1e-9))).answer(query, 1).arrays
    )
    noisy = Agent("a", ArrayRows(features, targets), Policy(noise=noise))
    errors = np.array([noisy.answer(query, 1).arrays["alpha_x"][0] - clipped["alpha_x"][0] for _ in range(40)])
    assert errors.std() == pytest.approx(spreads(query, noise, 1)["alpha_x"].item(), rel=0.15)


def test_both_methods_are_tuned_alike_on_other_seeds(monkeypatch):
    """The same number of values for both, none of the seeds that are reported."""
    asked = []

    def score(seed, correlation, rounds, epsilon, caution):
        asked.append((seed, rounds, caution))
        return 1.0 if caution == (8.0 if rounds == 15 else 32.0) else 0.5

    monkeypatch.setattr(privacy_cost, "scored", score)
    monkeypatch.setattr(privacy_cost, "EPSILONS", (1.0,))
    lines = list(privacy_cost.experiment(seeds=2))
    tuning = [(rounds, caution) for seed, rounds, caution in asked if seed >= privacy_cost.FIRST_TUNING_SEED]
    assert len(tuning) == 2 * len(privacy_cost.CORRELATIONS) * privacy_cost.TUNING_SEEDS * len(privacy_cost.CAUTION)
    assert {line[5] for line in lines if line[2] == 15} == {8.0}
    assert {line[5] for line in lines if line[2] == 1500} == {32.0}
    assert {line[0] for line in lines} == {0, 1}


def test_the_figure_is_drawn_from_the_table(tmp_path, monkeypatch):
    monkeypatch.setattr(privacy_cost, "EPSILONS", (1.0, 10.0))
    lines = ["seed,correlation,rounds,epsilon,multiplier,caution,accuracy", "0,0,0,inf,0,0,0.8", "0,0.8,0,inf,0,0,0.8"]
    lines += [f"0,{c},{rounds},{epsilon},1,1,0.7" for c in (0, 0.8) for rounds in (15, 1500) for epsilon in (1, 10)]
    (tmp_path / privacy_cost.TABLE).write_text("\n".join(lines) + "\n")
    assert privacy_cost.draw_figure(tmp_path).stat().st_size > 10_000
