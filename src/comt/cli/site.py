"""``comt site``: the data holder's commands: get a kit, point it at the data, start, see what left."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def add_parser(commands: Any) -> None:
    """Add the command and its parts to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "site",
        help="take part in a federation as a data holder: request, package, configure, start, ledger",
        description="The data holder's commands. `comt doctor KIT` checks everything before the start.",
    )
    parts = parser.add_subparsers(dest="part", required=True, metavar="PART")

    request = parts.add_parser(
        "request",
        help="make a key and a request to join",
        description="Make this site's private key, which stays in the folder, and a request to send to the coordinator.",
    )
    request.add_argument("--federation", required=True, metavar="NAME", help="name of the federation")
    request.add_argument("--name", required=True, help="name of this site: letters, digits, hyphens")
    request.add_argument("--out", required=True, type=Path, metavar="FOLDER", help="a new folder for key and request")
    request.set_defaults(run=run_request)

    package = parts.add_parser(
        "package",
        help="make the kit from key and approval",
        description="Put this site's key and the coordinator's approval together into a start-up kit.",
    )
    package.add_argument("approval", type=Path, metavar="APPROVAL.zip", help="what the coordinator sent back")
    package.add_argument(
        "--request", required=True, type=Path, metavar="FOLDER", help="the folder of `comt site request`"
    )
    package.add_argument(
        "--fingerprint",
        required=True,
        metavar="AB:CD:…",
        help="the fingerprint that the coordinator told you in person",
    )
    package.add_argument("--out", required=True, type=Path, metavar="KIT", help="a new folder for the kit")
    package.set_defaults(run=run_package)

    configure = parts.add_parser(
        "configure",
        help="point a kit at the data and say what may leave",
        description="Write the site's own settings into the kit; nobody else can read or change them.",
    )
    configure.add_argument("kit", type=Path, metavar="KIT", help="the site's start-up kit")
    configure.add_argument(
        "--data",
        required=True,
        type=Path,
        metavar="FILE",
        help="a .csv or .parquet file: numbers, categories, missing values",
    )
    configure.add_argument("--target", required=True, metavar="COLUMN", help="the column to predict")
    configure.add_argument("--trusted", metavar="COLUMN", help="the column that is true (or 1) in verified rows")
    configure.add_argument(
        "--drop", nargs="+", action="extend", default=[], metavar="COLUMN", help="columns that are no features"
    )
    configure.add_argument(
        "--categorical", nargs="+", action="extend", default=[], metavar="COLUMN",
        help="columns of numbers that are codes of categories",
    )  # fmt: skip
    configure.add_argument(
        "--policy",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=VALUE",
        help="what may leave, such as min_rows=10",
    )
    configure.add_argument(
        "--results", type=Path, metavar="FOLDER", help="private results (default: results in the kit)"
    )
    configure.set_defaults(run=run_configure)

    start = parts.add_parser("start", help="run the site", description="Run the site until it is stopped.")
    start.add_argument("kit", type=Path, metavar="KIT", help="the site's start-up kit")
    start.set_defaults(run=run_start)

    ledger = parts.add_parser(
        "ledger",
        help="what the federation asked and what left",
        description="Show, in plain words, what this site was asked and what left it.",
    )
    ledger.add_argument("kit", type=Path, metavar="KIT", help="the site's start-up kit")
    ledger.add_argument("--json", action="store_true", help="print one machine-readable object instead of a table")
    ledger.set_defaults(run=run_ledger)


def run_request(options: argparse.Namespace) -> int:
    """Make a key and a request."""
    from comt.federation.flare import kits

    made = kits.request(options.federation, options.name, options.out)
    print(f"Send {made} to the coordinator. The private key stays in {options.out}; give it to nobody.")
    return 0


def run_package(options: argparse.Namespace) -> int:
    """Make the kit."""
    from comt.federation.flare import kits

    kits.package(options.approval, options.request, options.fingerprint, options.out)
    print(f"The kit is {options.out}. Next: comt site configure {options.out} --data FILE --target COLUMN")
    return 0


def run_configure(options: argparse.Namespace) -> int:
    """Check the data and write the settings."""
    from comt.agent.site_config import FILE, SiteConfig
    from comt.agent.site_service import open_rows
    from comt.cli.values import assignments
    from comt.federation.flare import hardening

    name = hardening.site_name(options.kit)
    results = options.results or options.kit / "results"
    config = SiteConfig(
        data=options.data.resolve(),
        target=options.target,
        trusted=options.trusted,
        drop=tuple(options.drop),
        categorical=tuple(options.categorical),
        results=results.resolve(),
        policy=assignments("--policy", options.policy),
    )
    config.gate_policy()
    rows = open_rows(config)
    path = options.kit / "local" / FILE
    config.save(path)
    hardening.harden(options.kit)
    print(f"Site {name}: {rows.n_rows:,} rows, {rows.n_trusted:,} verified ones, {len(rows.names)} feature columns.")
    print(f"Settings: {path}. Check everything with: comt doctor {options.kit}")
    return 0


def run_start(options: argparse.Namespace) -> int:
    """Run the site in the foreground."""
    from comt.agent.site_config import FILE, SiteConfig
    from comt.federation.flare import hardening, processes

    name = hardening.site_name(options.kit)
    config = SiteConfig.load(options.kit / "local" / FILE)
    print(f"Site {name}: answers from {config.data.name}; what leaves is entered in {config.results}.")
    print("Stop it with Ctrl-C.", flush=True)
    return processes.run(options.kit)


def run_ledger(options: argparse.Namespace) -> int:
    """Show what left, and verify that nothing was changed afterwards."""
    from comt.agent.site_config import FILE, SiteConfig
    from comt.cli import ledger

    folder = SiteConfig.load(options.kit / "local" / FILE).results
    if not (folder / ledger.NAME).exists():
        print("Nothing has left this site.")
        return 0
    return ledger.run(argparse.Namespace(path=folder, transcript=None, rounds=False, json=options.json))
