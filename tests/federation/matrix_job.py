"""A coordinator that runs many trainings in one job, each with another fault at another round."""

from __future__ import annotations

import json
from pathlib import Path

from nvflare.collab import collab

from comt.federation.flare.transport import CollabTransport
from comt.federation.journal import Journal
from comt.server.coordinator import Progress, Request, report, run


class MatrixCoordinator:
    """Plans the fault at a site, trains, writes what came out; the site is welcome again in the next training."""

    def __init__(self, plan: str):
        self.plan = plan

    @collab.main
    def run(self):
        plan = json.loads(Path(self.plan).read_text())
        for index, cell in enumerate(plan["cells"]):
            faults = Path(plan["faults"])
            faults.write_text(json.dumps(cell["fault"]))
            request = Request(
                f"{index:08x}",
                "regression",
                plan["parameters"],
                min_sites=2,
                seconds=2.0,
                join_seconds=20.0,
                masked=False,
            )
            out = Path(cell["out"])
            try:
                outcome = run(CollabTransport(), request, Journal(None), Progress(None))
                out.write_text(json.dumps({**report(outcome), "coef": outcome.model.coef.tolist()}))
            finally:
                faults.unlink()
        Path(plan["done"]).touch()
