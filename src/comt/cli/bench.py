"""``comt bench``: the experiments; every number in README and docs has its command here."""

from __future__ import annotations

import argparse
from typing import Any


def add_parser(commands: Any) -> None:
    """Add the command and its experiments to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser("bench", help="run an experiment")
    experiments = parser.add_subparsers(dest="experiment", required=True, metavar="EXPERIMENT")
    speed = experiments.add_parser("speed", help="time per fit as a ratio to scikit-learn, and growth with rows")
    speed.add_argument("--rows", type=int, default=200_000, help="rows of the main comparison (default 200,000)")
    speed.add_argument("--quick", action="store_true", help="leave out the 2 million row run and the Parquet run")
    speed.add_argument("--file-rows", type=int, default=20_000_000, help="rows of the Parquet run (default 20 million)")
    speed.set_defaults(run=_speed)


def _speed(options: argparse.Namespace) -> int:
    from comt.bench.speed import run

    return run(options)
