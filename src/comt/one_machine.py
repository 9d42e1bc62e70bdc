"""A whole federation on one machine: coordinator and sites as real processes over mutual TLS.

It holds both sides, to try and to measure them; nothing of it runs where a federation is in earnest.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from comt.agent.site_config import FILE, SiteConfig
from comt.federation.flare import kits, processes
from comt.federation.flare.description import Description
from comt.federation.flare.follow import Patience, follow
from comt.federation.flare.operator import Operator
from comt.messages import Task
from comt.server.coordinator import PROGRESS, RESULT, TRAININGS, Request

#: seconds for all processes to be there, and for a whole training
READY, WHOLE = 120.0, 600.0


#: below the ports that a machine gives to connections as they come: such a one could take ours before we listen
PORTS = range(10_240, 32_768)


def free_port() -> int:
    """Return a port that nobody uses at the moment, and that no connection is given by chance."""
    while True:
        port = secrets.choice(PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("", port))
            return port


class OneMachine:
    """Creates a federation, starts all its processes, and stops them at the end whatever happens.

    Parameters
    ----------
    folder:
        Where kits, logs and results go.
    sites:
        The settings of every site, by name; results go where they say.
    """

    def __init__(self, folder: Path, sites: Mapping[str, SiteConfig]) -> None:
        self.folder, self.sites = folder, tuple(sites)
        self.home = folder / "federation"
        kits.create_central(Description("local", "localhost", free_port(), self.sites), self.home)
        for name, config in sites.items():
            config.save(self.home / "sites" / name / "local" / FILE)
        self._running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        try:
            for kit in (self.home / "coordinator", *(self.home / "sites" / name for name in self.sites)):
                self._running += [processes.start(kit, self.folder / f"{kit.name}.log")]
            self.operator = Operator(self.home, READY)
            self.present = self.operator.wait_for(len(self.sites), READY)
        except BaseException:
            processes.stop(self._running)
            raise
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.operator.__exit__(kind, error, trace)
        processes.stop(self._running)

    def train(
        self,
        task: Task,
        parameters: dict[str, Any],
        *,
        masked: bool | None = None,
        show: Callable[[dict[str, Any]], None] | None = None,
    ) -> tuple[dict[str, Any], Path]:
        """Train over all sites; return the result and the training's folder."""
        from comt.agent.flare_site import FlareSite
        from comt.server.flare_coordinator import FlareCoordinator

        folder = self.home / "coordinator" / TRAININGS / secrets.token_hex(8)
        folder.mkdir(parents=True)
        Request(folder.name, task, parameters, min_sites=len(self.sites), masked=masked).save(folder)

        def submit() -> str:
            server = FlareCoordinator(training=folder.name)
            return self.operator.submit(folder.name, len(self.sites), server, FlareSite())

        result = follow(
            self.operator,
            submit,
            folder,
            progress=PROGRESS,
            result=RESULT,
            patience=Patience(whole=WHOLE),
            show=show or (lambda event: None),
        )
        return result, folder
