"""A whole federation on this machine for tests: real processes, mutual TLS, a free port, nothing left behind."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from sites_in_process import FIXED, path_with, settings, site_files

from comt import CoMTClassifier, CoMTRegressor, load
from comt.agent.flare_site import FlareSite
from comt.agent.site_config import FILE
from comt.federation.flare import kits, processes
from comt.federation.flare.description import Description
from comt.federation.flare.follow import Patience, follow
from comt.federation.flare.operator import Operator
from comt.one_machine import free_port
from comt.server.coordinator import MODEL, PROGRESS, RESULT, TRAININGS, Request
from comt.server.flare_coordinator import FlareCoordinator

HERE = str(Path(__file__).parent)


class Deployment:
    """Sites with files, a coordinator, an operator; faults as :class:`faulty_objects.FaultySite` knows them."""

    def __init__(self, folder, n_sites=3, *, task="regression", **data):
        self.folder, self.task = Path(folder), task
        self.names = tuple(f"site-{k + 1}" for k in range(n_sites))
        self.paths = site_files(self.folder, n_sites, task=task, **data)
        self.federation = self.folder / "federation"
        kits.create_central(Description("tests", "localhost", free_port(), self.names), self.federation)
        for name in self.names:
            config = settings(self.paths[name], self.folder / "results" / name)
            config.save(self.kit(name) / "local" / FILE)
        self.running = {}
        self.events = []
        self.environment = {"PYTHONPATH": path_with(HERE)}

    def kit(self, name) -> Path:
        return self.federation / ("coordinator" if name == "coordinator" else f"sites/{name}")

    def start(self, *names):
        self.started = time.time()
        for name in names or ("coordinator", *self.names):
            log = self.folder / f"{name}.console.log"
            self.running[name] = processes.start(self.kit(name), log, self.environment)

    def restart(self, name):
        """Start again what was killed, and wait until the rest has gone."""
        processes.stop([self.running[name]])
        self.start(name)
        self.wait_connected(len(self.names), since=self.started)

    def stop(self):
        processes.stop(self.running.values())

    def pids(self, name):
        return [process.pid for process in processes.family(self.running[name].pid)]

    def fault(self, site, **plan):
        path = self.kit(site) / "local" / "faults.json"
        if plan:
            path.write_text(json.dumps(plan))
        else:
            path.unlink(missing_ok=True)

    def request(self, training, *, min_sites=2, seconds=3.0, masked=False, **parameters):
        estimator = {"regression": CoMTRegressor, "classification": CoMTClassifier}[self.task]
        request = Request(
            training,
            self.task,
            estimator(**FIXED | parameters).get_params(),
            min_sites=min_sites,
            seconds=seconds,
            join_seconds=60.0,
            masked=masked,
        )
        folder = self.kit("coordinator") / TRAININGS / training
        folder.mkdir(parents=True)
        request.save(folder)
        return folder

    def train(self, folder, *, wait_for=None, client=None, resumes=2, whole=120.0):
        """Run or resume the training of a folder; return its result."""
        with Operator(self.federation, 40.0) as operator:
            operator.wait_for(len(self.names) if wait_for is None else wait_for, 40.0)

            def submit():
                server = FlareCoordinator(training=folder.name)
                return operator.submit(folder.name, Request.load(folder).min_sites, server, client or FlareSite())

            return follow(
                operator, submit, folder, progress=PROGRESS, result=RESULT, patience=Patience(60.0, whole, resumes),
                show=self.events.append,
            )  # fmt: skip

    def model(self, folder):
        return load(folder / MODEL)

    def wait_connected(self, n, seconds=60.0, since=None):
        with Operator(self.federation, seconds) as operator:
            present = operator.wait_for(n, seconds, since)
        assert len(present) >= n, present

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()


def allowed(seconds: float) -> float:
    """Return a limit that is meant for a machine with nothing else to do, on this one as busy as it is."""
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def left_running(folder) -> list[str]:
    """Processes that still mention a folder in their command line."""
    import psutil

    until = time.monotonic() + 10
    while True:
        found = []
        for process in psutil.process_iter(["cmdline", "pid"]):
            line = " ".join(process.info["cmdline"] or [])
            if str(folder) in line and process.info["pid"] != os.getpid():
                found.append(line)
        if not found or time.monotonic() > until:
            return found
        time.sleep(0.1)
