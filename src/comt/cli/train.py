"""``comt train``: a training over the sites of a federation, run on the coordinator's machine."""

from __future__ import annotations

import argparse
import json
import secrets
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from comt.cli.values import assignments

if TYPE_CHECKING:
    from comt.federation.flare.operator import Operator
    from comt.server.coordinator import Request

TASKS = ("regression", "classification")


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "train",
        help="train over the sites of a federation",
        description="Train one model over the connected sites; run it on the coordinator's machine. Every site gets its "
        "private report and issue table, you get the model and an aggregate report.",
    )
    parser.add_argument("federation", type=Path, metavar="FEDERATION", help="the federation's folder")
    parser.add_argument("--task", metavar="|".join(TASKS), help="what to train (not needed with --resume)")
    parser.add_argument(
        "--set", nargs="+", action="extend", default=[], metavar="NAME=VALUE", dest="parameters",
        help="parameters of CoMTRegressor or CoMTClassifier (default: the trusted rows choose), such as lambda_trusted=100",
    )  # fmt: skip
    parser.add_argument(
        "--min-sites", metavar="K", help="end the training if fewer sites take part (default: all but one)"
    )
    parser.add_argument("--timeout", default="60", metavar="S", help="seconds a site may take per answer (default 60)")
    parser.add_argument("--join-timeout", default="300", metavar="S", help="seconds to open its data (default 300)")
    parser.add_argument("--wait", default="30", metavar="S", help="seconds to wait for absent sites (default 30)")
    parser.add_argument("--deadline", default="3600", metavar="S", help="seconds for the whole training (default 3600)")
    parser.add_argument("--masks", metavar="on|off", help="sums under masks (default: on from three sites on)")
    parser.add_argument(
        "--transcript", action="store_true", help="keep all that the coordinator sees, for comt audit (a large file)"
    )
    parser.add_argument("--resume", metavar="TRAINING", help="go on with a training that was interrupted")
    parser.add_argument("--out", required=True, type=Path, metavar="FOLDER", help="a new folder for model and report")
    parser.add_argument("--json", action="store_true", help="print one machine-readable object instead of sentences")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Submit, follow, copy what came out."""
    from comt.errors import InputError
    from comt.federation.flare.operator import Operator
    from comt.server.coordinator import TRAININGS, Request

    coordinator = options.federation / "coordinator"
    if not coordinator.is_dir():
        raise InputError(f"{options.federation} holds no coordinator; run this on the coordinator's machine.")
    if options.out.exists() and any(options.out.iterdir()):
        raise InputError(f"--out {options.out} is not empty; give another folder.")
    if options.masks not in (None, "on", "off"):
        raise InputError(f"--masks {options.masks} is unknown; choose on or off.")
    times = {name: _positive(options, name) for name in ("timeout", "join_timeout", "wait", "deadline")}
    parameters = None if options.resume else estimator_parameters(options.task, options.parameters)
    with Operator(options.federation) as operator:
        if parameters is None:
            folder = _open_training(coordinator / TRAININGS, options.resume)
            wanted = Request.load(folder).min_sites
        else:
            known = len(operator.federation.sites)
            wanted = int(_positive(options, "min_sites")) if options.min_sites else max(1, known - 1)
            folder = coordinator / TRAININGS / secrets.token_hex(8)
        present = operator.wait_for(max(wanted, len(operator.federation.sites)), times["wait"])
        if len(present) < wanted:
            raise InputError(
                f"{len(present)} sites are connected ({', '.join(present) or 'none'}) where {wanted} are needed; start the "
                "others, or ask for fewer with --min-sites."
            )
        if parameters is not None:
            folder.mkdir(parents=True)
            Request(
                folder.name,
                options.task,
                parameters,
                min_sites=wanted,
                seconds=times["timeout"],
                join_seconds=times["join_timeout"],
                columns=operator.federation.columns,
                masked=None if options.masks is None else options.masks == "on",
                transcript=options.transcript,
            ).save(folder)
        show = printer(sys.stderr)
        show({"event": "training", "name": folder.name})
        result = follow_training(operator, folder, times["deadline"], show)
    return finish(result, folder, options.out, as_json=options.json)


def _positive(options: argparse.Namespace, name: str) -> float:
    from comt.errors import InputError

    text = getattr(options, name)
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e7:
        raise InputError(f"--{name.replace('_', '-')} {text} is not a positive number; give one.")
    return value


def estimator_parameters(task: str | None, given: list[str]) -> dict[str, Any]:
    """Check the parameters as the estimator would, before any site is asked."""
    from comt import CoMTClassifier, CoMTRegressor
    from comt.errors import InputError
    from comt.settings import check_settings

    if task not in TASKS:
        raise InputError(f"--task {task or 'is missing'}; choose {' or '.join(TASKS)}.")
    estimator = (CoMTRegressor if task == "regression" else CoMTClassifier)()
    known = sorted(estimator.get_params())
    for name, value in assignments("--set", given).items():
        if name not in known:
            raise InputError(f"--set {name}: there is no such parameter; choose from {', '.join(known)}.")
        estimator.set_params(**{name: value})
    check_settings(estimator, "squared" if task == "regression" else "logistic")
    parameters: dict[str, Any] = estimator.get_params()
    return parameters


def _open_training(trainings: Path, name: str) -> Path:
    from comt.errors import InputError

    folder = trainings / Path(name).name
    if not (folder / "request.json").exists():
        known = sorted(path.parent.name for path in trainings.glob("*/request.json"))
        raise InputError(f"--resume {name}: there is no such training; there are {', '.join(known) or 'none'}.")
    if (folder / "result.json").exists() and not json.loads((folder / "result.json").read_text())["done"]:
        (folder / "result.json").unlink()  # it ended with an error; its checkpoint still holds
    return folder


def follow_training(
    operator: Operator, folder: Path, deadline: float, show: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Submit the training of a folder and follow it to its result."""
    from comt.agent.flare_site import FlareSite
    from comt.federation.flare.follow import Patience, follow
    from comt.server.coordinator import PROGRESS, RESULT, Request
    from comt.server.flare_coordinator import FlareCoordinator

    request: Request = Request.load(folder)

    def submit() -> str:
        return operator.submit(folder.name, request.min_sites, FlareCoordinator(training=folder.name), FlareSite())

    return follow(
        operator,
        submit,
        folder,
        progress=PROGRESS,
        result=RESULT,
        patience=Patience(whole=deadline),
        show=show,
    )


def printer(stream: Any) -> Callable[[dict[str, Any]], None]:
    """Return a function that tells people what happens, one line per event."""

    def show(event: dict[str, Any]) -> None:
        text = _told(event)
        if text:
            print(text, file=stream, flush=True)

    return show


def _told(event: dict[str, Any]) -> str:
    kind = event["event"]
    if kind == "training":
        return f"Training {event['name']}: starting at the sites."
    if kind == "attempt":
        seen = "sums under masks" if event["masked"] else "without masks: the coordinator sees every site's sums"
        return f"Taking part: {', '.join(event['sites'])}; {seen}."
    if kind == "left":
        reasons = "; ".join(f"site {site} {reason}" for site, reason in sorted(event["sites"].items()))
        return f"{reasons}. Starting again with the others."
    if kind == "resuming":
        return f"A process of the training died ({event['status']}); resuming from the checkpoint."
    if kind == "round":
        sizes = f"{event['sent'] / 1e3:,.1f} kB sent, {event['received'] / 1e3:,.1f} kB received"
        return f"round {event['round']}: {event['purpose']} ({1000 * event['seconds']:.0f} ms; {sizes} in all)"
    if kind == "solver" and "certificate" in event:
        return f"  certificate {event['certificate']:.1e}"
    return ""


def finish(result: dict[str, Any], folder: Path, out: Path, *, as_json: bool) -> int:
    """Copy model and report, and say what came out."""
    from comt.cli.train_report import REPORT, write_report
    from comt.errors import FederationError
    from comt.federation.transcript import TRANSCRIPT

    if not result["done"]:
        raise FederationError(result["message"])
    out.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(folder / "model.json", out / "model.json")
    shutil.copyfile(folder / "result.json", out / "report.json")
    if (folder / TRANSCRIPT).exists():
        shutil.copy(folder / TRANSCRIPT, out / TRANSCRIPT)  # with its mode: for the coordinator's eyes only
    write_report(folder, result, out)
    if as_json:
        print(json.dumps({**result, "training": folder.name, "out": str(out), "model": str(out / "model.json")}))
        return 0
    print(
        f"Trained over {len(result['sites'])} sites ({result['rows']:,.0f} rows, {result['trusted_rows']:,.0f} verified) in "
        f"{result['rounds']} rounds and {result['seconds']:.1f} s to certificate {result['certificate']:.0e}."
    )
    if privacy := result.get("privacy"):
        print(
            f"Differential privacy: ε = {privacy['epsilon']:.3g} at δ = {privacy['delta']:g} for one row more or less, over "
            "all noisy answers of a site so far."
        )
    for site, reason in sorted(result["left"].items()):
        print(f"Without site {site}: it {reason}.")
    for site, reason in sorted(result["not_informed"].items()):
        print(f"Site {site} is in the model, but got no results: it {reason}.")
    if result.get("choice"):
        print(result["choice"]["said"])
    print(f"Model: {out / 'model.json'}; report: {out / REPORT} (its numbers: {out / 'report.json'}).")
    print("Every site finds what looks wrong in its rows in its own results folder, report.html and issues.csv.")
    return 0
