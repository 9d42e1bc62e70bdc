"""The results page: tables and figures made from the stored results, and from nothing else."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from comt.bench import ablations, published, real_as_printed, render_figures
from comt.bench.automatic import Automatic
from comt.bench.render_ablations import ablations as ablation_table
from comt.bench.render_ablations import orderings
from comt.bench.render_choice import auto_against_everybody, render_choice
from comt.bench.render_comparison import against_the_simple_choice, comparison, notes
from comt.bench.render_differences import differences, printed_cells, real_differences
from comt.bench.render_few import render_few
from comt.bench.render_issues import render_issues
from comt.bench.render_tables import markdown, origin
from comt.bench.render_times import times
from comt.bench.render_verdicts import against_everybody, where_the_simple_choice_wins
from comt.errors import InputError

VERDICTS = (
    "Wilcoxon's signed-rank test over seeds, each seed averaged over its cells (they share rows; a few cells that differ "
    "much can decide); p after Holm's correction for the lines of one data set. *Better* and *worse* stand where p < .05; "
    "five seeds can never reach that.\n"
)
OTHER_READING = (
    "The paper calls the scale of its noise an average and writes a sum (erratum E12). Scaled by the mean sum of a row's "
    "|x|, noise on features is ten times as large.\n"
)


def render(folder: Path) -> list[Path]:
    """Write every page whose results are there; return what was written."""
    if not any(folder.glob("*.csv")):
        raise InputError(f"{folder} holds no results; run for example `comt bench paper --out {folder}` first.")
    found = {"paper": _paper(folder), "real": _methods(folder, "real"), "robustness": _methods(folder, "robustness")}
    found["issues"], found["few"] = render_issues(folder), render_few(folder)
    for experiment in ("choice", "unseen"):
        found[experiment] = render_choice(folder, experiment)
    written = []
    for name, text in found.items():
        if text is not None:
            path = folder / f"_{name}.md"  # included by the page of that name, which says what the tables mean
            path.write_text(text, encoding="utf-8")
            written.append(path)
    return written


def _read(path: Path) -> pd.DataFrame | None:
    return pd.read_csv(path, keep_default_na=True) if path.exists() else None


def _mean(values: pd.Series) -> str:
    return "–" if values.dropna().empty else f"{values.mean():.3f}"


# ---------------------------------------------------------------------------------------------- the paper's tables


def _paper(folder: Path) -> str | None:
    results = _read(folder / "paper_paper.csv")
    if results is None:
        return None
    parts = [origin(results)]
    titles = {
        "regression": "Regression, R²: noise on features and targets",
        "features": "Classification, AUC: noise on features",
        "flips": "Classification, AUC: 40 % flipped labels",
    }
    for table, title in titles.items():
        parts += [f"## {title}\n", _paper_table(results, table)]
    others, fair = _read(folder / "paper_others.csv"), _read(folder / "paper_fair.csv")
    other_reading = _read(folder / "paper_sum.csv")
    protocols = {"paper": results}
    changed = _read(folder / ablations.FILE)
    parts += [differences(results), orderings(results)]
    if changed is not None:
        parts += ["### Do the reasons hold?\n", ablation_table(changed, results)]
    parts += ["## Who wins, paired over seeds\n", VERDICTS, against_everybody(results)]
    parts += [where_the_simple_choice_wins(results)]
    if other_reading is not None:
        parts += ["## The other reading of the noise\n", OTHER_READING, origin(other_reading), _means(other_reading)]
    if others is not None:
        protocols["others"] = others
        parts += ["## Competitors the paper does not have, in its setting\n", origin(others), _means(others)]
        ours = results[(results["method"] == "CoMT") & results["seed"].isin(others["seed"])]
        parts += ["### Paired over seeds\n", against_everybody(pd.concat([others, ours]))]
    if fair is not None:
        protocols["fair"] = fair
        parts += ["## The same cells, every method tuned alike (fair protocol)\n", origin(fair), _means(fair)]
        parts += ["### Paired over seeds\n", against_everybody(fair), where_the_simple_choice_wins(fair)]
    parts += [times(protocols), _scaling(folder), _figures(folder)]
    return "\n".join(part for part in parts if part)


def _methods(folder: Path, name: str) -> str | None:
    results = _read(folder / f"{name}.csv")
    if results is None:
        return None
    parts = [origin(results), auto_against_everybody(results), against_the_simple_choice(results)]
    if name == "real":
        as_printed = _read(folder / real_as_printed.FILE)
        parts += ["## Beside the paper's numbers\n", "" if as_printed is None else origin(as_printed)]
        parts += [real_differences(results, as_printed)]
        if as_printed is not None:
            in_its_setting = as_printed[as_printed["protocol"] == "paper"]
            parts += ["In the paper's setting, paired over seeds:\n", against_everybody(in_its_setting)]
    parts += [notes(results), comparison(results), "## Paired over seeds\n", VERDICTS]
    parts += [against_everybody(results), against_everybody(results, Automatic.name)]
    return "\n".join(part for part in parts if part)


def _paper_table(results: pd.DataFrame, table: str) -> str:
    mine = results[results["data"] == table]
    methods = list(dict.fromkeys(mine["method"]))
    printed = {key: " / ".join(f"{c.mean:.2f}" for c in cells) for key, cells in printed_cells(table).items()}
    lines = []
    for (noise, eta), cell in mine.groupby(["noise", "trusted"]):
        line = [f"{noise:g}", f"{eta:g} %"]
        for method in methods:
            scores = cell.loc[cell["method"] == method, "score"].astype(float)
            variance = f"{scores.var(ddof=1):.0e}".replace("-", "\N{NON-BREAKING HYPHEN}")
            text = f"{scores.mean():.3f}<br>({variance})"
            if (beside := printed.get((float(str(noise)), float(str(eta)), method))) is not None:
                text += f"<br>*{beside}*"
            line.append(text)
        lines.append(line)
    note = "Each cell: mean (variance); below, in italics, the number the paper prints"
    if table == "flips":
        note += " (for its three blocks, which describe one experiment: 40 % flips)"
    return note + ".\n\n" + markdown(["noise", "trusted", *methods], lines)


def _means(results: pd.DataFrame) -> str:
    """Return the tables of one more protocol, means only."""
    text = []
    for table, part in results.groupby("data", sort=False):
        methods = list(dict.fromkeys(part["method"]))
        lines = [
            [f"{noise:g}", f"{eta:g} %", *(_mean(cell.loc[cell["method"] == m, "score"]) for m in methods)]
            for (noise, eta), cell in part.groupby(["noise", "trusted"])
        ]
        text += [f"### {table}\n", markdown(["noise", "trusted", *methods], lines)]
    return "\n".join(text)


def _scaling(folder: Path) -> str:
    results = _read(folder / "paper_scaling.csv")
    if results is None:
        return ""
    paper = {
        line["setting"]: float(line["value"])
        for line in published.real_and_scaling()
        if line["what"] == "scaling" and line["method"] == "CoMT"
    }
    lines = []
    for (table, instances), part in results.groupby(["data", "trusted"]):
        task = "regression" if table == "regression" else "classification"
        ours, n = float(part["seconds"].min()), int(str(instances))
        theirs = paper[f"{task} {n} instances"]
        rounds = f"{part['rounds'].median():.0f}"
        lines.append([task, f"{n:,}", f"{ours:.3f}", f"{theirs:g}", f"{theirs / ours:,.0f} ×", rounds])
    head = ["task", "instances", "CoMT here, s", "paper, s", "ratio", "rounds"]
    intro = (
        "## Scaling\n\nProcessor time, the fastest of three seeds. Other machine, other language version: the ratio is of "
        "whole systems.\n\n"
    )
    return intro + markdown(head, lines)


def _figures(folder: Path) -> str:
    text = ""
    convergence, fractions = _read(folder / "paper_convergence.csv"), _read(folder / "paper_fractions.csv")
    if convergence is not None:
        render_figures.convergence(convergence, folder / "convergence.png")
        text += (
            "## Convergence\n\n![Distance of the objective from its final value against rounds](convergence.png)\n\n"
            "Noise 1.5; 5 % (CPUSMALL) and 1 % (IJCNN) trusted rows; the paper reports 2,500 and 1,200 iterations.\n"
        )
    if fractions is not None:
        render_figures.fractions(fractions, folder / "fractions.png")
        text += (
            "\n## Score against the selected fraction ϱ\n\n![Test score against the fraction kept](fractions.png)\n\n"
            "Mean over five seeds; bands are one standard deviation.\n"
        )
    return text
