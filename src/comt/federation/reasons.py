"""Why a site's answer is not in a sum, in words that are about the site and tell nothing about its rows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from comt import __version__, messages
from comt.errors import ProtocolError
from comt.queries import Query

#: no sum over rows is larger than this: its square would not fit a float
MAX_MAGNITUDE = 1e150
#: the word for a refusal by the owner's policy, in replies and under masks
POLICY, POLICY_UNDER_MASKS = "policy", "gate"


def refusal(word: str) -> str:
    """Say in words why a site refused; its own log says more."""
    known = {
        "": "",
        POLICY: "refused by its own policy",
        "data": "could not use its data",
        "protocol": "refused a question it does not understand",
        "late": "was still busy with an earlier question",
        "equivocation": "was told something else than the other sites",
    }
    return known.get(word, "failed; its operator finds the reason in its log")


def refused_question(query: Query) -> str:
    """Say what a site's policy does not allow."""
    return f"refused '{query.purpose}' by its own policy"


def unfit(
    answer: messages.Joined, site: str, joined: Mapping[str, messages.Joined], columns: tuple[str, ...] | None
) -> str:
    """Say why a site cannot join; nothing if it can."""
    if answer.refusal:
        return refusal(answer.refusal)
    if answer.site != site:
        return f"calls itself {ascii(answer.site)[:60]}"
    if answer.version != __version__:
        return f"runs comt {ascii(answer.version)[:30]} where the coordinator runs {__version__}"
    if columns is None and joined:
        columns = next(iter(joined.values())).columns
    if columns is not None and set(answer.columns) != set(columns):
        differing = sorted(set(answer.columns) ^ set(columns))
        return f"has other columns than the federation (differing: {', '.join(map(ascii, differing[:5]))})"
    return _other_kind(answer, joined)


def _other_kind(answer: messages.Joined, joined: Mapping[str, messages.Joined]) -> str:
    """Say which column holds numbers here and categories at the sites that joined before."""
    kinds: dict[str, str] = {}
    for other in joined.values():
        kinds = _kinds(other) | kinds
    for name, kind in _kinds(answer).items():
        if kinds.get(name, kind) != kind:
            words = {"number": "numbers", "category": "categories"}
            return f"holds {words[kind]} in column {name!a} where the others hold {words[kinds[name]]}"
    return ""


def _kinds(answer: messages.Joined) -> dict[str, str]:
    told = () if answer.declaration is None else answer.declaration.columns
    return {column.name: column.kind for column in told if column.kind != "empty"}


def wrong(query: Query, reply: messages.Reply, site: str, envelope: messages.Envelope) -> str:
    """Say what is wrong with an answer; nothing if it is exactly what was asked for."""
    if reply.site != site:
        return f"answered under the name {ascii(reply.site)[:60]}"
    if (reply.training, reply.round) != (envelope.training, envelope.round):
        return f"answered round {reply.round} where round {envelope.round} was asked"
    try:
        query.check_answer(reply.arrays, site)
    except ProtocolError as error:
        return _said(error, site)
    largest = max((float(np.abs(array).max()) for array in reply.arrays.values() if array.size), default=0.0)
    if largest > MAX_MAGNITUDE:
        return f"answered '{query.purpose}' with a number of size {largest:.0e}, beyond any sum over rows"
    return ""


def _said(error: ProtocolError, site: str) -> str:
    """Take the reason out of a message that begins with the site's name."""
    return str(error).removeprefix(f"agent {site} ").split(";")[0]
