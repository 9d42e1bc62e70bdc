"""Makes the pictures of "Reading your report": five hospitals, one of which mislabels. Needs Chromium and playwright.

Run it as ``python docs/howto/pictures/make.py`` after a change of the reports' looks.
"""

from __future__ import annotations

import io
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import Page, sync_playwright
from sklearn.datasets import load_breast_cancer

from comt import CoMTClassifier
from comt.reporting import Told, write_reports

HERE = Path(__file__).parent
#: a picture of a page must not weigh more
LIMIT = 200_000


def write(folder: Path) -> None:
    data = load_breast_cancer(as_frame=True)
    X = data.data[[name for name in data.data.columns if name.startswith("mean")]]
    y = np.where(data.target == 1, "benign", "malignant")
    rng = np.random.default_rng(0)
    hospital = np.array(["Aarhus", "Bergen", "Cork", "Dijon", "Essen"])[rng.integers(0, 5, len(y))]
    verified = rng.random(len(y)) < 0.15
    wrong = ~verified & (rng.random(len(y)) < np.where(hospital == "Essen", 0.6, 0.1))
    given = np.where(wrong, np.where(y == "benign", "malignant", "benign"), y)
    model = CoMTClassifier(lambda_w=10.0, lambda_trusted=10.0, select="auto").fit(
        X, given, agents=hospital, trusted=verified
    )
    table = X.assign(diagnosis=given, patient=[f"P-{i:04d}" for i in range(len(X))])
    told = Told(run="example", target="diagnosis", rows=lambda agent, rows: table.loc[rows])
    write_reports(model, folder, told)


def save(page: Page, name: str, top: float, height: float) -> None:
    shot = page.screenshot(full_page=True, clip={"x": 0, "y": top, "width": 1180, "height": height})
    small = Image.open(io.BytesIO(shot)).convert("RGB").quantize(128, dither=Image.Dither.NONE)
    path = HERE / f"{name}.png"
    small.save(path, optimize=True)
    assert path.stat().st_size < LIMIT, path
    print(path, path.stat().st_size)


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    write(folder)
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
        page = browser.new_page(viewport={"width": 1180, "height": 1000})
        page.goto((folder / "Essen" / "report.html").as_uri())
        page.locator("tr.line [data-choice=accept]").nth(0).click()
        page.locator("tr.line [data-choice=reject]").nth(1).click()
        page.locator("tr.line").nth(2).click()
        page.evaluate("document.getElementById('bar').style.position = 'static'")  # else it lies over the middle
        top = page.evaluate("document.getElementById('table-heading').getBoundingClientRect().top + scrollY")
        save(page, "private-report", top - 10, 760)
        page.goto((folder / "report.html").as_uri())
        save(page, "aggregate-report", 0, 1080)
        browser.close()


if __name__ == "__main__":
    main()
