"""How fast: ratios to scikit-learn on the same rows in the same run, growth with the number of rows, files."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

N_FEATURES, N_AGENTS, N_TRUSTED = 10, 5, 500
REPEATS = 9
#: the paper's objective with every weight given: nothing is chosen
FIXED: dict[str, Any] = {
    "teaching": "dual",
    "lambda_w": 1.0,
    "lambda_trusted": 1.0,
    "lambda_z": 100.0,
    "lambda_alpha": 0.1,
    "select": None,
}


def rows(n: int, seed: int = 0) -> tuple[Any, Any, Any, Any, Any]:
    """Return features, regression targets, labels, agents and the trusted mask of a linear problem."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, N_FEATURES))
    signal = X @ rng.normal(size=N_FEATURES)
    y = signal + rng.normal(size=n)
    labels = np.where(signal + rng.logistic(size=n) > 0, 1, 0)
    return X, y, labels, np.arange(n) % N_AGENTS, np.arange(n) < N_TRUSTED


def timed(call: Callable[[], Any], repeats: int = REPEATS) -> tuple[float, Any]:
    """Return the median seconds of several calls, after one to warm up, and the last result."""
    call()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = call()
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds)), result


def compare(n: int) -> list[tuple[str, float, float, float | None, int]]:
    """Return (what, our seconds, scikit-learn's seconds, wanted ratio, rounds) for both estimators.

    The plain regressor is shown against ``Ridge`` as it comes (the wanted ratio) and against ``Ridge`` without intercept.
    """
    from sklearn.linear_model import LogisticRegression, Ridge

    from comt import CoMTClassifier, CoMTRegressor

    X, y, labels, agents, trusted = rows(n)
    ridge, _ = timed(partial(Ridge(alpha=1.0).fit, X, y))
    plain_ridge, _ = timed(partial(Ridge(alpha=1.0, fit_intercept=False).fit, X, y))
    found: list[tuple[str, float, float, float | None, int]] = []
    for prepared in (False, True):
        options = {**FIXED, "fit_intercept": prepared, "standardize": prepared}
        name = "scaled, intercept" if prepared else "plain"
        ours, model = timed(partial(CoMTRegressor(**options).fit, X, y, agents=agents, trusted=trusted))
        found.append((f"regressor, {name} / Ridge()", ours, ridge, 6.0 if prepared else 3.0, model.n_rounds_))
        if not prepared:
            found.append(("regressor, plain / Ridge(fit_intercept=False)", ours, plain_ridge, None, model.n_rounds_))
        theirs, _ = timed(partial(LogisticRegression(C=1.0, fit_intercept=prepared).fit, X, labels))
        ours, model = timed(partial(CoMTClassifier(**options).fit, X, labels, agents=agents, trusted=trusted))
        wanted = 2.5 if prepared else 2.0
        found.append((f"classifier, {name} / LogisticRegression", ours, theirs, wanted, model.n_rounds_))
    return found


def automatic(n: int, repeats: int = 3) -> list[tuple[str, float, int]]:
    """Return (what, processor time of automatic choice relative to one fit with fixed weights, rounds)."""
    from comt import CoMTClassifier, CoMTRegressor

    X, y, labels, agents, trusted = rows(n)
    found = []
    for name, estimator, target in (("regressor", CoMTRegressor, y), ("classifier", CoMTClassifier, labels)):
        spent = []
        for options in (FIXED, {}):
            model = estimator(**options)
            seconds = []
            for _ in range(repeats + 1):  # the first one warms up
                start = time.process_time()
                model.fit(X, target, agents=agents, trusted=trusted)
                seconds.append(time.process_time() - start)
            spent.append(min(seconds[1:]))
        found.append((name, spent[1] / spent[0], model.n_rounds_))
    return found


def paper_settings() -> list[tuple[str, float, float]]:
    """Return (what, our seconds, the paper's seconds) at 50,000 instances: 20,000 training rows, 250 trusted."""
    from comt import CoMTClassifier, CoMTRegressor

    X, y, labels, agents, _ = rows(20_250)
    trusted = np.arange(20_250) < 250
    options: dict[str, Any] = {**FIXED, "lambda_w": 100.0, "fit_intercept": False, "standardize": False}
    ridge, _ = timed(lambda: CoMTRegressor(**options).fit(X, y, agents=agents, trusted=trusted))
    logistic, _ = timed(lambda: CoMTClassifier(**options).fit(X, labels, agents=agents, trusted=trusted))
    return [("ridge", ridge, 36.23), ("logistic", logistic, 65.60)]


def growth() -> list[tuple[str, float, float]]:
    """Return (what, seconds at 20,000 rows, seconds at 2,000,000 rows)."""
    from comt import CoMTClassifier, CoMTRegressor

    found = []
    for name, estimator in (("regressor", CoMTRegressor), ("classifier", CoMTClassifier)):
        seconds = []
        for n, repeats in ((20_000, 15), (2_000_000, 1)):
            X, y, labels, agents, trusted = rows(n)
            target = y if name == "regressor" else labels
            spent, _ = timed(partial(estimator(**FIXED).fit, X, target, agents=agents, trusted=trusted), repeats)
            seconds.append(spent)
        found.append((name, seconds[0], seconds[1]))
    return found


def write_parquet(path: Path, n: int) -> None:
    """Write a file of that many rows, in pieces."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer = None
    for start in range(0, n, 500_000):
        size = min(500_000, n - start)
        X, y, _, _, trusted = rows(size, seed=start)
        columns = {f"x{i}": X[:, i] for i in range(N_FEATURES)}
        table = pa.table({**columns, "y": y, "verified": trusted & (start == 0)})
        writer = writer or pq.ParquetWriter(path, table.schema, compression="none")
        writer.write_table(table)
    if writer is not None:
        writer.close()


def fit_file(path: str) -> tuple[float, float]:
    """Return seconds and peak resident memory (MiB) of a training over one file, in this process."""
    from comt import Agent, CoMTRegressor, FileRows

    start = time.perf_counter()
    agent = Agent("file", FileRows(path, target="y", trusted="verified"))
    CoMTRegressor(**FIXED).fit_agents([agent])
    seconds = time.perf_counter() - start
    return seconds, _peak_memory()


def _peak_memory() -> float:
    """Return the peak resident memory of this process in MiB (getrusage would report the parent's if that was larger)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) / 1024.0 for line in lines if line.startswith("VmHWM"))


def file_run(n: int) -> tuple[float, float, float]:
    """Return seconds and peak MiB for a Parquet file of n rows, and seconds for a million rows in memory."""
    from comt import CoMTRegressor

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        write_parquet(path, n)
        # a process of its own, so that its peak memory is the training's and nothing else's
        code = f"from comt.bench.speed import fit_file; print(*fit_file({str(path)!r}))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=3600)
        seconds, memory = (float(part) for part in done.stdout.split())
    X, y, _, _, trusted = rows(1_000_000)
    in_memory, _ = timed(lambda: CoMTRegressor(**FIXED).fit(X, y, trusted=trusted), 3)
    return seconds, memory, in_memory


def run(options: argparse.Namespace) -> int:
    """Print all comparisons."""
    console = Console()
    table = Table(title=f"{options.rows:,} rows × {N_FEATURES}, {N_AGENTS} agents, {N_TRUSTED} trusted rows")
    for column in ("fit", "CoMT", "scikit-learn", "ratio", "wanted", "rounds"):
        table.add_column(column, justify="left" if column == "fit" else "right")
    with console.status("comparing with scikit-learn"):
        for name, ours, theirs, limit, rounds in compare(options.rows):
            wanted = "" if limit is None else f"≤ {limit:g}"
            cells = (f"{ours * 1e3:.0f} ms", f"{theirs * 1e3:.0f} ms", f"{ours / theirs:.2f}", wanted, str(rounds))
            table.add_row(name, *cells)
    console.print(table)
    with console.status("automatic choice"):
        for name, ratio, rounds in automatic(options.rows):
            console.print(
                f"automatic choice, {name}: {ratio:.1f} × the processor time of one fit with fixed weights (wanted: ≤ 25), "
                f"{rounds} rounds (wanted: ≤ 60)"
            )
    for name, ours, paper in paper_settings():
        console.print(f"the paper's 50,000 instances, {name}: {ours:.3f} s (the paper: {paper:g} s)")
    if options.quick:
        return 0
    with console.status("20,000 and 2,000,000 rows"):
        for name, small, large in growth():
            console.print(
                f"{name}: {small:.3f} s at 20,000 rows, {large:.2f} s at 2,000,000: ratio {large / small:.0f}"
            )
    with console.status(f"{options.file_rows:,} rows from Parquet"):
        seconds, memory, in_memory = file_run(options.file_rows)
    per_row = seconds / options.file_rows * 1e9
    console.print(
        f"{options.file_rows:,} rows from Parquet: {seconds:.0f} s, peak {memory:.0f} MiB, {per_row:.0f} ns per row; "
        f"in memory {in_memory * 1e3:.0f} ns per row: ratio {per_row / (in_memory * 1e3):.2f}"
    )
    return 0
