"""``comt federation``: the coordinator's commands: create a federation, approve sites, start, see who is there."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any


def add_parser(commands: Any) -> None:
    """Add the command and its parts to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "federation",
        help="coordinate a federation across machines: create, approve, start, status",
        description="The coordinator's commands. Sites use `comt site`; a training is started with `comt train`.",
    )
    parts = parser.add_subparsers(dest="part", required=True, metavar="PART")

    create = parts.add_parser(
        "create",
        help="make the keys and start-up kits of a new federation",
        description="Make a federation. With --sites, the coordinator makes every site's key and kit; without, sites make "
        "their own keys (`comt site request`), which never leave them.",
    )
    create.add_argument("--name", required=True, help="name of the federation: letters, digits, hyphens")
    create.add_argument("--sites", metavar="A,B,C", help="names of the sites; without, sites bring their own keys")
    create.add_argument("--address", required=True, metavar="HOST", help="where sites reach the coordinator")
    create.add_argument(
        "--port", default="8002", metavar="N", help="the one port that sites need to reach (default 8002)"
    )
    create.add_argument(
        "--columns", metavar="A,B", help="feature columns all sites must have (default: the first site's)"
    )
    create.add_argument("--out", required=True, type=Path, metavar="FOLDER", help="a new folder for keys and kits")
    create.set_defaults(run=run_create)

    approve = parts.add_parser("approve", help="approve a site's request", description="Sign the request of a site.")
    approve.add_argument("federation", type=Path, metavar="FEDERATION", help="the federation's folder")
    approve.add_argument("request", type=Path, metavar="REQUEST.zip", help="what `comt site request` wrote")
    approve.add_argument(
        "--out", required=True, type=Path, metavar="FILE.zip", help="the approval, to send back to the site"
    )
    approve.set_defaults(run=run_approve)

    start = parts.add_parser(
        "start", help="run the coordinator", description="Run the coordinator until it is stopped."
    )
    start.add_argument("federation", type=Path, metavar="FEDERATION", help="the federation's folder")
    start.set_defaults(run=run_start)

    status = parts.add_parser("status", help="who is connected", description="Show which sites are connected now.")
    status.add_argument("federation", type=Path, metavar="FEDERATION", help="the federation's folder")
    status.add_argument("--json", action="store_true", help="print one machine-readable object instead of sentences")
    status.set_defaults(run=run_status)


def run_create(options: argparse.Namespace) -> int:
    """Make keys and kits, say what to do with them."""
    from comt.errors import InputError
    from comt.federation.flare import kits
    from comt.federation.flare.description import Description

    if not options.port.isascii() or not options.port.isdigit():
        raise InputError(f"--port {options.port} is not a number; give one from 1 to 65535.")
    federation = Description(
        options.name,
        options.address,
        int(options.port),
        tuple(_names(options.sites)) if options.sites is not None else (),
        tuple(_names(options.columns)) if options.columns is not None else None,
    )
    if options.sites is not None:
        if not federation.sites:
            raise InputError("--sites names no site; give names, such as --sites north,south.")
        kits.create_central(federation, options.out)
        print(f"Federation {federation.name}: kits of {len(federation.sites)} sites in {options.out / 'sites'}.")
        print(
            "Hand each site its own folder over a secure channel (it holds the site's private key), then delete it here."
        )
    else:
        mark = kits.create_distributed(federation, options.out)
        print(f"Federation {federation.name} is made; every site now runs:")
        print(f"  comt site request --federation {federation.name} --name SITE --out FOLDER")
        print(
            "sends you FOLDER/SITE.request.zip, and you run `comt federation approve`. Tell the sites this fingerprint by"
        )
        print(f"telephone or in person, so that they know it is you: {mark}")
    print(f"Start the coordinator: comt federation start {options.out}")
    return 0


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def run_approve(options: argparse.Namespace) -> int:
    """Sign one request."""
    from comt.errors import InputError
    from comt.federation.flare import kits

    if not (options.federation / "profile.yml").exists():
        raise InputError(
            f"{options.federation} was not made for requests; create the federation without --sites to approve them."
        )
    kits.approve(options.federation, options.request, options.out)
    print(f"Approved. Send {options.out} back to the site; it holds no private key.")
    return 0


def run_start(options: argparse.Namespace) -> int:
    """Run the coordinator in the foreground."""
    from comt.federation.flare import processes
    from comt.federation.flare.description import Description

    federation = Description.load(options.federation)
    print(f"Coordinator of {federation.name}, port {federation.port}; stop it with Ctrl-C.", flush=True)
    return processes.run(options.federation / "coordinator")


def run_status(options: argparse.Namespace) -> int:
    """Say who is connected and which trainings there are."""
    from comt.federation.flare.operator import Operator

    with Operator(options.federation) as operator:
        present, known = operator.sites(), operator.federation.sites
    trainings = sorted(
        (path.parent.name, (path.parent / "result.json").exists())
        for path in (options.federation / "coordinator" / "trainings").glob("*/request.json")
    )
    absent = sorted(set(known) - set(present))
    if options.json:
        print(json.dumps({"present": present, "absent": absent, "trainings": dict(trainings)}))
        return 0
    print(f"Connected: {', '.join(present) or 'nobody'}.")
    if absent:
        print(f"Not connected: {', '.join(absent)}.")
    for name, ended in trainings:
        print(f"Training {name}: {'ended' if ended else 'open; go on with comt train --resume ' + name}.")
    return 0
