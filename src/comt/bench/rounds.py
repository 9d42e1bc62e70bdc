"""Seconds per round of a real federation on this machine: processes of their own, mutual TLS, with and without masks."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from comt import CoMTRegressor
from comt.agent.site_config import SiteConfig
from comt.errors import FederationError, InputError
from comt.federation.flare.extra import need_engine
from comt.one_machine import OneMachine
from comt.server.coordinator import PROGRESS

ROWS = 2_000
#: nothing is searched for: the rounds of one solver are measured
FIXED: dict[str, Any] = {
    "teaching": "dual",
    "lambda_w": 1.0,
    "lambda_trusted": 1.0,
    "lambda_alpha": 0.0,
    "lambda_z": np.inf,
    "select": None,
}
#: a round may take this long with five sites on two cores
LIMIT = 0.1


def run(options: argparse.Namespace) -> int:
    """Train with Algorithm 1, which has many small rounds, and print how long they took."""
    need_engine()
    if not 3 <= options.sites <= 20 or not 1 <= options.features <= 1000:
        raise InputError("--sites must be 3 to 20 and --features 1 to 1000; choose such numbers.")
    with tempfile.TemporaryDirectory(prefix="comt-rounds-") as scratch:
        folder = Path(scratch)
        sites = {f"site-{k + 1}": _site(folder, k, options.features) for k in range(options.sites)}
        with OneMachine(folder, sites) as federation:
            for masked in (False, True):
                parameters = CoMTRegressor(**FIXED, solver="admm", tol=1e-3).get_params()
                result, training = federation.train("regression", parameters, masked=masked)
                if not result["done"]:
                    raise FederationError(result["message"])
                _print(training, result, masked)
    return 0


def _site(folder: Path, seed: int, features: int) -> SiteConfig:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(ROWS, features))
    table = pd.DataFrame(x, columns=[f"x{i}" for i in range(features)])
    table["y"] = x @ np.sin(np.arange(features)) + 0.5 * rng.normal(size=ROWS)
    table["verified"] = (np.arange(ROWS) < 200).astype(int)
    path = folder / f"site-{seed + 1}.parquet"
    table.to_parquet(path, index=False)
    return SiteConfig(path, "y", "verified", results=folder / f"results-{seed + 1}", policy={"masked": False})


def _print(training: Path, result: dict[str, Any], masked: bool) -> None:
    lines = (training / PROGRESS).read_text(encoding="utf-8").splitlines()
    events = [json.loads(line) for line in lines]
    seconds = np.array([event["seconds"] for event in events if event["event"] == "round"])
    verdict = "within" if np.median(seconds) <= LIMIT else "beyond"
    fastest, middle, most = 1000 * np.quantile(seconds, [0.1, 0.5, 0.95])
    print(
        f"{len(result['sites'])} sites, {'under masks' if masked else 'without masks'}: {len(seconds)} rounds, median "
        f"{middle:.0f} ms ({verdict} {1000 * LIMIT:.0f} ms), the fastest tenth within {fastest:.0f} ms, 95 % within "
        f"{most:.0f} ms; {result['bytes_received'] / 1e6 / len(seconds):.2f} MB received per round; "
        f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores."
    )
