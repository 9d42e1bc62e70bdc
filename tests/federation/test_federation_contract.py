"""One contract for every federation: the same cases on the local one, on one behind messages, and inside a job."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from contract_cases import CASES, DATA, N_SITES
from sites_in_process import SitesInProcess, agents_of, open_sites, path_with, settings, site_files

from comt.federation import LocalFederation
from comt.federation.remote import RemoteFederation
from comt.server.coordinator import begin

HERE = Path(__file__).parent
SIMULATION = """
import sys
from nvflare.collab import CollabRecipe
from nvflare.recipe import SimEnv
from contract_job import ContractCoordinator, SimulatedSite

folder, n_sites, cases, repeat = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
recipe = CollabRecipe(
    job_name="contract", server=ContractCoordinator(out=folder, cases=cases, repeat=repeat),
    client=SimulatedSite(folder=folder), min_clients=n_sites, sync_task_timeout=180,
)
recipe.execute(SimEnv(num_clients=n_sites, workspace_root=folder + "/simulator", log_config="ERROR"))
"""


def simulate(folder, paths, cases=(), repeat=1, seconds=400):
    """Run cases inside one job of the engine's simulator; results are files in the folder."""
    for name, path in paths.items():
        settings(path, folder / "results" / name).save(folder / f"{name}.toml")
    from comt.federation.flare.extra import engine_environment

    environment = engine_environment() | {"PYTHONPATH": path_with(str(HERE))}
    done = subprocess.run(
        [sys.executable, "-c", SIMULATION, str(folder), str(len(paths)), ",".join(cases), str(repeat)],
        env=environment, cwd=folder, capture_output=True, text=True, timeout=seconds, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


@pytest.fixture(scope="module")
def pooled(tmp_path_factory):
    """What one agent that holds all rows answers: the reference."""
    import pandas as pd

    folder = tmp_path_factory.mktemp("pooled")
    paths = site_files(folder, N_SITES, **DATA)
    whole = folder / "whole.csv"
    pd.concat([pd.read_csv(path) for path in paths.values()]).to_csv(whole, index=False)
    federation = LocalFederation(agents_of({"whole": whole}))
    return {name: case(federation) for name, case in CASES.items()}


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """What agents in one process answer."""
    paths = site_files(tmp_path_factory.mktemp("local"), N_SITES, **DATA)
    return {name: case(LocalFederation(agents_of(paths))) for name, case in CASES.items()}


@pytest.fixture(scope="module", params=["local", "behind messages", pytest.param("in a job", marks=pytest.mark.slow)])
def answers(request, local, tmp_path_factory):
    """Return a function that gives a case's arrays from one kind of federation."""
    folder = tmp_path_factory.mktemp("contract")
    paths = site_files(folder, N_SITES, **DATA)
    if request.param == "in a job":
        simulate(folder, paths)
        return lambda name: dict(np.load(folder / f"{name}.npz"))
    if request.param == "local":
        return local.__getitem__

    @cache
    def ask(name):
        federation = RemoteFederation(SitesInProcess(open_sites(folder, paths)), "ab" * 8, "regression", masked=False)
        federation.gather()
        begin(federation)
        return CASES[name](federation)

    return ask


@pytest.mark.parametrize("name", list(CASES))
def test_contract(answers, pooled, name):
    found, expected = answers(name), pooled[name]
    assert set(expected) <= set(found)
    for array, value in expected.items():
        # the way of Algorithm 1 depends on the number of agents: its solution does not, up to its tolerance
        tolerance = 1e-8 if name != "admm" else {"theta": 1e-7, "r": 1e-5}[array]
        np.testing.assert_allclose(found[array], value, rtol=tolerance, atol=tolerance, err_msg=array)


@pytest.mark.parametrize("name", list(CASES))
def test_sums_are_added_in_the_same_order_everywhere(answers, local, name):
    found = answers(name)
    for array, value in local[name].items():
        np.testing.assert_allclose(found[array], value, rtol=0, atol=1e-10, err_msg=array)


@pytest.mark.slow
def test_twenty_sites(tmp_path):
    paths = site_files(tmp_path, 20, n=40, d=3, seed=1)
    simulate(tmp_path, paths, ["newton"], seconds=400)
    found = np.load(tmp_path / "newton.npz")
    assert len(found["sites"]) == 20
    expected = CASES["newton"](LocalFederation(agents_of(paths)))
    np.testing.assert_allclose(found["theta"], expected["theta"], rtol=0, atol=1e-10)
    assert os.path.exists(tmp_path / "results" / "site-20")
