"""Messages over NVIDIA FLARE's Collab API: the one place, on the coordinator's side, that calls it."""

from __future__ import annotations

from collections.abc import Sequence

from nvflare.collab import collab

from comt.federation.remote import Replies


class CollabTransport:
    """Calls the one published method of the sites of this job. Use it inside a job's main only."""

    @property
    def sites(self) -> tuple[str, ...]:
        """Names of the sites of this job."""
        return tuple(sorted(proxy.name for proxy in collab.clients))

    def ask(self, sites: Sequence[str], message: bytes, seconds: float) -> Replies:
        """Send the message to every named site at once; an aborted job raises, which nobody here may catch."""
        results = collab.get_clients(list(sites))(timeout=seconds).ask(message)
        failures = {site: _reason(error, seconds) for site, error in results.failures.items()}
        return Replies(dict(results), failures)


def _reason(error: object, seconds: float) -> str:
    if getattr(error, "cause_type", None) == "TimeoutError" or "TimeoutError" in repr(getattr(error, "cause", "")):
        return f"did not answer within {seconds:g} s"
    return "could not be reached, or failed; its operator finds the reason in its log"
