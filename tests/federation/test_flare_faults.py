"""Faults over real processes and mutual TLS: misbehaving sites and killed processes, first, middle, last round."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest
from deployment import Deployment, left_running
from faulty_objects import FaultySite
from matrix_job import MatrixCoordinator
from sites_in_process import FIXED, agents_of

from comt import CoMTRegressor
from comt.errors import FederationError
from comt.federation.flare import hardening
from comt.federation.flare.operator import Operator
from comt.server.coordinator import Request

pytestmark = pytest.mark.slow

#: a training of these data has five exchanges: missing cells, two histograms, the sums, the size of residuals
ROUNDS = {"first": 1, "middle": 3, "last": 5}
KINDS = ["raise", "hang", "nan", "shape", "huge", "stale"]


def coef(deployment, without=()):
    paths = {name: path for name, path in deployment.paths.items() if name not in without}
    return CoMTRegressor(**FIXED).fit_agents(agents_of(paths)).coef_


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults")
    before = hardening.ALLOWED
    hardening.ALLOWED = (*before, "faulty_objects.FaultySite", "matrix_job.MatrixCoordinator")
    try:
        with Deployment(folder) as running:
            yield running
    finally:
        hardening.ALLOWED = before
    assert left_running(folder) == []


@pytest.fixture(scope="module")
def matrix(deployment, tmp_path_factory):
    """All faults that kill nothing, in one job."""
    folder = tmp_path_factory.mktemp("matrix")
    cells = [
        {"fault": {"kind": kind, "round": ROUNDS[when], "seconds": 4.0}, "out": str(folder / f"{kind}-{when}.json")}
        for kind in KINDS
        for when in ROUNDS
    ]
    plan = {
        "cells": cells,
        "faults": str(deployment.kit("site-2") / "local" / "faults.json"),
        "parameters": {k: "inf" if v == np.inf else v for k, v in CoMTRegressor(**FIXED).get_params().items()},
        "done": str(folder / "done"),
    }
    plan["parameters"]["lambda_z"] = 1e300  # JSON has no infinity; no crafting either way
    (folder / "plan.json").write_text(json.dumps(plan))
    with Operator(deployment.federation, 40.0) as operator:
        assert operator.wait_for(3, 40.0) == deployment.names
        job = operator.submit("matrix", 3, MatrixCoordinator(plan=str(folder / "plan.json")), FaultySite())
        until = time.monotonic() + 240
        while not (folder / "done").exists():
            assert time.monotonic() < until, "the matrix hangs"
            assert not operator.status(job).startswith("FINISHED:EXEC"), "the matrix died"
            time.sleep(0.2)
        operator.abort(job)
    return folder


@pytest.mark.parametrize("when", ROUNDS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_site_that_misbehaves_is_named_and_the_others_finish(matrix, deployment, kind, when):
    result = json.loads((matrix / f"{kind}-{when}.json").read_text())
    assert list(result["left"]) == ["site-2"]
    assert result["sites"] == ["site-1", "site-3"]
    np.testing.assert_allclose(result["coef"], coef(deployment, ["site-2"]), rtol=0, atol=1e-10)
    if kind == "hang":
        assert result["left"]["site-2"] == "did not answer within 2 s"


def prepared(deployment, name):
    """A training of three sites that are all there, and its folder."""
    deployment.wait_connected(3, since=deployment.started)
    return deployment.request(name, min_sites=2)


@pytest.mark.parametrize("when", ROUNDS)
def test_a_killed_job_process_is_resumed_to_the_same_model(deployment, when):
    folder = prepared(deployment, f"a{ROUNDS[when]:07x}")
    deployment.fault("site-2", kind="kill job", round=ROUNDS[when])
    result = deployment.train(folder, client=FaultySite())
    assert result["done"]
    assert result["sites"] == list(deployment.names)
    assert result["replayed_rounds"] == ROUNDS[when] - 1
    assert result["rounds"] == ROUNDS["last"]
    np.testing.assert_allclose(deployment.model(folder).coef, coef(deployment), rtol=0, atol=1e-10)


@pytest.mark.parametrize("when", ROUNDS)
def test_a_killed_site_is_dropped_and_may_come_back(deployment, when):
    folder = prepared(deployment, f"b{ROUNDS[when]:07x}")
    deployment.fault("site-2", kind="kill site", round=ROUNDS[when])
    result = deployment.train(folder, client=FaultySite(), wait_for=0)
    assert result["left"] == {"site-2": "did not answer within 3 s"}
    np.testing.assert_allclose(deployment.model(folder).coef, coef(deployment, ["site-2"]), rtol=0, atol=1e-10)
    deployment.restart("site-2")


@pytest.mark.parametrize("when", ROUNDS)
def test_a_killed_coordinator_resumes_by_one_command(deployment, when):
    folder = prepared(deployment, f"c{ROUNDS[when]:07x}")
    deployment.fault(
        "site-2", kind="kill coordinator", round=ROUNDS[when], parent=deployment.running["coordinator"].pid
    )
    with pytest.raises(FederationError, match="--resume"):
        deployment.train(folder, client=FaultySite(), wait_for=0)
    deployment.restart("coordinator")
    result = deployment.train(folder, client=FaultySite())
    assert result["sites"] == list(deployment.names)
    assert result["replayed_rounds"] == ROUNDS[when] - 1
    np.testing.assert_allclose(deployment.model(folder).coef, coef(deployment), rtol=0, atol=1e-10)


def test_a_request_survives_being_stored(tmp_path):
    request = Request("ab" * 8, "regression", CoMTRegressor().get_params(), columns=("a", "b"))
    request.save(tmp_path)
    assert Request.load(tmp_path) == request
