"""Two made-up estate agencies with the errors of real ones: for the tutorial, in files that people can open."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

NAMES = ("north", "south")
N_ROWS = 400
N_VERIFIED = 30
#: square feet in a square metre
SQUARE_FEET = 10.7639


def flats(name: str, seed: int = 0) -> tuple[pd.DataFrame, pd.Series]:
    """Return one agency's table, and what is wrong with each row ("" for nothing; verified rows are right).

    In the north some prices have a digit too many, in the south some areas are in square feet.
    """
    rng = np.random.default_rng([seed, NAMES.index(name)])
    area = rng.gamma(9.0, 9.0, N_ROWS).round(1) + 20
    rooms = np.clip(np.round(area / 28 + rng.normal(0, 0.6, N_ROWS)), 1, 8)
    year = rng.integers(1900, 2024, N_ROWS).astype(float)
    heating = rng.choice(["gas", "district, city", "heat pump", "oil"], N_ROWS, p=[0.45, 0.3, 0.15, 0.1])
    heating[rng.choice(N_ROWS, 2, replace=False)] = "wood stove"
    worth = {"gas": 0, "district, city": 12, "heat pump": 30, "oil": -15, "wood stove": -10}
    price = 40 + 3.2 * area + 6 * rooms + 0.5 * (year - 1960) + [worth[h] for h in heating] + rng.normal(0, 14, N_ROWS)
    verified = np.zeros(N_ROWS, dtype=bool)
    verified[rng.choice(N_ROWS, N_VERIFIED, replace=False)] = True
    wrong = ~verified & (rng.random(N_ROWS) < 0.1)
    what = "price has a digit too many" if name == "north" else "area in square feet"
    if name == "north":
        price = np.where(wrong, price * 10, price)
    else:
        area = np.where(wrong, (area * SQUARE_FEET).round(1), area)
    year[rng.random(N_ROWS) < 0.03] = np.nan
    table = pd.DataFrame(
        {
            "flat": [f"{name[0].upper()}{number:04d}" for number in range(1, N_ROWS + 1)],
            "area": area,
            "rooms": rooms.astype(int),
            "year": year,
            "heating": pd.Series(heating).mask(rng.random(N_ROWS) < 0.05),
            "price": price.round(1),
            "verified": verified,
        }
    )
    return table, pd.Series(np.where(wrong, what, ""), name="wrong")


def write_flats(folder: str | Path, seed: int = 0) -> list[Path]:
    """Write ``north.csv`` and ``south.csv``, and ``new.csv`` with flats whose price is not known."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name in NAMES:
        paths.append(folder / f"{name}.csv")
        flats(name, seed)[0].to_csv(paths[-1], index=False)
    paths.append(folder / "new.csv")
    flats("north", seed + 1)[0].drop(columns=["price", "verified"]).head(20).to_csv(paths[-1], index=False)
    return paths
