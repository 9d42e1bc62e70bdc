"""``comt federate --local``: a whole federation on this machine, with real processes and mutual TLS, for trying out."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "federate",
        help="try a whole federation on this machine",
        description="Create a federation, start a coordinator and sites as processes of this machine, train over mutual TLS, "
        "stop everything. Without FILES, embedded data are dealt out to the sites.",
    )
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="one .csv or .parquet file per site")
    parser.add_argument("--local", metavar="N", help="number of sites with embedded data (default 3)")
    parser.add_argument("--target", metavar="COLUMN", help="the column to predict (with FILES)")
    parser.add_argument("--trusted", metavar="COLUMN", help="the column that is true (or 1) in verified rows")
    parser.add_argument(
        "--drop", nargs="+", action="extend", default=[], metavar="COLUMN", help="columns that are no features"
    )
    parser.add_argument("--task", default="classification", metavar="regression|classification", help="(with FILES)")
    parser.add_argument(
        "--set", nargs="+", action="extend", default=[], metavar="NAME=VALUE", dest="parameters",
        help="parameters of CoMTRegressor or CoMTClassifier",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="keep kits, logs and results in this new folder")
    parser.add_argument("--json", action="store_true", help="print one machine-readable object instead of sentences")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Do what the coordinator and all sites would do on their machines."""
    from comt.cli.train import estimator_parameters
    from comt.errors import InputError
    from comt.federation.flare.extra import need_engine

    need_engine()
    n_sites = _number_of_sites(options)
    if not options.files:
        options.task, options.target, options.trusted = "classification", "diagnosis", "verified"
    elif options.target is None:
        raise InputError("--target is missing; name the column of the files that is to be predicted.")
    parameters = estimator_parameters(options.task, options.parameters)
    if options.out is not None and options.out.exists():
        raise InputError(f"--out {options.out} exists already; give a new folder.")
    folder = options.out.resolve() if options.out is not None else Path(tempfile.mkdtemp(prefix="comt-federate-"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files = options.files or _deal_out(folder, n_sites)
        return _run(options, folder, files, parameters)
    finally:
        if options.out is None:
            shutil.rmtree(folder, ignore_errors=True)


def _number_of_sites(options: argparse.Namespace) -> int:
    from comt.errors import InputError

    text = options.local or "3"
    if not text.isdigit() or not 1 <= int(text) <= 20:
        raise InputError(f"--local {text} is no number of sites; give 1 to 20.")
    if options.files and options.local:
        raise InputError("--local deals out embedded data, and FILES are data; give one of both.")
    return int(text)


def _deal_out(folder: Path, n_sites: int) -> list[Path]:
    """Write one file per site: real cases, a quarter of the diagnoses turned around, a few verified."""
    import numpy as np
    import pandas as pd
    from sklearn.datasets import load_breast_cancer

    cases = load_breast_cancer(as_frame=True)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(cases.target))
    table: pd.DataFrame = cases.data.iloc[order].reset_index(drop=True)
    benign = cases.target.to_numpy()[order] == 1
    verified = rng.random(len(table)) < 0.15
    wrong = ~verified & (rng.random(len(table)) < 0.25)
    table["diagnosis"] = np.where(benign ^ wrong, "benign", "malignant")
    table["verified"] = verified.astype(int)
    files = []
    for index in range(n_sites):
        files.append(folder / f"site-{index + 1}.csv")
        table.iloc[index::n_sites].to_csv(files[-1], index=False)
    return files


def _run(options: argparse.Namespace, folder: Path, files: Sequence[Path], parameters: dict[str, Any]) -> int:
    from comt.agent.site_config import SiteConfig
    from comt.cli.train import finish, printer
    from comt.one_machine import OneMachine

    started = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - started:4.1f} s] {text}", file=sys.stderr, flush=True)

    sites = {
        file.stem: SiteConfig(
            file.resolve(),
            options.target,
            options.trusted,
            tuple(options.drop),
            results=folder / "results" / file.stem,
        )
        for file in files
    }
    federation = OneMachine(folder, sites)
    say(f"created a federation of {len(sites)} sites: certificates, keys and kits in {federation.home}")
    with federation:
        say(f"connected over mutual TLS: {', '.join(federation.present)}")
        result, training = federation.train(options.task, parameters, show=printer(sys.stderr))
        say("trained")
    say("stopped all processes")
    code = finish(result, training, folder / "run", as_json=options.json)
    if options.out is None and not options.json:
        print("Everything was in a temporary folder, which is gone; keep it with --out FOLDER.")
    return code
