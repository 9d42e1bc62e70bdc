"""Following a training from the operator's side: submit, watch its folder, submit again where its processes died."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from comt.errors import FederationError
from comt.federation.flare.operator import ENDED, Operator

#: seconds between two looks at the folder, and between two questions about the job
LOOK, ASK = 0.05, 1.0
#: what a job that has ended may still write
LAST_WORDS = 2.0
#: seconds for which a coordinator that does not say how a job is may simply be busy
BUSY = 30.0

Event = dict[str, Any]


@dataclass(frozen=True)
class Patience:
    """How long to wait for what, in seconds, and how often to resume by ourselves."""

    start: float = 120.0
    whole: float = 3600.0
    resumes: int = 2


class Lines:
    """The complete lines that a file has gained since the last look."""

    def __init__(self, path: Path) -> None:
        self._path, self._position = path, 0

    def new(self) -> Iterator[Event]:
        """Yield them, read as JSON."""
        if not self._path.exists():
            return
        with open(self._path, "rb") as file:
            file.seek(self._position)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._position += len(line)
                yield json.loads(line)


def follow(
    operator: Operator,
    submit: Callable[[], str],
    folder: Path,
    *,
    progress: str,
    result: str,
    patience: Patience,
    show: Callable[[Event], None],
) -> dict[str, Any]:
    """Submit a training and return its result; resumes it by itself where a process of the job died."""
    until = time.monotonic() + patience.whole
    lines = Lines(folder / progress)
    for _ in lines.new():
        pass  # of an earlier run
    for attempt in range(patience.resumes + 1):
        job = submit()
        ended = _until_ended(operator, job, folder / result, lines, until, patience.start, show)
        if (folder / result).exists():
            return _result(operator, job, folder / result)
        if attempt < patience.resumes:
            show({"event": "resuming", "status": ended})
    raise FederationError(
        f"the training's processes ended {patience.resumes + 1} times without a result ({ended}); see the logs of the sites "
        f"and of the coordinator, then go on with --resume {folder.name}."
    )


def _until_ended(
    operator: Operator,
    job: str,
    result: Path,
    lines: Lines,
    until: float,
    start_seconds: float,
    show: Callable[[Event], None],
) -> str:
    """Show what happens until there is a result or the job has ended; return its last state."""
    begin_by = time.monotonic() + start_seconds
    next_question, begun, ended, ended_at = 0.0, False, "", 0.0
    status, heard = "unknown", time.monotonic()
    while not result.exists():
        for event in lines.new():
            begun, heard = True, time.monotonic()  # it works: whatever else is slow, it is there
            show(event)
        now = time.monotonic()
        if ended and now > ended_at + LAST_WORDS:
            break
        if not ended and now >= next_question:
            try:
                status, heard = operator.status(job), time.monotonic()
            except FederationError:
                if time.monotonic() - heard > BUSY:
                    raise
            next_question = time.monotonic() + ASK
            if status.startswith(ENDED):
                ended, ended_at = status, now
        if now > until or (not begun and now > begin_by):
            operator.abort(job)
            what = "did not finish" if begun else "did not start"
            raise FederationError(
                f"the training {what} in time (state {status}); see that the sites run, then go on with --resume "
                f"{result.parent.name}."
            )
        time.sleep(LOOK)
    for event in lines.new():
        show(event)
    return ended


def _result(operator: Operator, job: str, path: Path) -> dict[str, Any]:
    """Read the result; a site that hangs must not keep the job alive."""
    until = time.monotonic() + LAST_WORDS
    with contextlib.suppress(FederationError):  # the result is there, whether or not the coordinator still answers
        while not operator.status(job).startswith(ENDED):
            if time.monotonic() > until:
                operator.abort(job)
                break
            time.sleep(10 * LOOK)
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content
