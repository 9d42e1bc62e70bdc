"""The curvature of rows that enter and leave, against differences of the gradient of the trimmed objective."""

from __future__ import annotations

import numpy as np
import pytest

from comt.optimize.trimming import boundary_hessian
from comt.problem import TeachingProblem, direct_gradient, direct_hessian
from comt.rows import losses, sums_at
from teaching import LOSSES, random_data


def kept_sums(problem, data, theta, threshold, keep_model):
    kept = losses(problem, *data.buggy, keep_model) < threshold
    return sums_at(problem, (data.features[kept], data.targets[kept]), data.trusted, theta, theta)


def own_threshold(problem, data, theta, fraction):
    value = np.sort(losses(problem, *data.buggy, theta))
    return value[round(fraction * len(value))]


@pytest.mark.parametrize("loss_name", LOSSES)
@pytest.mark.parametrize("lambda_z", [5.0, np.inf])
def test_it_is_what_the_gradient_of_the_chosen_rows_does_besides_their_own_curvature(loss_name, lambda_z):
    data = random_data(loss_name, n=400_000, d=3, m=5, seed=0, noise=1.0, bugs=0.2)
    problem = TeachingProblem(loss_name, 1.0, 1.0, 0.0, lambda_z, repair=True)
    theta = np.linalg.lstsq(*data.buggy)[0]
    threshold = own_threshold(problem, data, theta, 0.7)
    inner, middle, outer = (kept_sums(problem, data, theta, s * threshold, theta) for s in (0.95, 1.0, 1.05))
    found = direct_hessian(problem, theta, middle) + boundary_hessian(inner, middle, outer)

    def gradient(at):
        sums = kept_sums(problem, data, at, own_threshold(problem, data, at, 0.7), at)
        return direct_gradient(problem, at, sums)

    step = 0.02
    measured = np.stack([(gradient(theta + step * e) - gradient(theta - step * e)) / (2 * step) for e in np.eye(3)])
    size = np.abs(measured).max()
    np.testing.assert_allclose(found, measured, atol=0.05 * size)
    # without it the curvature is far off: the test can tell
    assert np.abs(direct_hessian(problem, theta, middle) - measured).max() > 0.2 * size


def test_few_rows_say_nothing():
    data = random_data("squared", n=40, d=3, m=5, seed=1)
    problem = TeachingProblem("squared", 1.0, 1.0, 0.0, 5.0, repair=True)
    theta = np.ones(3)
    threshold = own_threshold(problem, data, theta, 0.7)
    nested = [kept_sums(problem, data, theta, s * threshold, theta) for s in (0.9, 1.0, 1.1)]
    assert not boundary_hessian(*nested).any()
