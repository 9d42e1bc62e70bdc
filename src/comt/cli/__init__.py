"""The command ``comt``. Exit codes: 0 done; 2 the user's input is wrong (one sentence); 1 anything else."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from comt import __version__


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="comt",
        description="Collaborative machine teaching: one model over buggy data at several owners, guided by trusted rows.",
    )
    parser.add_argument("--version", action="version", version=f"comt {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    # each command brings its own parser and imports what it needs only when it runs
    from comt.cli import audit, bench, demo, doctor, federate, federation, fit, ledger, predict, review, site, train

    for module in (demo, fit, predict, review, federate, federation, site, doctor, train, ledger, audit, bench):
        module.add_parser(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the installed script exits with what this returns."""
    options = _parser().parse_args(arguments)
    from comt.errors import ComtError, InputError, MissingExtraError

    try:
        code: int = options.run(options)
        return code
    except (InputError, MissingExtraError) as error:
        print(f"comt {options.command}: {_one_line(error)}", file=sys.stderr)
        return 2
    except ComtError as error:
        print(f"comt {options.command}: {_one_line(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"comt {options.command}: stopped; what was finished is kept.", file=sys.stderr)
        return 1


def _one_line(error: Exception) -> str:
    """Names of columns may hold line ends; a message may not."""
    return " ".join(str(error).split())
