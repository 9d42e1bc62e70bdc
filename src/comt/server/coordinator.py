"""A training across sites as the coordinator runs it: who takes part, start again when a site leaves, resume, report.

Semantics of a varying set of sites: the objective sums over the sites of one attempt. A site that leaves for good leaves the
objective: the others start again, and reach bit for bit the model that they would have reached without it. (A
training takes tens of rounds; nothing is carried over from the attempt that ended, so nothing of the lost site stays
in.) It may come back in the next training.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from comt import __version__
from comt.declaration import MIN_COUNT, Declare
from comt.errors import ComtError, FederationError, RefusedError, SiteLeftError
from comt.federation.journal import Journal
from comt.federation.remote import RemoteFederation
from comt.federation.transcript import TRANSCRIPT, Transcript
from comt.federation.transport import Transport
from comt.losses import LossName
from comt.masking.identity import CertificateIdentity
from comt.messages import Finish, Task
from comt.model_file import TaughtModel, filled
from comt.queries import ResidualScale
from comt.schema import Schema
from comt.server import noisy
from comt.server.auto.choice import Choice
from comt.server.schema import agree_on_schema
from comt.server.training import Training, train
from comt.settings import check_settings
from comt.writing import write_whole

REQUEST, PROGRESS, RESULT = "request.json", "progress.jsonl", "result.json"
MODEL, CHECKPOINT = "model.json", "checkpoint.bin"
#: folder of a coordinator's kit that holds one folder per training
TRAININGS = "trainings"
_LOSS: dict[Task, LossName] = {"regression": "squared", "classification": "logistic"}
#: fewer trusted rows than this do not tell how far off a right row may be
ENOUGH_TRUSTED = 10


@dataclass(frozen=True)
class Request:
    """What the operator asked for; it is stored beside the checkpoint, so that a resume needs no options."""

    training: str
    task: Task
    #: the parameters of the estimator of that task
    parameters: dict[str, Any]
    #: with fewer sites the training ends
    min_sites: int = 1
    #: how long a site may take for an answer, and to open its data
    seconds: float = 60.0
    join_seconds: float = 300.0
    columns: tuple[str, ...] | None = None
    #: sums under masks; None: from three sites on
    masked: bool | None = None
    #: a level of a category may be named from so many rows on
    min_count: int = MIN_COUNT
    #: keep everything that the coordinator sees, for ``comt audit`` and ``comt ledger --transcript``
    transcript: bool = False

    def save(self, folder: Path) -> None:
        """Write the request into the training's folder."""
        content = asdict(self) | {"parameters": {k: _plain(v) for k, v in self.parameters.items()}}
        write_whole(folder / REQUEST, json.dumps(content, indent=2))

    @classmethod
    def load(cls, folder: Path) -> Request:
        """Read the request of a training."""
        content = json.loads((folder / REQUEST).read_text(encoding="utf-8"))
        content["parameters"] = {k: np.inf if v == "inf" else v for k, v in content["parameters"].items()}
        content["columns"] = None if content["columns"] is None else tuple(content["columns"])
        return cls(**content)


@dataclass
class Outcome:
    """What a training came to."""

    training: Training
    model: TaughtModel
    federation: RemoteFederation
    residual_size: float
    seconds: float = 0.0
    not_informed: dict[str, str] = field(default_factory=dict)


class Progress:
    """Lines that the operator's command shows: names of sites, rounds, certificates. Nothing else."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def __call__(self, event: str, **facts: Any) -> None:
        """Write one line."""
        if self._path is not None:
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(json.dumps({"event": event, "time": time.time(), **facts}) + "\n")


def coordinate(transport: Transport, request: Request, folder: Path) -> None:
    """Run (or resume) a training, and leave model and result in its folder; errors of ours become its result."""
    progress = Progress(folder / PROGRESS)
    try:
        seen = folder / TRANSCRIPT if request.transcript else None
        outcome = run(transport, request, Journal(folder / CHECKPOINT), progress, seen)
    except ComtError as error:
        progress("failed", message=str(error))
        write_whole(folder / RESULT, json.dumps({"done": False, "message": str(error)}))
        return
    if outcome.federation.transcript is not None:
        _sign(outcome.federation.transcript, folder.parent.parent / "startup")
    outcome.model.save(folder / MODEL)
    write_whole(folder / RESULT, json.dumps({"done": True, **report(outcome)}, indent=2))
    progress("done")


def _sign(transcript: Transcript, keys: Path) -> None:
    """Sign with the coordinator's own key; without a kit (in one process) there is none."""
    certificate, key = keys / "server.crt", keys / "server.key"
    if certificate.exists() and key.exists():
        transcript.sign(CertificateIdentity.load(certificate, key))


def run(
    transport: Transport, request: Request, journal: Journal, progress: Progress, transcript: Path | None = None
) -> Outcome:
    """Train over the sites of a transport, starting again without those that leave."""
    settings = check_settings(SimpleNamespace(**request.parameters), _LOSS[request.task])
    started = time.monotonic()
    federation = RemoteFederation(
        transport,
        request.training,
        request.task,
        seconds=request.seconds,
        join_seconds=request.join_seconds,
        journal=journal,
        columns=request.columns,
        min_count=request.min_count,
        masked=request.masked,
        transcript=transcript,
    )
    federation.on_round = lambda purpose, seconds: progress(
        "round", round=federation.rounds, purpose=purpose, seconds=seconds, **asdict(federation.traffic)
    )
    known = journal.attempt
    if known is not None:
        federation.left.update(known.left)
    federation.gather(None if known is None else known.sites)
    while True:
        if len(federation.agents) < request.min_sites:
            raise _too_few(federation, request)
        if federation.noise is not None:
            noisy.check(settings)  # before any of the sites' budget is spent
        progress("attempt", sites=federation.agents, left=federation.left, masked=federation.masked)
        try:
            schema = begin(federation)
            training = train(
                federation,
                settings,
                by_agent=federation.by_agent,
                watch=lambda record: progress("solver", **record),
            )
            size = _residual_size(federation, training) if request.task == "regression" else 1.0
            break
        except SiteLeftError as lost:
            progress("left", sites=lost.reasons)
        except RefusedError as refusal:  # a question without which there is no training
            federation.leave(refusal.reasons)
            progress("left", sites=refusal.reasons)
    model = _model(request, federation, training, schema)
    outcome = Outcome(training, model, federation, size, time.monotonic() - started)
    outcome.not_informed = federation.tell(
        Finish(training=request.training, model=model.to_json(), residual_size=size, seconds=request.join_seconds)
    )
    return outcome


def begin(federation: RemoteFederation) -> Schema:
    """Start an attempt with the sites present: have them agree on labels, and on how columns become features."""
    federation.begin()
    schema = agree_on_schema(federation, Declare(min_count=federation.min_count), target=federation.target)
    federation.use_schema(schema)
    return schema


def _too_few(federation: RemoteFederation, request: Request) -> FederationError:
    told = "; ".join(f"site {site} {reason}" for site, reason in sorted(federation.left.items()))
    return FederationError(
        f"{len(federation.agents)} of the {request.min_sites} sites that are needed take part "
        f"({told or 'no other is connected'}); repair or start them and train again, or ask for fewer with --min-sites."
    )


def _residual_size(federation: RemoteFederation, training: Training) -> float:
    """How far off a right row may be: from the trusted rows if there are enough, else from all."""
    if federation.noise is not None:  # no noise covers the question; what the solver has seen must do
        return noisy.residual_size(training.solution.sums)
    totals = federation.sum(ResidualScale(loss_name="squared", preparation=training.preparation, theta=training.theta))
    kind, rows = ("trusted", "trusted_rows") if totals["trusted_rows"] >= ENOUGH_TRUSTED else ("buggy", "rows")
    return float(np.sqrt(totals[kind] / max(float(totals[rows]), 1.0)))


def _model(request: Request, federation: RemoteFederation, training: Training, schema: Schema) -> TaughtModel:
    coef, intercept = training.preparation.to_raw(training.theta)
    sums, selected = training.solution.sums, training.selected
    return TaughtModel(
        task=request.task,
        classes=None if not federation.classes else (federation.classes[0], federation.classes[1]),
        columns=federation.declare(),
        coef=coef,
        intercept=intercept,
        preparation=training.preparation,
        theta=training.theta,
        r=training.solution.r,
        parameters=request.parameters,
        provenance={
            "comt_version": __version__,
            "training": request.training,
            "agents": [{"name": site} for site in federation.agents],
            "rows": sums.rows + sums.trusted_rows,
            "trusted_rows": sums.trusted_rows,
            "rounds": training.rounds,
            "certificate": float(training.solution.certificate),
            "solver": training.solver,
            "selected_fraction": 1.0 if selected is None else float(selected.fraction),
        },
        schema=filled(schema, training.preparation) if _median_is_center(training) else schema,
    )


def _median_is_center(training: Training) -> bool:
    return training.settings.standardize and training.settings.problem.intercept


def _privacy(federation: RemoteFederation) -> dict[str, float] | None:
    """Return (ε, δ) of all noisy answers that a site has given so far, the largest of all sites; None without noise."""
    told = federation.noise
    return None if told is None else {"epsilon": federation.epsilon, "delta": told.noise.delta}


def report(outcome: Outcome) -> dict[str, Any]:
    """Return the aggregate numbers: nothing about single sites but their names and whether they stayed."""
    training, federation = outcome.training, outcome.federation
    return {
        "sites": list(federation.agents),
        "left": federation.left,
        "masked": federation.masked,
        "not_informed": outcome.not_informed,
        "rows": training.solution.sums.rows,
        "trusted_rows": training.solution.sums.trusted_rows,
        "rounds": federation.rounds,
        "replayed_rounds": federation.replayed,
        "certificate": float(training.solution.certificate),
        "tol": training.settings.tol,
        "residual_size": outcome.residual_size,
        "seconds": outcome.seconds,
        "bytes_sent": federation.traffic.sent,
        "bytes_received": federation.traffic.received,
        "privacy": _privacy(federation),
        "choice": None if training.choice is None else _told(training.choice),
    }


def _told(choice: Choice) -> dict[str, Any]:
    """Return what was chosen, in words and shares; scores that are no number become nothing."""
    lines = [
        {"candidate": line.candidate, "share": line.share, "loss": line.loss}
        for line in choice.lines
        if np.isfinite(line.loss)
    ]
    return {"said": choice.sentence, "lines": lines}


def _plain(value: Any) -> Any:
    return "inf" if isinstance(value, float) and np.isinf(value) else value
