"""The operator's end: who is connected, submit a training. It talks to the coordinator's process over mutual TLS."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import shutil
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from comt.errors import FederationError, InputError
from comt.federation.flare.description import Description
from comt.federation.flare.extra import ENGINE_SETTINGS, need_engine
from comt.federation.flare.kits import OPERATOR

#: seconds for one command of the operator
COMMAND_SECONDS = 15.0
#: a site sends a heartbeat every 10 s; seconds after which it does not count as connected any more
RECENT = 25.0
#: states of a job from which it does not come back
ENDED = "FINISHED"


class Operator:
    """A connection to the coordinator with the operator's certificate.

    Parameters
    ----------
    folder:
        The federation's folder, with the operator's kit in it.
    seconds:
        How long to try to connect.
    """

    def __init__(self, folder: Path, seconds: float = COMMAND_SECONDS) -> None:
        need_engine()
        for name, value in ENGINE_SETTINGS.items():
            os.environ.setdefault(name, value)  # read by the engine when it is imported
        self.federation = Description.load(folder)
        self._kit = folder / "operator"
        if not self._kit.is_dir():
            raise InputError(f"{folder} holds no operator's kit; run this where the federation was created.")
        self._session = self._connect(seconds)

    def _connect(self, seconds: float) -> Any:
        from nvflare.fuel.flare_api.flare_api import new_secure_session

        logging.getLogger("nvflare").setLevel(logging.CRITICAL)
        until = time.monotonic() + seconds
        while True:
            left = until - time.monotonic()
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    return new_secure_session(OPERATOR, str(self._kit.resolve()), timeout=max(1.0, min(5.0, left)))
            except Exception as error:
                # whatever the engine says here, the operator needs to know one thing
                if time.monotonic() >= until:
                    raise FederationError(
                        f"the coordinator at {self.federation.address}:{self.federation.port} does not answer "
                        f"({type(error).__name__}); start it with `comt federation start`."
                    ) from None
                time.sleep(0.2)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with contextlib.suppress(Exception):  # the coordinator may be gone
            self._session.close()

    def sites(self, since: float | None = None) -> tuple[str, ...]:
        """Return the names of the sites heard of lately, or since a moment (in seconds since 1970)."""
        info = self._ask(self._session.get_system_info)
        oldest = time.time() - RECENT if since is None else since
        return tuple(sorted(client.name for client in info.client_info if (client.last_connect_time or 0.0) >= oldest))

    def wait_for(self, wanted: int, seconds: float, since: float | None = None) -> tuple[str, ...]:
        """Wait until so many sites are connected, or until the time is over; return those that are."""
        until = time.monotonic() + seconds
        while True:
            present = self.sites(since)
            if len(present) >= wanted or time.monotonic() >= until:
                return present
            time.sleep(0.3)

    def submit(self, training: str, min_sites: int, server: Any, client: Any) -> str:
        """Submit a training as a job without code, with an object for either side; return the job's name."""
        with tempfile.TemporaryDirectory() as scratch:
            job = write_job(Path(scratch), training, min_sites, server, client)
            return str(self._ask(self._session.submit_job, str(job)))

    def status(self, job: str) -> str:
        """Return the state of a job, such as RUNNING or FINISHED:COMPLETED."""
        return str(self._ask(self._session.get_job_meta, job).get("status", ""))

    def abort(self, job: str) -> None:
        """Stop a job; one that has ended stays so."""
        with contextlib.suppress(Exception):
            self._session.abort_job(job)

    def _ask(self, command: Any, *arguments: Any) -> Any:
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                return command(*arguments)
        except Exception as error:
            raise FederationError(
                f"the coordinator did not carry out '{command.__name__}' ({type(error).__name__}: {_short(error)}); see that "
                "it runs, then go on with --resume."
            ) from None


def write_job(folder: Path, training: str, min_sites: int, server: Any, client: Any) -> Path:
    """Write a job that names the classes of two installed objects and nothing more; code never travels."""
    from nvflare.collab import CollabRecipe

    recipe = CollabRecipe(job_name=training, server=server, client=client, min_clients=min_sites, sync_task_timeout=60)
    with contextlib.redirect_stdout(io.StringIO()):
        recipe.export(str(folder))
    job = folder / training
    for code in job.glob("*/custom"):
        shutil.rmtree(code)
    return job


def _short(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 200 else f"{text[:197]}..."
