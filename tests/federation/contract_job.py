"""A coordinator that runs the contract's cases one after the other inside one job, and sites of the simulator."""

from __future__ import annotations

import traceback
from pathlib import Path

import numpy as np
from contract_cases import CASES
from nvflare.collab import collab

from comt.agent.flare_site import FlareSite
from comt.federation.flare.transport import CollabTransport
from comt.federation.remote import RemoteFederation
from comt.server.coordinator import begin


class SimulatedSite(FlareSite):
    """A site whose settings lie in a folder of the test's, one file per site."""

    def __init__(self, folder: str):
        self.folder = folder

    def settings(self, local: Path, site: str) -> Path:
        return Path(self.folder) / f"{site}.toml"

    @collab.init
    def open(self):
        super().open()

    @collab.publish
    def ask(self, message: bytes) -> bytes:
        return super().ask(message)


class ContractCoordinator:
    """Writes one file per case: arrays, or the traceback of what went wrong."""

    def __init__(self, out: str, cases: str = "", repeat: int = 1):
        self.out, self.cases, self.repeat = out, cases, repeat

    @collab.main
    def run(self):
        out = Path(self.out)
        names = self.cases.split(",") if self.cases else list(CASES)
        for index, name in enumerate(names * self.repeat):
            federation = RemoteFederation(
                CollabTransport(), f"{index:016x}", "regression", seconds=60.0, join_seconds=60.0, masked=False
            )
            times = []
            federation.on_round = lambda purpose, seconds, times=times: times.append(seconds)
            try:
                federation.gather()
                begin(federation)
                arrays = dict(CASES[name](federation))
            except Exception:
                (out / f"{name}.txt").write_text(traceback.format_exc())
                continue
            np.savez(out / f"{name}.npz", **arrays, sites=np.array(federation.agents))
            np.save(out / f"{name}-{index}.times.npy", np.array(times))
