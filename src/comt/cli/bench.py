"""``comt bench``: the experiments; every number in README and docs has its command here."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

RESULTS = Path("docs/results")


def add_parser(commands: Any) -> None:
    """Add the command and its experiments to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser("bench", help="run an experiment")
    experiments = parser.add_subparsers(dest="experiment", required=True, metavar="EXPERIMENT")

    speed = experiments.add_parser("speed", help="time per fit as a ratio to scikit-learn, and growth with rows")
    speed.add_argument("--rows", type=int, default=200_000, help="rows of the main comparison (default 200,000)")
    speed.add_argument("--quick", action="store_true", help="leave out the 2 million row run and the Parquet run")
    speed.add_argument("--file-rows", type=int, default=20_000_000, help="rows of the Parquet run (default 20 million)")
    speed.set_defaults(run=_speed)

    paper = _experiment(experiments, "paper", "the paper's tables and figures beside its printed numbers")
    instead = paper.add_mutually_exclusive_group()
    for protocol, says in (
        ("fair", "tune every method alike instead of the paper's one setting"),
        ("others", "the competitors the paper does not have, in its setting"),
        ("sum", "the paper's setting, its noise scaled by the sum of a row's magnitudes instead of their mean"),
        ("ablations", "one thing changed at a time, to see what brings our numbers to the print's"),
    ):
        instead.add_argument(f"--{protocol}", dest="protocol", action="store_const", const=protocol, help=says)
    paper.set_defaults(run=_paper, protocol="paper")
    for name, text in (
        ("scaling", "seconds at the paper's 50,000, 100,000 and 500,000 instances"),
        ("real", "CPUSMALL, IJCNN and heart disease over several numbers of trusted rows"),
        ("robustness", "all methods × corruptions × numbers of trusted rows"),
        ("choice", "automatic choice against trusted-only and buggy-only, on the cells it was designed on"),
        ("unseen", "the same on data and corruptions that it was not designed on"),
    ):
        experiment = _experiment(experiments, name, text)
        experiment.add_argument("--methods", nargs="+", metavar="NAME", help="only these methods")
        experiment.set_defaults(run=_scaling if name == "scaling" else _comparison)
    few = _experiment(experiments, "few", "automatic choice with five trusted rows, beside what five rows can decide")
    few.set_defaults(run=_few, seeds=100)
    masking = experiments.add_parser("masking", help="what masks cost per agent and round")
    masking.add_argument("--rounds", type=int, default=60, help="rounds per measurement (default 60)")
    masking.add_argument("--out", type=Path, default=RESULTS, help=f"folder for the table (default {RESULTS})")
    masking.set_defaults(run=_masking)
    privacy = experiments.add_parser("privacy", help="what differential privacy costs in accuracy")
    privacy.add_argument("--seeds", type=int, default=10, help="how many repetitions (default 10)")
    privacy.add_argument("--out", type=Path, default=RESULTS, help=f"folder for table and figure (default {RESULTS})")
    privacy.set_defaults(run=_privacy)
    rounds = experiments.add_parser(
        "rounds", help="seconds per round over real processes and mutual TLS on this machine"
    )
    rounds.add_argument("--sites", type=int, default=5, help="number of sites (default 5)")
    rounds.add_argument("--features", type=int, default=50, help="feature columns (default 50)")
    rounds.set_defaults(run=_rounds)
    issues = _experiment(experiments, "issues", "issues() against known errors, beside DUTI and cleanlab")
    issues.set_defaults(run=_issues)
    render = experiments.add_parser("render", help="write the results page from the stored results")
    render.add_argument("--out", type=Path, default=RESULTS, help=f"folder of the results (default {RESULTS})")
    render.set_defaults(run=_render)


def _experiment(experiments: Any, name: str, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = experiments.add_parser(
        name, help=text, description=f"{text}; interrupted runs go on where they stopped."
    )
    parser.add_argument("--seeds", type=int, default=20, help="how many repetitions (default %(default)s)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="how many at a time")
    parser.add_argument("--out", type=Path, default=RESULTS, help=f"folder for the results (default {RESULTS})")
    return parser


def _speed(options: argparse.Namespace) -> int:
    from comt.bench.speed import run

    return run(options)


def _rounds(options: argparse.Namespace) -> int:
    from comt.bench.rounds import run

    return run(options)


def _paper(options: argparse.Namespace) -> int:
    from comt.bench import ablations, paper

    if options.protocol == "ablations":
        ablations.run(options.out, options.seeds, options.processes)
        return _render(options)
    paper.run_tables(options.out, options.protocol, options.seeds, options.processes)
    if options.protocol == "paper":
        paper.run_scaling(options.out)
        paper.fraction_curves(options.out)
        paper.convergence(options.out)
    return _render(options)


def _scaling(options: argparse.Namespace) -> int:
    from comt.bench import paper

    paper.run_scaling(options.out)
    return _render(options)


def _comparison(options: argparse.Namespace) -> int:
    from comt.bench import real_as_printed, robustness
    from comt.errors import InputError

    known = (*robustness.METHODS, *robustness.ON_REQUEST)
    usual = robustness.CHOICE_METHODS if options.experiment in ("choice", "unseen") else robustness.METHODS
    names = tuple(options.methods or usual)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InputError(f"--methods {unknown[0]!r} is unknown; choose among {', '.join(known)}.")
    if options.experiment == "real" and not options.methods:
        real_as_printed.run(options.out, options.seeds, options.processes)
    robustness.run(options.experiment, options.out, options.seeds, options.processes, names)
    return _render(options)


def _few(options: argparse.Namespace) -> int:
    from comt.bench import limits

    limits.run(options.out, options.seeds, options.processes)
    return _render(options)


def _masking(options: argparse.Namespace) -> int:
    from comt.bench import masking

    for path in masking.run(options.out, options.rounds):
        print(path)
    return 0


def _privacy(options: argparse.Namespace) -> int:
    from comt.bench import privacy_cost

    for path in privacy_cost.run(options.out, options.seeds):
        print(path)
    return 0


def _issues(options: argparse.Namespace) -> int:
    from comt.bench.issues import run

    run(options.out, options.seeds, options.processes)
    return _render(options)


def _render(options: argparse.Namespace) -> int:
    from comt.bench.render import render

    for path in render(options.out):
        print(path)
    return 0
