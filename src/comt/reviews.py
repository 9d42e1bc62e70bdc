"""What an expert says about rows: accept a suggestion, reject it, or correct the row. Private to its owner.

Reviewed rows become trusted. Rows that were shown because they looked bad are no fair sample of an owner's rows, so only
those drawn at random may later be used to score models.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from comt.agent.tables import Verdict
from comt.errors import InputError
from comt.schema import as_text
from comt.spreadsheets import original
from comt.writing import write_whole

FORMAT = "comt-review/1"
Kind = Literal["accept", "reject", "correct"]
Drawn = Literal["worst", "random"]
#: columns of the issue table that a review file shows; the row's own cells follow as "value of <name>"
SHOWN = ("score", "kind", "column", "given", "suggested")
VALUE = "value of "
#: kinds of issues whose given and suggested value are those of the column named, if one is, not of the target
CELL_KINDS = ("unit", "missing code", "feature")


@dataclass(frozen=True)
class Decision:
    """One row: ``accept`` (the suggested target), ``reject`` (the given one was right) or ``correct`` (these values)."""

    row: int
    decision: Kind
    target: Any = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    drawn: Drawn = "worst"


@dataclass(frozen=True)
class Reviews:
    """The decisions about one agent's rows.

    Examples
    --------
    >>> reviews = Reviews("A", "", (Decision(3, "accept"), Decision(5, "correct", target=1.5, drawn="random")))
    >>> table = pd.DataFrame({"row": [3, 5], "given": [9.0, 9.0], "suggested": [2.0, 2.0]})
    >>> {row: verdict.target for row, verdict in reviews.verdicts(table).items()}  # None: as given
    {3: 2.0, 5: 1.5}
    """

    agent: str
    run: str
    decisions: tuple[Decision, ...] = ()

    @classmethod
    def read(cls, path: str | Path) -> Reviews:
        """Read the browser's export (JSON) or a filled-in review file (CSV)."""
        path = Path(path)
        try:
            text = path.read_bytes().decode("utf-8-sig")
        except OSError as error:
            raise InputError(f"{path} cannot be read ({error.strerror}); give a review file.") from None
        except UnicodeDecodeError:
            raise InputError(f"{path} is not UTF-8; save it as CSV in UTF-8.") from None
        try:
            return _from_json(text) if path.suffix.lower() == ".json" else _from_csv(text)
        except KeyError as error:
            reason = f"{error} is missing"
        except (TypeError, ValueError) as error:
            reason = str(error)
        raise InputError(f"{path} is no review of CoMT ({reason}); give what `comt review` or the report wrote.")

    def save(self, path: str | Path) -> None:
        """Write the reviews as JSON that only its owner can read."""
        content = {"format": FORMAT, "agent": self.agent, "run": self.run}
        decisions = [asdict(decision) for decision in self.decisions]
        text = json.dumps(content | {"decisions": decisions}, indent=2, ensure_ascii=False, default=_plain)
        write_whole(Path(path), text + "\n", private=True)

    def then(self, later: Reviews) -> Reviews:
        """Add later decisions; about the same row the later one holds."""
        decided = {decision.row: decision for decision in (*self.decisions, *later.decisions)}
        return Reviews(self.agent, later.run or self.run, tuple(decided.values()))

    def verdicts(self, issues: pd.DataFrame, classes: Sequence[Any] | None = None) -> dict[int, Verdict]:
        """Return the right values of every reviewed row.

        Parameters
        ----------
        issues:
            The issue table the expert looked at (``row``, ``suggested`` and, where they are there, ``kind`` and ``column``).
        classes:
            The labels of a classification; None: targets are numbers.
        """
        lines = issues.drop_duplicates("row").set_index("row")
        found = {}
        for decision in self.decisions:
            target = changes = None
            if decision.decision == "correct":
                target, changes = decision.target, decision.changes
            elif decision.decision == "accept":
                target, changes = self._accepted(decision, lines)
            right = None if target is None else self._target(target, classes)
            found[decision.row] = Verdict(right, changes or {}, decision.drawn == "random")
        return found

    def _accepted(self, decision: Decision, lines: pd.DataFrame) -> tuple[Any, Mapping[str, Any]]:
        """Return what was suggested: as the decision says it, or else as the issue table does."""
        if decision.target is not None or decision.changes:
            return decision.target, decision.changes
        if decision.row not in lines.index:
            raise InputError(
                f"a review of agent {self.agent} accepts a suggestion about row {decision.row}, which is not in its issue "
                "table; review the rows of this run, or give the right target."
            )
        line = lines.loc[decision.row]
        column = line.get("column")
        if line.get("kind") in CELL_KINDS and isinstance(column, str) and column:
            return None, {column.split(", ")[0]: line["suggested"]}
        return line["suggested"], {}

    def resolved(self, verdicts: Mapping[int, Verdict]) -> Reviews:
        """Return the same reviews with every right value written out, so that they need no issue table any more."""
        decisions = tuple(
            replace(decision, decision="correct", target=verdict.target, changes=dict(verdict.changes))
            for decision, verdict in ((decision, verdicts[decision.row]) for decision in self.decisions)
        )
        return replace(self, decisions=decisions)

    def _target(self, value: Any, classes: Sequence[Any] | None) -> Any:
        """Read a target in the kind that the model has: a number, or one of its labels."""
        if classes is None:
            try:
                number = float(value)
            except (TypeError, ValueError):
                number = np.nan
            if np.isfinite(number):
                return number
            raise InputError(f"a review of agent {self.agent} gives the target {value!r}; give a finite number.")
        for label in classes:
            if value == label or _label_text(value) == _label_text(label):
                return label
        raise InputError(
            f"a review of agent {self.agent} gives the label {value!r}; give one of {', '.join(map(repr, classes))}."
        )

    def apply(self, X: Any, y: Any, trusted: Any, issues: pd.DataFrame) -> tuple[Any, NDArray[Any], NDArray[np.bool_]]:
        """Return copies of X, y and trusted in which reviewed rows are trusted and have the expert's values.

        ``issues`` is the estimator's own table; rows are counted as in X.
        """
        X, y = X.copy(), np.array(y)
        classes = None if y.dtype.kind == "f" else np.unique(y).tolist()
        trusted = np.zeros(len(y), dtype=bool) if trusted is None else np.array(trusted, dtype=bool)
        for row, verdict in self.verdicts(issues, classes).items():
            trusted[row] = True
            if verdict.target is not None:
                y[row] = verdict.target
            for name, value in verdict.changes.items():
                if hasattr(X, "columns"):
                    X.iloc[row, X.columns.get_loc(name)] = value
                else:
                    X[row, int(name)] = value
        return X, y, trusted


def review_table(inspected: pd.DataFrame, rows: pd.DataFrame, *, agent: str, run: str) -> pd.DataFrame:
    """Return a review to fill in: the lines to look at, an empty decision, and the cells of each row."""
    lines = {"run": run, "agent": agent, "row": inspected["row"], "drawn": inspected["drawn"], "decision": ""}
    lines |= {name: inspected[name] for name in SHOWN if name in inspected} | {"correct target": ""}
    cells = rows.loc[inspected["row"]].reset_index(drop=True)
    for name in cells.columns[[kind.kind == "f" for kind in cells.dtypes]]:  # whole numbers are shown as such
        shown = [int(value) if value.is_integer() else value for value in cells[name].tolist()]
        cells[name] = pd.Series(shown, dtype=object)
    return pd.concat([pd.DataFrame(lines).reset_index(drop=True), cells.add_prefix(VALUE)], axis=1)


def _from_json(text: str) -> Reviews:
    content = json.loads(text)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f"its format is not {FORMAT!r}")
    if not isinstance(content["decisions"], list):
        raise TypeError("decisions are no list")
    decisions = []
    for entry in content["decisions"]:
        if not isinstance(entry, dict) or type(entry["row"]) is not int:
            raise TypeError("a decision has no row number")
        changes = entry.get("changes") or {}
        if not isinstance(changes, dict) or not all(_is_cell(value) for value in changes.values()):
            raise TypeError(f"the changes of row {entry['row']} are not cells")
        if not _is_cell(entry.get("target")):
            raise TypeError(f"the target of row {entry['row']} is no cell")
        decisions.append(_decision(entry["row"], entry["decision"], entry.get("target"), changes, entry.get("drawn")))
    return Reviews(str(content["agent"]), str(content.get("run", "")), tuple(decisions))


def _from_csv(text: str) -> Reviews:
    lines = list(csv.DictReader(text.splitlines(keepends=True), strict=True))
    decisions, agents, runs = [], set(), set()
    for line in lines:
        if None in line or None in line.values():
            raise ValueError("a line has more or fewer cells than the header")
        word = line["decision"].strip().lower()
        agents.add(line["agent"])
        runs.add(line["run"])
        if word:
            row, target = int(line["row"]), original(line["correct target"])
            cells = {name.removeprefix(VALUE): cell for name, cell in line.items() if name.startswith(VALUE)}
            changes = {name: original(cell) or None for name, cell in cells.items()} if word == "correct" else {}
            decisions.append(_decision(row, word, target or None, changes, line["drawn"]))
    if len(agents) != 1 or len(runs) != 1:
        raise ValueError("it is not about exactly one agent and run")
    return Reviews(agents.pop(), runs.pop(), tuple(decisions))


def _decision(row: int, decision: Any, target: Any, changes: dict[str, Any], drawn: Any) -> Decision:
    if decision not in get_args(Kind):
        raise ValueError(f"the decision about row {row} is {decision!r}, not accept, reject or correct")
    if drawn not in get_args(Drawn):
        raise ValueError(f"row {row} was drawn {drawn!r}, not worst or random")
    return Decision(row, decision, target, changes, drawn)


def _is_cell(value: Any) -> bool:
    return value is None or isinstance(value, (str, bool, int, float))


def _label_text(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value)).lower()
    if isinstance(value, (int, float, np.number)):
        return as_text(float(value))
    text = str(value).strip()
    try:
        return as_text(float(text))
    except ValueError:
        return text.lower() if text.lower() in ("true", "false") else text


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r} is no cell")


def of_agents(reviews: Iterable[Reviews]) -> dict[str, Reviews]:
    """Put the reviews of each agent together, in the order given."""
    found: dict[str, Reviews] = {}
    for review in reviews:
        earlier = found.get(review.agent)
        found[review.agent] = review if earlier is None else earlier.then(review)
    return found
