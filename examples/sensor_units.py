"""Four plants, one model of a motor's power; plant C logs the pressure of a part of its rows in psi instead of bar."""

from __future__ import annotations

import numpy as np
import pandas as pd

from comt import CoMTRegressor

PLANTS = ("A", "B", "C", "D")
ROWS, VERIFIED = 300, 15
PSI = 14.5038  # in one bar


def readings(rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Return readings as they should be, the power they belong to, and who logged them."""
    plant = np.repeat(PLANTS, ROWS)
    table = pd.DataFrame(
        {
            "pressure": rng.normal(6.0, 1.0, len(plant)),
            "flow": rng.normal(40.0, 8.0, len(plant)),
            "temperature": rng.normal(60.0, 5.0, len(plant)),
        }
    )
    noise = rng.normal(0, 0.6, len(plant))
    power = 5.0 + 1.8 * table["pressure"] + 0.4 * table["flow"] - 0.1 * table["temperature"] + noise
    return table, power.to_numpy(), plant


def main() -> None:
    rng = np.random.default_rng(7)
    right, power, plant = readings(rng)
    trusted = np.tile(np.arange(ROWS) < VERIFIED, len(PLANTS))
    wrong = (plant == "C") & ~trusted & (rng.random(len(plant)) < 0.4)
    logged = right.assign(pressure=np.where(wrong, right["pressure"] * PSI, right["pressure"]))

    taught = CoMTRegressor(lambda_w=1.0, lambda_trusted=100.0).fit(logged, power, agents=plant, trusted=trusted)
    # with a number for every weight nothing is left for verified rows to choose
    plain = CoMTRegressor(lambda_w=1.0, lambda_trusted=1.0, lambda_alpha=0.0, lambda_z=np.inf)
    untaught = plain.fit(logged, power, agents=plant)
    new, new_power, _ = readings(rng)
    print(f"R² on right readings: {untaught.score(new, new_power):.2f} without verified rows, ", end="")
    print(f"{taught.score(new, new_power):.2f} with {VERIFIED} of each plant.")
    assert taught.score(new, new_power) > max(0.85, untaught.score(new, new_power) + 0.02)

    issues = taught.issues()
    flagged = issues[issues["flagged"]]
    print("\nRows that look wrong, by plant:")
    print(flagged["agent"].value_counts().reindex(PLANTS, fill_value=0).to_string())
    assert flagged["agent"].value_counts().idxmax() == "C"

    own = flagged[flagged["agent"] == "C"]
    found = wrong[own["row"]].mean()
    print(f"\nOf plant C's {len(own)} flagged rows, {found:.0%} were logged in psi. The worst of them:")
    shown = own.head(5).set_index("row")[["score", "given", "suggested"]]
    print(shown.join(logged[["pressure"]]).round(2).to_string())
    typical = logged.loc[own["row"], "pressure"].median() / logged.loc[~wrong, "pressure"].median()
    print(f"\nTheir pressure is {typical:.1f} times the usual one; psi would be {PSI:.1f} times.")


if __name__ == "__main__":
    main()
