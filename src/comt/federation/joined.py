"""What the sites said when they joined: who fits together, which labels and columns they share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from comt import messages
from comt.declaration import Declaration
from comt.errors import InputError
from comt.federation import reasons


def admitted(
    answers: Mapping[str, messages.Joined], columns: tuple[str, ...] | None
) -> tuple[dict[str, messages.Joined], dict[str, str]]:
    """Return the sites that fit the columns (None: those of the first one) and each other; and why others do not."""
    joined: dict[str, messages.Joined] = {}
    unfit: dict[str, str] = {}
    for site in sorted(answers):
        reason = reasons.unfit(answers[site], site, joined, columns)
        if reason:
            unfit[site] = reason
        else:
            joined[site] = answers[site]
    return joined, unfit


def two_labels(joined: Iterable[messages.Joined]) -> tuple[Any, ...]:
    """Return the two labels of a classification over all sites."""
    held = {label for answer in joined for label in answer.labels}
    labels = sorted(held, key=lambda label: (str(type(label)), label))
    if len(labels) != 2 or type(labels[0]) is not type(labels[1]):
        raise InputError(
            f"the sites hold the labels {labels} where a classification needs two of one kind over all sites; have "
            "them write their labels alike."
        )
    return tuple(labels)


def in_order(joined: Iterable[messages.Joined], columns: tuple[str, ...]) -> list[Declaration]:
    """Return what the sites declared, the columns in the federation's order."""
    place = {name: index for index, name in enumerate(columns)}
    return [
        replace(told, columns=tuple(sorted(told.columns, key=lambda column: place[column.name])))
        for answer in joined
        if (told := answer.declaration) is not None
    ]
