"""Messages over NVIDIA FLARE's Collab API: the one place, on the coordinator's side, that calls it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from nvflare.collab import collab
from nvflare.collab.api.exceptions import RunAborted

from comt.federation.transport import Replies

#: seconds in which the engine makes up its mind whether a lost site ends the whole job
ABORT_SECONDS = 3.0


class CollabTransport:
    """Calls the one published method of the sites of this job. Use it inside a job's main only."""

    @property
    def sites(self) -> tuple[str, ...]:
        """Names of the sites of this job."""
        return tuple(sorted(proxy.name for proxy in collab.clients))

    def ask(self, sites: Sequence[str], message: bytes, seconds: float) -> Replies:
        """Send the message to every named site at once; an aborted job raises, which nobody here may catch."""
        started = time.monotonic()
        results = collab.get_clients(list(sites))(timeout=seconds).ask(message)
        early = time.monotonic() - started < seconds
        failures: dict[str, str] = {}
        for site, error in results.failures.items():
            if error.remote_traceback is not None or not _silent(error):
                failures[site] = "failed; its operator finds the reason in its log"
                continue
            if early:
                _check_aborted()  # a site whose process was killed ends the whole job: it has not left, it died
            failures[site] = f"did not answer within {seconds:g} s"
        return Replies(dict(results), failures)


def _silent(error: object) -> bool:
    return isinstance(getattr(error, "cause", None), TimeoutError) or getattr(error, "cause_type", "") == "TimeoutError"


def _check_aborted() -> None:
    until = time.monotonic() + ABORT_SECONDS
    while time.monotonic() < until:
        if collab.is_aborted:
            raise RunAborted("a process of this job was killed")
        time.sleep(0.05)
