from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest
from simulated_agents import angle, simulate

from comt.baselines.base import Baseline, LinearModel
from comt.baselines.buggy_only import BuggyOnly
from comt.baselines.centered_clipping import CenteredClipping
from comt.baselines.cocoa import CoCoA
from comt.baselines.confident_learning import ConfidentLearning
from comt.baselines.coordinate_median import CoordinateMedian
from comt.baselines.fedavg import FedAvg
from comt.baselines.fedprox import FedProx
from comt.baselines.fltrust import FLTrust
from comt.baselines.geometric_median import GeometricMedian
from comt.baselines.glc import GLC
from comt.baselines.krum import Krum, MultiKrum
from comt.baselines.learning_to_reweight import LearningToReweight
from comt.baselines.local_only import LocalOnly
from comt.baselines.trimmed_mean import TrimmedMean
from comt.baselines.trusted_only import TrustedOnly

BASELINES = [
    BuggyOnly,
    CenteredClipping,
    CoCoA,
    ConfidentLearning,
    CoordinateMedian,
    FLTrust,
    FedAvg,
    FedProx,
    GLC,
    GeometricMedian,
    Krum,
    LearningToReweight,
    LocalOnly,
    MultiKrum,
    TrimmedMean,
    TrustedOnly,
]
PAIRS = [(baseline, task) for baseline in BASELINES for task in sorted(baseline.tasks)]


@pytest.mark.parametrize(("baseline", "task"), PAIRS)
def test_unequal_agents_one_of_them_without_trusted_rows(baseline, task):
    agents, truth = simulate(task, sizes=(120, 30, 75, 11), trusted=(30, 0, 25, 1))
    first, second = baseline().fit(agents, task), baseline().fit(agents, task)
    assert isinstance(first, LinearModel)
    assert first.coef.shape == (4,)
    assert first.coef.dtype == np.float64
    assert first.predict(agents[0].features).shape == (120,)
    np.testing.assert_array_equal(first.coef, second.coef)
    # these rows have no bugs: every method finds the truth's direction
    assert angle(first.coef, truth) < (10 if task == "regression" else 35)


@pytest.mark.parametrize("n_agents", [1, 2])
@pytest.mark.parametrize(("baseline", "task"), PAIRS)
def test_very_small_federations(baseline, task, n_agents):
    agents, _ = simulate(task, sizes=(40, 20), trusted=(8, 0))
    assert np.isfinite(baseline().fit(agents[:n_agents], task).coef).all()


@pytest.mark.parametrize("baseline", BASELINES)
def test_parameters(baseline):
    method = baseline()
    assert isinstance(method, Baseline)
    assert method.lambda_w == 1.0
    assert method.name
    assert method.sends
    assert pickle.loads(pickle.dumps(method)) == method
    with pytest.raises(dataclasses.FrozenInstanceError):
        method.lambda_w = 2.0


def test_names_are_unique():
    assert len({baseline.name for baseline in BASELINES}) == len(BASELINES)
