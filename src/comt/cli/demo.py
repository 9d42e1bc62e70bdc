"""``comt demo``: the main job on embedded data, in a few seconds, without set-up."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

N_AGENTS = 5
N_TRUSTED = 10
FLIPPED = 0.4
#: the paper's objective, with the same weights for all seeds
PAPER: dict[str, Any] = {
    "lambda_w": 100.0,
    "lambda_trusted": 10.0,
    "lambda_alpha": 0.0,
    "lambda_z": 2.0,
    "select": None,
}
#: the alternatives may choose among these with hindsight, by their mean test score
LAMBDAS = (1.0, 10.0, 100.0, 1000.0)
METHODS = ("CoMT", "paper's objective", "TI-only", "buggy-only", "clean oracle")


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "demo", help="train on embedded data at five agents and compare"
    )
    parser.add_argument("--seeds", type=int, default=10, metavar="N", help="how many random splits (default 10)")
    parser.add_argument("--json", action="store_true", help="print one machine-readable object instead of the table")
    parser.add_argument(
        "--files",
        type=Path,
        metavar="FOLDER",
        help="instead, write two CSV files with errors in them, to try comt fit on",
    )
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="where the reports go (default: a new folder among temporary files)"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Train CoMT and the simple alternatives on every seed, then print what came out."""
    from comt.errors import InputError

    if options.files is not None:
        return _write_files(options.files)
    if options.seeds < 1:
        raise InputError(f"--seeds {options.seeds} is not a positive number; use for example --seeds 10.")
    from rich.console import Console
    from rich.progress import track

    out = _place(options.out)
    console = Console(stderr=options.json)
    results = [_one_seed(seed) for seed in track(range(options.seeds), "training", console=console, transient=True)]
    summary = _summary(results) | {"reports": str(out)}
    _write_reports(results[0], out)
    if options.json:
        print(json.dumps(summary))
    else:
        _print(summary, console)
    return 0


def _place(given: Path | None) -> Path:
    from comt.errors import InputError

    if given is None:
        return Path(tempfile.mkdtemp(prefix="comt-demo-"))
    if given.exists() and (not given.is_dir() or any(given.iterdir())):
        raise InputError(f"--out {given} exists and is not empty; give a new folder.")
    if not given.absolute().parent.is_dir():
        raise InputError(f"--out {given}: the folder {given.absolute().parent} does not exist; create it first.")
    return given


def _write_reports(result: dict[str, Any], out: Path) -> None:
    """Write the reports of the first seed: one for everybody, a private one per hospital."""
    from comt.reporting import Told, write_reports

    out.mkdir(exist_ok=True)
    note = f"Demo: {FLIPPED:.0%} of the diagnoses were flipped on purpose."
    write_reports(result["model"], out, Told(run="demo", target="diagnosis", notes=[note]))


def _write_files(folder: Path) -> int:
    from comt.datasets.flats import write_flats
    from comt.errors import InputError

    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"--files {folder} exists and is not empty; give a new folder.")
    if not folder.absolute().parent.is_dir():
        raise InputError(f"--files {folder}: the folder {folder.absolute().parent} does not exist; create it first.")
    north, south, new = write_flats(folder)
    print(f"{north} and {south}: flats of two agencies; some prices and areas are wrong, 30 rows of each are verified.")
    print(f"{new}: flats whose price is not known.")
    out = folder / "run"
    print(f"Next: comt fit {north} {south} --target price --trusted verified --drop flat --out {out}")
    return 0


def _one_seed(seed: int) -> dict[str, Any]:
    import numpy as np
    from sklearn.datasets import load_breast_cancer
    from sklearn.metrics import roc_auc_score

    from comt import CoMTClassifier

    data = load_breast_cancer(as_frame=True)
    X, y = data.data, data.target_names[data.target]
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    test, train = order[:200], order[200:]
    trusted = np.arange(len(train)) < N_TRUSTED
    agents = np.array([f"hospital {number + 1}" for number in rng.integers(0, N_AGENTS, len(train))])
    wrong = ~trusted & (rng.random(len(train)) < FLIPPED)
    given = np.where(wrong, np.where(y[train] == "benign", "malignant", "benign"), y[train])
    X, X_test = X.iloc[train].reset_index(drop=True), X.iloc[test]

    def auc(model: Any) -> float:
        return float(roc_auc_score(y[test] == "malignant", model.decision_function(X_test)))

    rows = {"X": X, "y": given, "agents": agents}
    comt = CoMTClassifier().fit(**rows, trusted=trusted)
    issues = comt.issues()
    flagged = issues["row"][issues["flagged"]].to_numpy()
    worst = issues.nlargest(int(wrong.sum()), "score")["row"].to_numpy()

    def each_lambda(**data: Any) -> list[float]:
        plain = PAPER | {"lambda_z": np.inf}
        return [auc(CoMTClassifier(**(plain | {"lambda_w": value})).fit(**data)) for value in LAMBDAS]

    # the alternatives are limits of the same objective, so they share its code and scaling
    return {
        "CoMT": [auc(comt)],
        "paper's objective": [auc(CoMTClassifier(**PAPER).fit(**rows, trusted=trusted))],
        "TI-only": each_lambda(X=X[trusted], y=given[trusted]),
        "buggy-only": each_lambda(**rows),
        "clean oracle": each_lambda(X=X, y=y[train], agents=agents),
        "model": comt,
        "rounds": comt.n_rounds_,
        "bytes": float(np.mean([agent.ledger.total_bytes for agent in comt._agents])),
        "certificate": comt.certificate_,
        "wrong": int(wrong.sum()),
        "flagged": len(flagged),
        "flagged_wrong": int(wrong[flagged].sum()),
        "worst_wrong": int(wrong[worst].sum()),
    }


def _summary(results: list[dict[str, Any]]) -> dict[str, Any]:
    import numpy as np

    scores = {}
    for name in METHODS:
        table = np.array([result[name] for result in results])  # seeds × λ
        best = table[:, int(np.argmax(table.mean(axis=0)))]
        scores[name] = {"mean": float(best.mean()), "spread": float(best.std())}
    return {
        "seeds": len(results),
        "metric": "AUC on 200 clean test rows",
        "scores": scores,
        "rounds": float(np.median([r["rounds"] for r in results])),
        "bytes_per_agent": float(np.mean([r["bytes"] for r in results])),
        "worst_certificate": max(r["certificate"] for r in results),
        "rows_wrong": float(np.mean([r["wrong"] for r in results])),
        "rows_flagged": float(np.mean([r["flagged"] for r in results])),
        "flagged_and_wrong": float(np.mean([r["flagged_wrong"] for r in results])),
        "worst_and_wrong": float(np.mean([r["worst_wrong"] for r in results])),
    }


def _print(summary: dict[str, Any], console: Any) -> None:
    from rich.table import Table

    table = Table(title=f"{summary['metric']}, {summary['seeds']} seeds")
    table.add_column("method")
    table.add_column("mean", justify="right")
    table.add_column("spread", justify="right")
    table.add_column("learns from")
    sources = {
        "CoMT": f"{N_AGENTS} agents' buggy rows + {N_TRUSTED} trusted rows, which choose everything",
        "paper's objective": "the same rows, weights fixed beforehand",
        "TI-only": f"the {N_TRUSTED} trusted rows alone",
        "buggy-only": "the buggy rows alone (plain federated training)",
        "clean oracle": "the same rows without errors (nobody has this)",
    }
    for name, score in summary["scores"].items():
        table.add_row(name, f"{score['mean']:.3f}", f"{score['spread']:.3f}", sources[name])
    console.print(table)
    console.print(
        f"TI-only, buggy-only and the oracle have the best of {len(LAMBDAS)} penalties with hindsight; CoMT has none."
    )
    console.print(
        f"rounds {summary['rounds']:.0f} (scaling included)   sent per agent {summary['bytes_per_agent'] / 1e3:,.0f} kB   "
        f"certificate ≤ {summary['worst_certificate']:.0e}"
    )
    comt, trusted, buggy = (summary["scores"][name]["mean"] for name in ("CoMT", "TI-only", "buggy-only"))
    console.print(
        f"\nWhat happened: five hospitals with {FLIPPED:.0%} of their diagnoses flipped trained one tumour classifier without "
        f"showing each other a row; {N_TRUSTED} verified rows lifted it from {buggy:.3f} to {comt:.3f} (those rows alone: "
        f"{trusted:.3f}). Of {summary['rows_flagged']:.0f} errors it is sure ({summary['flagged_and_wrong']:.0f} are errors; "
        f"more verified rows make it bolder); of the {summary['rows_wrong']:.0f} rows it puts first, as many as "
        f"there are errors, {summary['worst_and_wrong']:.0f} are wrong."
    )
    console.print(
        f"Reports: {summary['reports']}/report.html for everybody, <hospital>/report.html for each hospital alone."
    )
    console.print(
        "What to try next: your own files, `comt fit A.csv B.csv --target COLUMN --trusted COLUMN --out run/`, or in Python "
        "`CoMTClassifier().fit(X, y, agents=..., trusted=...)` and then `.issues()`."
    )
