"""Spread a table over agents: buggy, trusted and test rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from comt.datasets._types import Array, Indices, Mask
from comt.datasets.corruptions import CORRUPTIONS, Corruption
from comt.datasets.federated import AgentRows, FederatedData
from comt.datasets.table import Table
from comt.errors import InputError

# A share of the table's rows (float) or a number of rows (int); None is "all that is left".
Amount = float | int | None


class _Drawn(NamedTuple):
    buggy: list[Indices]  # per agent
    trusted: list[Indices]  # per agent
    test: Indices


def federate(
    table: Table,
    *,
    corruption: str | Corruption = "clean",
    trusted: float | int = 0.005,
    train: Amount = None,
    test: Amount = None,
    n_agents: int | None = None,
    trusted_at: int | None = None,
    seed: int = 0,
) -> FederatedData:
    """Draw disjoint buggy, trusted and test rows at random, and corrupt the buggy ones.

    Parameters
    ----------
    table
        Clean rows. With ``sites``, every site is an agent and keeps its own rows; otherwise rows are dealt to
        ``n_agents`` (default 5) agents in equal parts.
    corruption
        A name in ``CORRUPTIONS`` or a corruption with parameters of your own.
    trusted, train, test
        Shares of the table or numbers of rows over all agents. ``test=None`` takes the table's own test rows,
        or else all rows that are left; ``train=None`` takes all that are left.
    trusted_at
        The index of the only agent that has trusted rows; by default they are spread over all agents.
    seed
        Fixes the draw and the corruption separately: with one seed, all corruptions act on the same rows.
    """
    chosen = _corruption(corruption)
    n, own_test = len(table.targets), table.test_targets is not None
    names = _agent_names(table, n_agents)
    if trusted_at is not None and not 0 <= trusted_at < len(names):
        raise InputError(
            f"trusted_at is {trusted_at}, but there are {len(names)} agents; give an index from 0 to {len(names) - 1}."
        )
    m = _count("trusted", trusted, n)
    n_train, n_test = _sizes(train, 0 if own_test else test, m, n)
    draw_rng, corruption_rng = np.random.default_rng(seed).spawn(2)
    if table.sites is None:
        drawn = _draw(n, len(names), (n_train, m, n_test), trusted_at, draw_rng)
    else:
        drawn = _draw_by_site(table.sites, len(names), (n_train, m, n_test), trusted_at, draw_rng)

    clean = [(table.features[rows], table.targets[rows]) for rows in drawn.buggy]
    buggy = chosen(clean, table.task, corruption_rng)
    test_features, test_targets = _test_rows(table, drawn.test, test, draw_rng)
    return FederatedData(
        agents=tuple(
            AgentRows(name, features, targets, table.features[rows], table.targets[rows])
            for name, features, targets, rows in zip(names, buggy.features, buggy.targets, drawn.trusted, strict=True)
        ),
        test_features=test_features,
        test_targets=test_targets,
        task=table.task,
        feature_names=table.feature_names,
        clean_features=tuple(features for features, _ in clean),
        clean_targets=tuple(targets for _, targets in clean),
        wrong_cells=buggy.wrong_cells,
        wrong_targets=buggy.wrong_targets,
        description=(
            f"{table.name}: {len(names)} agents, {n_train} buggy rows ({chosen.description}), "
            f"{m} trusted rows{'' if trusted_at is None else f' at {names[trusted_at]} only'}, "
            f"{len(test_targets)} test rows, seed {seed}"
        ),
        seed=seed,
        malicious=buggy.malicious,
    )


def _corruption(corruption: str | Corruption) -> Corruption:
    if not isinstance(corruption, str):
        return corruption
    if corruption not in CORRUPTIONS:
        raise InputError(f"corruption is {corruption!r}; choose one of {', '.join(CORRUPTIONS)}.")
    return CORRUPTIONS[corruption]


def _agent_names(table: Table, n_agents: int | None) -> tuple[str, ...]:
    if table.sites is None:
        n_agents = 5 if n_agents is None else n_agents
        if n_agents < 1:
            raise InputError(f"n_agents is {n_agents}; give at least 1.")
        return tuple(f"agent {k}" for k in range(n_agents))
    if n_agents not in (None, len(table.site_names)):
        raise InputError(
            f"n_agents is {n_agents}, but {table.name} comes from {len(table.site_names)} sites; leave n_agents out."
        )
    return table.site_names


def _count(what: str, amount: float | int, total: int) -> int:
    share = isinstance(amount, float)
    if amount < 0 or (share and amount > 1) or (not share and amount > total):
        raise InputError(f"{what} is {amount}; give a share from 0.0 to 1.0 or a number up to {total}.")
    return round(amount * total) if share else int(amount)


def _sizes(train: Amount, test: Amount, m: int, n: int) -> tuple[int, int]:
    """Return the numbers of buggy and of test rows to take from the table itself."""
    if train is None and test is None:
        raise InputError("train and test are both None and would both take all rows that are left; give one.")
    n_train = None if train is None else _count("train", train, n)
    n_test = None if test is None else _count("test", test, n)
    if n_train is None:
        n_train = n - m - (n_test or 0)
    if n_test is None:
        n_test = n - m - n_train
    if n_train < 1 or n_test < 0 or n_train + m + n_test > n:
        raise InputError(
            f"{n_train} buggy, {m} trusted and {n_test} test rows do not fit into {n} rows; ask for fewer."
        )
    return n_train, n_test


def _draw(
    n: int, n_agents: int, sizes: tuple[int, int, int], trusted_at: int | None, rng: np.random.Generator
) -> _Drawn:
    """Deal shuffled rows in equal parts."""
    n_train, m, n_test = sizes
    order = rng.permutation(n)
    trusted = order[n_train : n_train + m]
    if trusted_at is None:
        shares = np.array_split(trusted, n_agents)
    else:
        shares = [trusted if k == trusted_at else trusted[:0] for k in range(n_agents)]
    return _Drawn(np.array_split(order[:n_train], n_agents), shares, order[n - n_test :])


def _draw_by_site(
    sites: Indices,
    n_sites: int,
    sizes: tuple[int, int, int],
    trusted_at: int | None,
    rng: np.random.Generator,
) -> _Drawn:
    """Draw from every site in proportion to its rows; no row changes its owner."""
    n_train, m, n_test = sizes
    orders = [rng.permutation(np.flatnonzero(sites == k)) for k in range(n_sites)]
    room = np.array([len(order) for order in orders])
    if trusted_at is None:
        trusted = allot(m, room)
    elif m > room[trusted_at]:
        raise InputError(
            f"{m} trusted rows are asked of one agent that has {room[trusted_at]}; ask for fewer or for another agent."
        )
    else:
        trusted = np.where(np.arange(n_sites) == trusted_at, m, 0)
    test = allot(n_test, room - trusted)
    train = allot(n_train, room - trusted - test)
    return _Drawn(
        buggy=[order[m_k : m_k + n_k] for order, m_k, n_k in zip(orders, trusted, train, strict=True)],
        trusted=[order[:m_k] for order, m_k in zip(orders, trusted, strict=True)],
        test=np.concatenate([order[len(order) - t_k :] for order, t_k in zip(orders, test, strict=True)]),
    )


def allot(total: int, room: Indices) -> Indices:
    """Divide ``total`` in proportion to ``room``, in whole numbers, never beyond it (largest remainders)."""
    if room.sum() == 0:
        return np.zeros_like(room)
    exact = total * room / room.sum()
    parts: Indices = np.floor(exact).astype(np.intp)
    most_due = np.argsort(parts - exact, kind="stable")
    parts[most_due[: total - parts.sum()]] += 1
    return parts


def _test_rows(table: Table, drawn: Indices, test: Amount, rng: np.random.Generator) -> tuple[Array, Array]:
    if table.test_features is None or table.test_targets is None:
        return table.features[drawn], table.targets[drawn]
    keep: Mask | Indices = np.ones(len(table.test_targets), dtype=np.bool_)
    if test is not None:
        n_own = len(table.test_targets)
        keep = np.sort(rng.permutation(n_own)[: _count("test", test, n_own)])
    return table.test_features[keep], table.test_targets[keep]
