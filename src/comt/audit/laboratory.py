"""The attacks in the laboratory: sites with known rows and a coordinator who asks what it likes, unprotected and protected.

*Off* is what a plain federation shows, or the paper's printed messages. *On* are the defaults of a data holder whose policy
file says nothing (:meth:`comt.agent.policy.Policy.protective`), under masks. Every attack is scored from 0 (nothing) to 1
(exact) against the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from comt.agent import Agent, ArrayRows, Policy
from comt.agent.site import Site
from comt.audit import attacks
from comt.errors import ComtError
from comt.federation import LocalFederation
from comt.federation.base import Federation
from comt.federation.channel import LocalChannel
from comt.federation.masked import MaskedFederation
from comt.federation.transcript import Transcript
from comt.masking.identity import KeyIdentity, KnownKeys
from comt.preparation import Preparation
from comt.problem import Array, TeachingProblem
from comt.queries import CurvatureTimes, DualSums, Query, SubsetSum
from comt.server.training import Settings, train


@dataclass(frozen=True)
class Outcome:
    """What one attack got, from 0 (nothing) to 1 (exact), off and on; and what that number is."""

    attack: str
    off: float
    on: float
    meaning: str
    refusal: str = ""
    #: what a guess would get
    chance: float = 0.0


@dataclass(frozen=True)
class Holder:
    """Rows of one site in the laboratory."""

    features: Array
    targets: Array
    trusted_features: Array
    trusted_targets: Array


def holders(
    n_sites: int = 5, n_rows: int = 100, n_trusted: int = 1, n_features: int = 10, seed: int = 0
) -> list[Holder]:
    """Draw sites with skewed features, as real ones are, and a linear target."""
    rng = np.random.default_rng(seed)
    model = rng.standard_normal(n_features)

    def rows(count: int) -> tuple[Array, Array]:
        features = rng.laplace(size=(count, n_features))
        return features, features @ model + 0.3 * rng.standard_normal(count)

    return [Holder(*rows(n_rows), *rows(n_trusted)) for _ in range(n_sites)]


def agents(parts: Sequence[Holder], policy: Policy | None = None) -> list[Agent]:
    """Return one agent per holder."""
    return [
        Agent(f"site-{k}", ArrayRows(part.features, part.targets, part.trusted_features, part.trusted_targets), policy)
        for k, part in enumerate(parts)
    ]


def sites(members: Sequence[Agent]) -> list[Site]:
    """Give every agent a key of its own, and everybody everybody's public key."""
    identities = {agent.name: KeyIdentity(agent.name) for agent in members}
    directory = KnownKeys({name: identity.credential for name, identity in identities.items()})
    return [Site(agent, identities[agent.name], directory) for agent in members]


def masked(members: Sequence[Agent], transcript: Transcript | None = None) -> MaskedFederation:
    """Return a masked federation over agents in this process."""
    return MaskedFederation(LocalChannel(sites(members)), transcript=transcript)


Attack = Callable[[Sequence[Holder], Callable[[Sequence[Holder]], Federation], Transcript], float]


def both(
    name: str,
    meaning: str,
    parts: Sequence[Holder],
    attack: Attack,
    *,
    off: float | None = None,
    instead: Sequence[Holder] | None = None,
    chance: float = 0.0,
) -> Outcome:
    """Run an attack without protection and with the defaults; what is refused yields 0.

    Where the gate refuses the rows on which an attack works best, ``instead`` has the rows with which it goes on.
    """
    if off is None:
        seen = Transcript()
        off = attack(parts, lambda some: LocalFederation(agents(some), threads=1, transcript=seen), seen)
    seen_masked = Transcript()
    # the same sites stay alive over several federations, so that their gates remember
    protected_parts = instead or parts
    members = agents(protected_parts, Policy.protective())

    def protected(some: Sequence[Holder]) -> Federation:
        return masked(members[: len(some)], seen_masked)

    refusal = ""
    try:
        if instead is not None:
            try:
                attack(parts, lambda some: masked(agents(some, Policy.protective()), Transcript()), Transcript())
            except ComtError as error:
                refusal = str(error)
        on = attack(protected_parts, protected, seen_masked)
    except ComtError as error:
        on, refusal = 0.0, str(error)
    return Outcome(name, off, on, meaning, refusal, chance)


def run(seed: int = 0) -> list[Outcome]:
    """Run every attack."""
    few = holders(n_trusted=1, seed=seed)
    enough = holders(n_trusted=6, seed=seed)
    many = holders(n_trusted=40, seed=seed)
    wide = holders(n_features=60, n_trusted=3, n_rows=40, seed=seed)
    wide_enough = holders(n_features=60, n_trusted=16, n_rows=40, seed=seed)
    return [
        both(
            "trusted gradient from replies",
            "cosine of what is read with the site's trusted row",
            few,
            _gradient,
            off=_printed_gradient(few),
            instead=enough,
            chance=_chance(1, enough),
        ),
        both("Gram matrix by chosen directions", "share of one site's X̃ᵀX̃ that is found", enough, _chosen_directions),
        both("nested subset sums", "cosine of the difference with a row", enough, _nested),
        both("differencing of rounds", "share of one site's answer that is found", enough, _one_site_less),
        both("row space of trusted rows", "share of the trusted rows inside the space found", few, _row_space),
        both(
            "blind source separation",
            "mean cosine of the rows found with trusted rows",
            wide,
            _separation,
            instead=wide_enough,
            chance=_chance(len(wide_enough[0].trusted_targets), wide_enough),
        ),
        both(
            "membership in the training rows",
            "2·AUC − 1 of trusted rows against fresh ones",
            few,
            partial(_membership, fresh=holders(n_sites=6, n_trusted=400, seed=seed)[-1]),
            instead=many,
        ),
    ]


def _chance(n_guesses: int, parts: Sequence[Holder]) -> float:
    """Return the mean cosine that random guesses have with a site's trusted rows."""
    rows = parts[0].trusted_features
    guesses = np.random.default_rng(0).standard_normal((200, n_guesses, rows.shape[1]))
    return float(np.mean([attacks.best_cosines(guess, rows) for guess in guesses]))


def _identity(parts: Sequence[Holder]) -> Preparation:
    return Preparation.identity(parts[0].features.shape[1])


def _sums(parts: Sequence[Holder], theta: Array) -> DualSums:
    return DualSums(
        loss_name="squared",
        preparation=_identity(parts),
        r=theta[None, :],
        theta=theta[None, :],
        lambda_alpha=np.zeros(1),
        lambda_z=np.full(1, np.inf),
    )


def _printed_gradient(parts: Sequence[Holder], rho: float = 100.0, lambda_trusted: float = 1.0) -> float:
    """Play the printed θ̃-step: every agent replies with its own minimiser."""
    v = np.zeros(parts[0].features.shape[1])
    scores = []
    for part in parts:
        x, y = part.trusted_features, part.trusted_targets
        curvature = rho * np.eye(len(v)) + 2 * lambda_trusted * x.T @ x
        reply = np.asarray(np.linalg.solve(curvature, rho * v + 2 * lambda_trusted * x.T @ y), dtype=np.float64)
        found = attacks.trusted_gradient(v, reply, rho, lambda_trusted)
        scores.append(attacks.best_cosines(found[None, :], x)[0])
    return float(np.mean(scores))


def _gradient(parts: Sequence[Holder], federation: Callable[..., Federation], seen: Transcript) -> float:
    federation(parts).sum(_sums(parts, np.zeros(parts[0].features.shape[1])))
    cosines = [
        attacks.best_cosines(attacks.trusted_slopes(seen.rounds, f"site-{k}"), part.trusted_features).mean()
        for k, part in enumerate(parts)
    ]
    return float(np.mean(cosines))


def _chosen_directions(parts: Sequence[Holder], federation: Callable[..., Federation], seen: Transcript) -> float:
    group, width = federation(parts), parts[0].features.shape[1]
    zero = np.zeros(width)
    for direction in np.eye(width):
        query = CurvatureTimes(
            loss_name="squared", preparation=_identity(parts), r=zero, theta=zero, lambda_alpha=0.0, lambda_z=np.inf,
            along_r=zero, along_theta=direction,
        )  # fmt: skip
        group.sum(query)
    truth = 2.0 * parts[0].trusted_features.T @ parts[0].trusted_features
    return _share(attacks.chosen_directions(seen.rounds, "site-0"), truth)


def _share(found: Array, truth: Array) -> float:
    """1 for the truth, 0 for anything that is no better than nothing."""
    if found.shape != truth.shape:
        return 0.0
    return max(0.0, 1.0 - float(np.linalg.norm(found - truth) / np.linalg.norm(truth)))


def _nested(parts: Sequence[Holder], federation: Callable[..., Federation], seen: Transcript) -> float:
    """Top ten and top eleven by |α|; the coordinator would find the thresholds by counting."""
    misfit = np.sort(np.concatenate([np.abs(part.targets) for part in parts]))[::-1]
    r = np.zeros((2, parts[0].features.shape[1]))
    query = SubsetSum(
        loss_name="squared", preparation=_identity(parts), r=r, lambda_alpha=0.0, lambda_z=np.inf,
        thresholds=(misfit[[19, 20]] + misfit[[20, 21]]) / 2.0,
    )  # fmt: skip
    federation(parts).sum(query)
    found = attacks.nested_sums(seen.rounds)
    rows = np.concatenate([part.features for part in parts])
    return max((attacks.best_cosines(rows, one[None, :]).item() for one in found), default=0.0)


def _one_site_less(parts: Sequence[Holder], federation: Callable[..., Federation], seen: Transcript) -> float:
    query: Query = _sums(parts, np.zeros(parts[0].features.shape[1]))
    federation(parts).sum(query)
    federation(parts[:-1]).sum(query)
    truth = parts[-1].features.T @ parts[-1].features
    found = [difference["weight_xx"][0] for difference in attacks.one_site_less(seen.rounds)]
    return max((_share(one, truth) for one in found), default=0.0)


def _row_space(parts: Sequence[Holder], federation: Callable[..., Federation], seen: Transcript) -> float:
    federation(parts).sum(_sums(parts, np.zeros(parts[0].features.shape[1])))
    basis = attacks.row_space(seen.rounds)
    rows = np.concatenate([part.trusted_features for part in parts])
    if basis.size == 0 or len(basis) >= rows.shape[1]:  # the whole space says nothing
        return 0.0
    return float(np.linalg.norm(rows @ basis.T) ** 2 / np.linalg.norm(rows) ** 2)


def _separation(parts: Sequence[Holder], federation: Callable[..., Federation], seen: Transcript) -> float:
    group, width = federation(parts), parts[0].features.shape[1]
    rng = np.random.default_rng(1)
    for _ in range(24):
        group.sum(_sums(parts, rng.standard_normal((width,))))
    n_rows = len(parts[0].trusted_targets)
    found = attacks.separated_rows(attacks.trusted_slopes(seen.rounds, "site-0"), n_rows)
    return float(attacks.best_cosines(found, parts[0].trusted_features).mean())


def _membership(
    parts: Sequence[Holder], federation: Callable[..., Federation], seen: Transcript, fresh: Holder
) -> float:
    """Few trusted rows, heavily weighted, are learnt by heart."""
    settings = Settings(TeachingProblem("squared", 1e-2, 100.0, intercept=True), standardize=False)
    theta = train(federation(parts), settings).theta
    members = (
        np.concatenate([part.trusted_features for part in parts]),
        np.concatenate([p.trusted_targets for p in parts]),
    )
    coefficients, constant = theta[:-1], 10.0 * theta[-1]
    losses = [
        (x @ coefficients + constant - y) ** 2 for x, y in (members, (fresh.trusted_features, fresh.trusted_targets))
    ]
    return max(0.0, 2.0 * attacks.membership(*losses) - 1.0)
