"""Sites in this process behind the transport's interface, with faults on demand: what a federation does is tested on them."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pandas as pd

from comt import messages, wire
from comt.agent.site_config import SiteConfig
from comt.agent.site_service import SiteService
from comt.federation.transport import Replies
from comt.masking.identity import KeyIdentity, KnownKeys
from comt.messages import Envelope, Reply


def path_with(*folders):
    """Return the processes' PYTHONPATH: these folders, and whatever this process was told (the comt under test)."""
    return os.pathsep.join([*folders, *filter(None, [os.environ.get("PYTHONPATH")])])


def site_files(folder, n_sites=3, *, task="regression", n=120, d=3, seed=0, trusted=20, noise=0.3):
    """Write one CSV per site; return the paths by site."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=d)
    paths = {}
    for k in range(n_sites):
        x = rng.normal(size=(n, d)) * np.arange(1, d + 1)
        y = x @ weights + noise * rng.normal(size=n)
        if task == "classification":
            y = np.where(y > 0, "yes", "no")
        table = pd.DataFrame(x, columns=[f"x{i}" for i in range(d)])
        table["y"] = y
        bad = np.arange(n) >= n - n // 5
        table.loc[bad, "y"] = (
            table.loc[bad, "y"].map({"yes": "no", "no": "yes"}) if task == "classification" else -y[bad]
        )
        table["ok"] = (np.arange(n) < trusted).astype(int)
        paths[f"site-{k + 1}"] = folder / f"site-{k + 1}.csv"
        table.to_csv(paths[f"site-{k + 1}"], index=False)
    return paths


#: the objective with fixed weights: checks of exactness choose nothing
FIXED = {
    "teaching": "dual", "lambda_w": 1.0, "lambda_trusted": 1.0, "lambda_alpha": 0.0, "lambda_z": np.inf, "select": None,
}  # fmt: skip
#: a site that trusts its coordinator: every sum may be seen by itself
PLAIN = {
    "masked": False, "min_rows": 1, "min_trusted_rows": 0, "max_magnitude": 1e100, "by_agent": True,
    "max_rounds": 10**6, "max_refusals": 10**6,
}  # fmt: skip


def settings(path, folder, *, protective=False, categorical=(), **policy):
    policy = policy if protective else PLAIN | policy
    return SiteConfig(path, "y", "ok", results=folder, policy=policy, categorical=categorical)


def open_sites(folder, paths, **policy):
    """Sites with keys of their own, which all of them know."""
    identities = {name: KeyIdentity(name) for name in paths}
    known = KnownKeys({name: identity.credential for name, identity in identities.items()})
    return {
        name: SiteService(
            name,
            lambda path=path, name=name: settings(path, folder / "results" / name, **policy),
            lambda name=name: (identities[name], known),
        )
        for name, path in paths.items()
    }


def agents_of(paths, task="regression", policy=None):
    """The same rows as agents of a local federation."""
    from comt.agent import Agent, FileRows

    agents = [Agent(name, FileRows(path, target="y", trusted="ok"), policy) for name, path in paths.items()]
    if task == "classification":
        for agent in agents:
            agent.rows.use_classes(("no", "yes"))
    return agents


class SitesInProcess:
    """A transport without a network: bytes in, bytes out, faults where the plan says so.

    ``faults`` maps a site to (kind, round): the round from which it misbehaves.
    """

    def __init__(self, sites, faults=()):
        self._sites = dict(sites)
        self.faults = dict(faults)
        self.messages: list[bytes] = []
        self.sealed = 0

    @property
    def sites(self):
        return tuple(sorted(self._sites, reverse=True))  # the order must not matter

    def _round(self, asked):
        """Rounds are numbered openly without masks; under masks the messages are counted."""
        if isinstance(asked, Envelope):
            return asked.round
        self.sealed += 1
        return self.sealed

    def ask(self, sites, message, seconds):
        answers, failures = {}, {}
        asked = messages.parse(message, *FROM_COORDINATOR)
        self.messages.append(message)
        for name in sites:
            kind, first = self.faults.get(name, ("", 0))
            faulty = kind and isinstance(asked, (Envelope, messages.Sealed)) and self._round(asked) >= first
            if faulty and kind == "silent":
                failures[name] = f"did not answer within {seconds:g} s"
                continue
            reply = self._sites[name].handle(message)
            answers[name] = spoiled(reply, kind) if faulty else reply
            self.messages.append(answers[name])
        return Replies(answers, failures)


FROM_COORDINATOR = (messages.Join, messages.Begin, messages.Agreed, Envelope, messages.Sealed, messages.Finish)


def spoiled(data: bytes, kind: str) -> bytes:
    """Return another reply than the right one."""
    reply = messages.parse(data, Reply)
    if kind == "garbage":
        return b"\x80\x04 not ours"
    changes = {
        "nan": lambda: {"arrays": {k: np.full_like(v, np.nan) for k, v in reply.arrays.items()}},
        "shape": lambda: {"arrays": {k: np.zeros((7, 7)) for k in reply.arrays}},
        "names": lambda: {"arrays": {"other": np.zeros(1)}},
        "huge": lambda: {"arrays": {k: v + 1e200 for k, v in reply.arrays.items()}},
        "stale": lambda: {"round": reply.round - 1},
        "training": lambda: {"training": "f" * 16},
        "imposter": lambda: {"site": "site-9"},
        "raise": lambda: {"arrays": {}, "refusal": "failure"},
        "policy": lambda: {"arrays": {}, "refusal": "policy"},
    }
    return wire.pack(replace(reply, **changes[kind]()))
