"""Results on disk: one CSV per experiment, a line per method and seed, written as they come, so that a run can be resumed."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from comt import __version__

Line = dict[str, Any]
#: what identifies a line; the rest are results
KEYS = ("experiment", "protocol", "data", "corruption", "noise", "trusted", "method", "seed")
FIELDS = (*KEYS, "score", "seconds", "selected", "rounds", "note", "version")


class Store:
    """A CSV file of results that knows which are there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._done: set[tuple[str, ...]] = set()
        if path.exists():
            with path.open(newline="") as file:
                self._done = {tuple(line[key] for key in KEYS) for line in csv.DictReader(file)}

    def has(self, line: Line) -> bool:
        """Tell whether a result of this identity is stored."""
        return tuple(str(line.get(key, "")) for key in KEYS) in self._done

    def add(self, lines: Iterable[Line]) -> None:
        """Append lines at once: an interruption loses at most the job that was running."""
        fresh = not self.path.exists()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", newline="") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            if fresh:
                writer.writeheader()
            for line in lines:
                writer.writerow({key: line.get(key, "") for key in FIELDS} | {"version": __version__})
                self._done.add(tuple(str(line.get(key, "")) for key in KEYS))


def run_jobs(
    store: Store, jobs: Sequence[Line], work: Callable[[Line], list[Line]], *, processes: int, title: str
) -> None:
    """Run jobs in processes with a progress bar, storing each job's lines as it ends."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # inherited by the workers: one thread each
    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns) as progress, ProcessPoolExecutor(processes) as pool:
        bar = progress.add_task(title, total=len(jobs))
        waiting = [pool.submit(work, job) for job in jobs]
        try:
            for future in as_completed(waiting):
                store.add(future.result())
                progress.advance(bar)
        except BaseException:
            for future in waiting:
                future.cancel()
            raise


def score_methods(job: Line, data: Any, candidates: Sequence[Any]) -> list[Line]:
    """Fit every candidate on one data set and score it on the test rows; a method that fails is a line that says so."""
    import time
    import warnings

    from comt.bench.tuning import fit_tuned, score
    from comt.errors import ComtError

    lines = []
    for candidate in candidates:
        line = {**job, "method": candidate.name}
        start = time.process_time()  # of one core: whatever else the machine does is not the method's
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a method's own advice is not ours to print a thousand times
                model = fit_tuned(candidate, data.agents, data.task, int(job["seed"]))
            line["score"] = round(score(data.task, data.test_targets, model.predict(data.test_features)), 6)
            line["selected"] = model.found.get("selected", "")
            line["rounds"] = model.found.get("rounds", "")
        except ComtError as error:
            line["note"] = str(error)
        line["seconds"] = round(time.process_time() - start, 4)
        lines.append(line)
    return lines
