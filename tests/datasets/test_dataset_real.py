"""The loaders against the numbers known of each data set."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from comt.datasets import federate, load_cpusmall, load_heart_disease, load_ijcnn1


@pytest.fixture(scope="module")
def cpusmall(data_folder):
    return load_cpusmall(data_folder)


@pytest.fixture(scope="module")
def ijcnn1(data_folder):
    return load_ijcnn1(data_folder)


@pytest.fixture(scope="module")
def heart(data_folder):
    return load_heart_disease(data_folder)


def test_cpusmall_is_the_published_table(cpusmall, data_folder):
    assert cpusmall.features.shape == (8192, 12)
    assert (cpusmall.targets == 0).sum() == 283
    assert cpusmall.targets.min() == 0
    assert cpusmall.targets.max() == 99
    assert round(cpusmall.targets.mean()) == 84
    run_queue = cpusmall.features[:, cpusmall.feature_names.index("runqsz")]
    assert (np.median(run_queue), run_queue.max()) == (2, 2823)
    # PMLB publishes the same values with the names of the columns
    named = gzip.decompress((data_folder / "cpusmall" / "227_cpu_small.tsv.gz").read_bytes()).decode()
    header, *lines = named.split("\n")[:101]
    assert tuple(header.split("\t")[:-1]) == cpusmall.feature_names
    values = np.array([[float(cell) for cell in line.split("\t")] for line in lines])
    np.testing.assert_allclose(values[:, :-1], cpusmall.features[:100], rtol=1e-6)


def test_ridge_on_clean_cpusmall(cpusmall):
    scores = []
    for seed in range(5):
        data = federate(cpusmall.standardised(), trusted=0, test=0.4, seed=seed)
        X, y, _, _ = data.pooled()
        model = Ridge(1.0).fit(X, y)
        scores.append(r2_score(data.test_targets, model.predict(data.test_features)))
    assert np.mean(scores) == pytest.approx(0.71, abs=0.02)


def test_noise_on_standardised_cpusmall_costs_what_was_measured(cpusmall):
    """Feature noise of theta 1.5 on columns of unit scale: buggy-only R² between .60 and .65."""
    from comt.datasets.corruptions import GaussianNoise

    scores = []
    for seed in range(5):
        data = federate(cpusmall.standardised(), corruption=GaussianNoise(1.5, 0.0), trusted=0, test=0.4, seed=seed)
        X, y, _, _ = data.pooled()
        scores.append(r2_score(data.test_targets, Ridge(1.0).fit(X, y).predict(data.test_features)))
    assert 0.58 < np.mean(scores) < 0.67


def test_ijcnn1_has_its_own_test_rows(ijcnn1):
    assert ijcnn1.features.shape == (49_990, 22)
    assert ijcnn1.test_features.shape == (91_701, 22)
    assert set(ijcnn1.targets) == {-1.0, 1.0}
    assert (ijcnn1.targets > 0).mean() == pytest.approx(0.097, abs=0.0005)
    assert (ijcnn1.test_targets > 0).mean() == pytest.approx(0.095, abs=0.0005)


def test_logistic_regression_on_clean_ijcnn1(ijcnn1):
    data = federate(ijcnn1, trusted=0)
    X, y, _, _ = data.pooled()
    model = LogisticRegression(max_iter=1000).fit(X, y)
    assert len(y) == 49_990
    assert roc_auc_score(data.test_targets, model.decision_function(data.test_features)) == pytest.approx(
        0.9125, abs=0.0005
    )


def test_heart_disease_is_four_hospitals(heart):
    assert heart.site_names == ("cleveland", "hungarian", "switzerland", "va")
    assert list(np.bincount(heart.sites)) == [303, 294, 123, 200]
    assert heart.feature_names == (*("age", "sex", "cp", "trestbps", "chol", "restecg", "thalach", "exang", "oldpeak"),)
    assert heart.features.shape == (920, 9)
    assert np.isfinite(heart.features).all()
    # known shares of patients with disease
    shares = [(heart.targets[heart.sites == k] > 0).mean() for k in range(4)]
    np.testing.assert_allclose(shares, [139 / 303, 106 / 294, 115 / 123, 149 / 200])


def test_missing_values_become_the_hospitals_own_median(heart):
    age, pressure = heart.features[:, 0], heart.features[:, 3]
    hungarian = heart.sites == 1
    # the third Hungarian patient is 29 years old and has no cholesterol value
    row = np.flatnonzero(hungarian)[2]
    cholesterol = heart.features[:, heart.feature_names.index("chol")]
    assert age[row] == 29
    assert cholesterol[row] == np.median(cholesterol[hungarian])
    va = heart.sites == 3
    median = np.median(pressure[va])
    assert (pressure[va] == median).sum() >= 56  # 56 of 200 are missing
    assert (cholesterol[heart.sites == 2] == 0).all()


def test_hospitals_are_agents(heart):
    data = federate(heart, corruption="label_flips", trusted=40, test=0.3, seed=1)
    assert [a.name for a in data.agents] == list(heart.site_names)
    assert sum(len(a.trusted_targets) for a in data.agents) == 40
    assert len(data.test_targets) == round(0.3 * 920)
    clean = data.clean().pooled()
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(clean.X, clean.y)
    auc = roc_auc_score(data.test_targets, model.decision_function(data.test_features))
    assert auc > 0.8
