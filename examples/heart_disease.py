"""Heart disease at four hospitals: one CSV file each, categories, missing values, and one hospital that mixes up diagnoses.

With the folder of the UCI heart disease data in the variable COMT_DATA the real patients are used. Without it the example
draws patients of its own that look alike, and says so.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import comt
from comt.cli import main

COLUMNS = [
    "age",
    "sex",
    "cp",
    "trestbps",
    "chol",
    "fbs",
    "restecg",
    "thalach",
    "exang",
    "oldpeak",
    "slope",
    "ca",
    "thal",
]
PAIN = {1: "typical angina", 2: "atypical angina", 3: "other pain", 4: "no pain"}
HOSPITALS = {"cleveland": 303, "hungarian": 294, "switzerland": 123, "va": 200}
VERIFIED = 25
#: of the unverified diagnoses of this hospital, a third is wrong
CARELESS = "hungarian"


def real_patients() -> dict[str, pd.DataFrame]:
    """Read the four files as they are: a question mark is a missing value."""
    from comt.datasets.files import read
    from comt.datasets.real import HOSPITALS as FILES

    tables = {}
    for name, file in FILES.items():
        cells = [line.split(",") for line in read(file).decode("ascii").split()]
        table = pd.DataFrame(cells, columns=[*COLUMNS, "num"]).replace("?", np.nan).astype(float)
        table["cp"] = table["cp"].map(PAIN)
        tables[name] = table.assign(disease=np.where(table.pop("num") > 0, "yes", "no"))
    return tables


def made_up_patients(seed: int = 0) -> dict[str, pd.DataFrame]:
    """Draw patients whose disease depends on pain, exercise and age as it plausibly does."""
    rng = np.random.default_rng(seed)
    tables = {}
    for name, n in HOSPITALS.items():
        pain = rng.choice(list(PAIN.values()), n, p=[0.08, 0.18, 0.24, 0.5])
        age, male = rng.normal(54, 9, n).round(), rng.random(n) < 0.75
        oldpeak, thalach = rng.gamma(1.2, 0.8, n).round(1), rng.normal(140, 24, n).round()
        risk = 2.0 * (pain == "no pain") + 0.05 * (age - 54) + 0.9 * oldpeak - 0.03 * (thalach - 140) + 0.9 * male - 2.4
        ill = rng.random(n) < 1 / (1 + np.exp(-1.5 * risk))
        chol = np.zeros(n) if name == "switzerland" else rng.normal(245, 50, n).round()  # not measured there
        table = pd.DataFrame({"age": age, "sex": male * 1.0, "cp": pain, "trestbps": rng.normal(132, 18, n).round()})
        table = table.assign(chol=chol, thalach=thalach, oldpeak=oldpeak)
        table.loc[rng.random(n) < 0.08, "trestbps"] = np.nan
        tables[name] = table.assign(disease=np.where(ill, "yes", "no"))
    return tables


def spoiled(name: str, table: pd.DataFrame, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    """Mark some rows as verified, and mix up diagnoses of the others at the careless hospital."""
    verified = np.zeros(len(table), dtype=bool)
    verified[rng.choice(len(table), VERIFIED, replace=False)] = True
    wrong = ~verified & (rng.random(len(table)) < (1 / 3 if name == CARELESS else 0.0))
    right = table["disease"].to_numpy()
    return table.assign(disease=np.where(wrong, np.where(right == "yes", "no", "yes"), right), verified=verified), wrong


def run(folder: Path) -> None:
    real = bool(os.environ.get("COMT_DATA"))
    print("Patients of the UCI data." if real else "Made-up patients (set COMT_DATA to use those of the UCI data).")
    rng = np.random.default_rng(1)
    tables = real_patients() if real else made_up_patients()
    wrong = {}
    for name, table in tables.items():
        given, wrong[name] = spoiled(name, table, rng)
        given.to_csv(folder / f"{name}.csv", index=False)
    files = [str(folder / f"{name}.csv") for name in tables]
    options = ["--target", "disease", "--trusted", "verified", "--out", str(folder / "run")]
    assert main(["fit", *files, *options]) == 0

    issues = pd.read_csv(folder / "run" / CARELESS / "issues.csv")
    n_wrong = int(wrong[CARELESS].sum())
    found = int(wrong[CARELESS][issues["row"].head(n_wrong)].sum())
    print(f"\nOf the {n_wrong} worst rows of {CARELESS}, {found} are indeed among its {n_wrong} mixed-up diagnoses.")
    assert found > 0.4 * n_wrong

    model = comt.load(folder / "run" / "model.json")
    truth = pd.concat(tables.values())
    accuracy = (model.predict(truth) == truth["disease"]).mean()
    print(f"The joint model agrees with {accuracy:.0%} of the right diagnoses.")
    assert accuracy > 0.7
    plain = model.to_sklearn()
    assert (plain.predict(truth) == model.predict(truth)).all()
    print(f"As plain scikit-learn: {[name for name, _ in plain.steps]}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder))
