"""The results page: tables and figures made from the stored results, and from nothing else."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from scipy.stats import wilcoxon

from comt.bench import published, render_figures
from comt.bench.render_comparison import against_the_simple_choice, comparison
from comt.bench.render_issues import render_issues
from comt.bench.render_tables import markdown, origin
from comt.errors import InputError

#: our names of the methods that the paper's tables have, by table
PRINTED = {"robust-LR (printed rLR)": "RoLR", "robust-LR (printed RloR)": "rLR"}


def render(folder: Path) -> list[Path]:
    """Write every page whose results are there; return what was written."""
    if not any(folder.glob("*.csv")):
        raise InputError(f"{folder} holds no results; run for example `comt bench paper --out {folder}` first.")
    found = {"paper": _paper(folder), "real": _methods(folder, "real"), "robustness": _methods(folder, "robustness")}
    found["issues"] = render_issues(folder)
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
        parts += [f"## {title}\n", _paper_table(results, table), _timing(results, table)]
    others = _means(folder, "others", "Competitors the paper does not have, in its setting")
    fair = _means(folder, "fair", "The same cells, every method tuned alike (fair protocol)")
    parts += [_verdicts(results), others, fair, _scaling(folder), _figures(folder)]
    return "\n".join(part for part in parts if part)


def _methods(folder: Path, name: str) -> str | None:
    results = _read(folder / f"{name}.csv")
    if results is None:
        return None
    return "\n".join([origin(results), against_the_simple_choice(results), comparison(results)])


def _paper_table(results: pd.DataFrame, table: str) -> str:
    mine = results[results["data"] == table]
    methods = list(dict.fromkeys(mine["method"]))
    printed = _printed(table)
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


def _printed(table: str) -> dict[tuple[float, float, str], str]:
    """Return the printed means by (noise, η, our method name); the three flip blocks are joined."""
    names: dict[str, published.TableName] = {
        "regression": "table_regression_r2",
        "features": "table_features_auc",
        "flips": "table_flips_auc",
    }
    found: dict[tuple[float, float, str], list[str]] = {}
    for cell in published.table(names[table]):
        noise = 0.4 if table == "flips" else cell.noise
        method = PRINTED.get(cell.method, cell.method)
        found.setdefault((noise, cell.eta_percent, method), []).append(f"{cell.mean:.2f}")
    return {key: " / ".join(values) for key, values in found.items()}


def _timing(results: pd.DataFrame, table: str) -> str:
    seconds = results[results["data"] == table].groupby("method", sort=False)["seconds"].median()
    cells = ", ".join(f"{method} {value:.2f} s" for method, value in seconds.items())
    return f"Median seconds of a fit, one core, while another fit ran beside it: {cells}.\n"


def _verdicts(results: pd.DataFrame) -> str:
    lines = []
    for table, part in results.groupby("data", sort=False):
        for rival in ("TI-only", "Buggy-only", "DUTI"):
            pair = part[part["method"].isin(["CoMT", rival])].pivot_table(
                index=["noise", "trusted", "seed"], columns="method", values="score"
            )
            if rival not in pair:
                continue
            # cells of one seed share their rows: average them first, so that only seeds count as independent
            difference = (pair["CoMT"] - pair[rival]).dropna().groupby(level="seed").mean()
            p = float(wilcoxon(difference).pvalue) if (difference != 0).any() else 1.0
            word = "better" if difference.median() > 0 else "worse"
            verdict = word if p < 0.01 else "not told apart"
            row = [
                str(table),
                rival,
                f"{difference.mean():+.3f}",
                f"{(difference > 0).mean():.0%}",
                f"{p:.0e}",
                verdict,
            ]
            lines.append(row)
    head = ["table", "CoMT against", "mean difference", "seeds won", "p (Wilcoxon, paired)", "CoMT is"]
    return "## Who wins, paired over seeds (each seed averaged over its cells)\n\n" + markdown(head, lines)


def _means(folder: Path, protocol: str, title: str) -> str:
    """Return the tables of one more protocol, means only."""
    results = _read(folder / f"paper_{protocol}.csv")
    if results is None:
        return ""
    text = [f"## {title}\n", origin(results)]
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
        ours, n = float(part["seconds"].median()), int(str(instances))
        theirs = paper[f"{task} {n} instances"]
        rounds = f"{part['rounds'].median():.0f}"
        lines.append([task, f"{n:,}", f"{ours:.3f}", f"{theirs:g}", f"{theirs / ours:,.0f} ×", rounds])
    head = ["task", "instances", "CoMT here, s", "paper, s", "ratio", "rounds"]
    intro = "## Scaling\n\nOther machine, other language version: the ratio is of whole systems.\n\n"
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
