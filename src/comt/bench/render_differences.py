"""Every printed number that ours differs from by more than .02, and why."""

from __future__ import annotations

import pandas as pd

from comt.bench import published
from comt.bench.real_as_printed import CELLS, PREPARATIONS
from comt.bench.render_tables import markdown

TOLERANCE = 0.02
#: our names of the methods that the paper's tables have, by table
PRINTED = {"robust-LR (printed rLR)": "RoLR", "robust-LR (printed RloR)": "rLR"}
NAMES: dict[str, published.TableName] = {
    "regression": "table_regression_r2",
    "features": "table_features_auc",
    "flips": "table_flips_auc",
}
_LEVELS = (
    "Protocol: the level of an AUC depends on where the clusters lie, which the paper does not say (see our seeds' range). "
    "No distance between them fits all cells:"
)
_FEATURES = f"{_LEVELS} the print mostly rises with the noise, which cannot help any method."
_BLOCKS = (
    f"{_LEVELS} the print's three blocks describe one experiment and differ among themselves by up to .17; noise on "
    "features besides the flips does not explain it."
)
_SWAPPED = (
    " The print swaps the names of the two robust regressions (E8); the other one's numbers are hardly nearer, or not."
)
#: by table and method; what can be tried has been, see comt.bench.ablations
WHY = {
    "regression": {
        "CoMT": "Protocol: with 50 trusted rows at noise 1.2, λ_w = 100 and λ_trusted = 1 hold the solution near the buggy "
        "rows' attenuated model. Five times the trust, as if every agent counted it, removes the difference; so do λ_w = 1 "
        "and noise on targets only. The paper does not say which it was.",
        "CoMT-subset": "Erratum E5: solved exactly, CoMT with and without crafting differ by far less than the print's .03. "
        "At noise 1.2 with 50 trusted rows: as CoMT. Neither rule of selection gives the print's .95 at all noise levels.",
        "TI-only": "Protocol: λ_w = 100 is inferred from this column, which asks for 102 to 131; 115 is within .02 in all "
        "cells. Its change with a noise that TI-only never sees is not reproduced by anything.",
        "DUTI": "Ours is higher because repairs help, however γ is chosen. The print follows its own TI-only column instead: "
        "trusted rows alone come nearer to it than any of our repairs.",
        "REWLSE": "The print rises with trusted rows that the method has no place for, and hardly changes with the noise: "
        "that is how trusted rows alone behave, and ridge on them comes nearer. On 20,000 rows of symmetric noise REWLSE is "
        "as good as least squares (errata, what the tables cannot be).",
    },
    "features": {
        "CoMT": _FEATURES,
        "CoMT-subset": _FEATURES,
        "TI-only": _FEATURES,
        "RoLR": _FEATURES + _SWAPPED,
    },
    "flips": {
        "CoMT": _BLOCKS,
        "CoMT-subset": _BLOCKS,
        "TI-only": _BLOCKS,
        "DUTI": f"{_BLOCKS} Another γ makes little difference.",
        "rLR": _BLOCKS + _SWAPPED,
    },
}


def printed_cells(table: str) -> dict[tuple[float, float, str], list[published.Cell]]:
    """Return the printed cells by (noise, η, our method name); the three flip blocks are one experiment."""
    found: dict[tuple[float, float, str], list[published.Cell]] = {}
    for cell in published.table(NAMES[table]):
        noise = 0.4 if table == "flips" else cell.noise
        found.setdefault((noise, cell.eta_percent, PRINTED.get(cell.method, cell.method)), []).append(cell)
    return found


def differences(results: pd.DataFrame) -> str:
    """Return one line per table and method with a number further than .02 from the print."""
    ours = results.groupby(["data", "noise", "trusted", "method"])["score"].agg(["mean", "min", "max"])
    lines = []
    for table in NAMES:
        by_method: dict[str, list[float]] = {}
        reached: dict[str, int] = {}
        for (noise, eta, method), cells in printed_cells(table).items():
            if (table, noise, eta, method) in ours.index:
                mean, lowest, highest = (float(ours[name][(table, noise, eta, method)]) for name in ours)
                by_method.setdefault(method, []).extend(mean - cell.mean for cell in cells)
                inside = sum(lowest <= cell.mean <= highest for cell in cells)
                reached[method] = reached.get(method, 0) + inside
        for method, gaps in by_method.items():
            far = [gap for gap in gaps if abs(gap) > TOLERANCE]
            if far:
                spread = f"{min(far):+.2f} to {max(far):+.2f}" if len(far) > 1 else f"{far[0]:+.2f}"
                within = f"{reached[method]} of {len(gaps)}"
                lines.append([table, method, f"{len(far)} of {len(gaps)}", spread, within, WHY[table][method]])
    head = ["table", "method", "numbers beyond .02", "ours − print", "print inside our seeds' range", "why"]
    return "## Where we differ from the print by more than .02, and why\n\n" + markdown(head, lines)


REAL_NAMES = {"robust regression (printed rLR)": "REWLSE", "robust logistic (printed RloR)": "RoLR"}


def real_differences(fair: pd.DataFrame, as_printed: pd.DataFrame | None) -> str:
    """Return the paper's numbers on real data beside ours in the same cell, for every scaling of rows and tuned."""
    protocols = {"tuned alike": fair}
    if as_printed is not None:
        run = {name: as_printed[as_printed["protocol"] == name] for name in PREPARATIONS}
        titles = {"paper": "in its setting", "as they come": "rows as they come"}
        protocols = {titles.get(name, name): part for name, part in run.items() if len(part)} | protocols
    cell_of = ["data", "corruption", "noise", "trusted", "method"]
    ours = [results.groupby(cell_of)["score"].mean() for results in protocols.values()]
    lines = []
    for line in published.real_and_scaling():
        if line["setting"] not in CELLS:
            continue
        cell, _ = CELLS[line["setting"]]
        beside = {line["method"]: line["value"]}
        if line["method"] == "every baseline":
            beside = dict.fromkeys(("TI-only", "DUTI", "RoLR", "rLR"), line["value"])
        if line["method"] == "CoMT":
            beside["Buggy-only"] = "not shown"
        for method, value in beside.items():
            name = REAL_NAMES.get(method, method)
            means = [scores.get((*cell, name)) for scores in ours]
            lines.append([line["setting"], name, value, *("–" if m is None else f"{m:.3f}" for m in means)])
    return markdown(["the paper's setting", "method", "print", *(f"ours, {title}" for title in protocols)], lines)
