"""The reports in a real browser: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from report_samples import EVIL, aggregate, classification, regression

from comt.report import write_agent_report, write_aggregate_report

pytestmark = pytest.mark.slow

CHROMIUM = shutil.which("chromium")


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("no chromium here; `make browser` installs it")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield found
        found.close()


@pytest.fixture
def open_page(browser, tmp_path):
    """Open a report; at the end, whatever was done: no error on the console, no request but for the file itself."""
    complaints, requests, contexts = [], [], []

    def opened(report=None, **context):
        path = report if isinstance(report, Path) else tmp_path / f"report-{len(contexts)}.html"
        if not isinstance(report, Path):
            write = write_aggregate_report if hasattr(report, "agents") else write_agent_report
            write(path, report or classification())
        contexts.append(browser.new_context(accept_downloads=True, **context))
        page = contexts[-1].new_page()
        page.set_default_timeout(60_000)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []
    assert {url.split(":")[0] for url in requests} <= {"file", "blob"}
    assert sum(url.startswith("file:") for url in requests) == len(contexts) + getattr(opened, "reloads", 0)


def rows(page):
    return [int(row) for row in page.eval_on_selector_all("tr.line", "found => found.map((row) => row.dataset.row)")]


def view(page, name):
    page.click(f'#views [data-view="{name}"]')


def line(page, row):
    return page.locator(f"#line-{row}")


def exported(page):
    with page.expect_download() as waiting:
        page.click("#export")
    download = waiting.value
    return download.suggested_filename, json.loads(download.path().read_text(encoding="utf-8"))


def test_lines_to_inspect_come_first_and_views_change(open_page):
    report = classification()
    page = open_page(report)
    assert rows(page) == report.inspect["row"].tolist()
    view(page, "flagged")
    assert rows(page) == report.issues["row"][report.issues["flagged"]].tolist()
    view(page, "all")
    assert len(rows(page)) == 60
    assert page.inner_text("#count") == "60 rows"


def test_sorting_by_a_click_and_by_the_keyboard(open_page):
    page = open_page(regression())
    view(page, "all")
    head = page.locator("#table th", has_text="Row")
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert rows(page) == sorted(rows(page))
    head.locator("button").press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert rows(page) == sorted(rows(page), reverse=True)
    head.locator("button").press("Enter")
    assert head.get_attribute("aria-sort") == "none"
    page.locator("#table th", has_text="Change").locator("button").click()
    assert rows(page)[0] == 9  # the largest distance


def test_filters_and_search(open_page):
    page = open_page()
    view(page, "all")
    page.select_option("#kind", "unit")
    assert rows(page) == [3]
    page.select_option("#kind", "")
    page.select_option("#drawn", "random")
    assert sorted(rows(page)) == sorted(classification().inspect.query("drawn == 'random'")["row"])
    page.select_option("#drawn", "")
    page.fill("#search", "p-0042")
    assert rows(page) == [42]
    page.fill("#search", "onerror")
    assert rows(page) == [7]
    page.fill("#search", "no such thing")
    assert rows(page) == []
    assert "No row fits" in page.inner_text("#table tbody")
    page.fill("#search", "")
    line(page, 5).locator("[data-choice=reject]").click()
    page.select_option("#decided", "reject")
    assert rows(page) == [5]


def test_markup_in_a_cell_is_shown_as_text(open_page):
    page = open_page(classification(agent=EVIL))
    view(page, "all")
    line(page, 7).click()
    assert EVIL in page.inner_text("#details-7")
    assert page.locator("img").count() == 0
    assert page.title() != "run"
    line(page, 7).locator("[data-choice=reject]").click()
    name, review = exported(page)
    assert "/" not in name
    assert review["agent"] == EVIL


def test_cells_are_highlighted(open_page):
    page = open_page()
    view(page, "all")
    assert line(page, 3).locator("del").inner_text() == "170"
    assert line(page, 3).locator("ins").inner_text() == "1.7"
    line(page, 2).click()
    assert page.locator("#details-2 .changed del").inner_text() == "well"
    assert page.locator("#details-2 .changed ins").inner_text() == "ill"
    assert line(page, 2).get_attribute("aria-expanded") == "true"
    line(page, 2).click()
    assert page.locator("#details-2").count() == 0


def test_accept_reject_correct_and_export(open_page):
    page = open_page()
    assert page.is_disabled("#export")
    view(page, "all")
    line(page, 0).locator("[data-choice=accept]").click()
    line(page, 3).locator("[data-choice=accept]").click()
    line(page, 1).locator("[data-choice=reject]").click()
    line(page, 2).locator("[data-choice=correct]").click()
    assert "1 correction without a value" in page.inner_text("#kept")
    page.select_option("#enter-2-diagnosis", "ill")
    page.fill("#enter-2-height", "1.81")
    page.fill("#enter-2-ward", "south")
    line(page, 4).locator("[data-choice=correct]").click()
    page.fill("#enter-4-height", "tall")
    assert page.get_attribute("#enter-4-height", "aria-invalid") == "true"
    assert page.locator("#enter-2-patient").count() == 0  # no column of the model
    name, review = exported(page)
    drawn = dict(classification().inspect[["row", "drawn"]].itertuples(index=False))
    assert name == "review-clinic A.json"
    assert review == {
        "format": "comt-review/1",
        "agent": "clinic A",
        "run": "run 1",
        "decisions": [
            {"row": 0, "decision": "accept", "target": "ill", "changes": {}, "drawn": drawn[0]},
            {"row": 1, "decision": "reject", "target": None, "changes": {}, "drawn": drawn[1]},
            {
                "row": 2,
                "decision": "correct",
                "target": "ill",
                "changes": {"height": 1.81, "ward": "south"},
                "drawn": drawn[2],
            },
            {"row": 3, "decision": "accept", "target": "ill", "changes": {"height": 1.7}, "drawn": drawn[3]},
        ],
    }
    line(page, 0).locator("[data-choice=accept]").click()  # once more: undone
    assert [decision["row"] for decision in exported(page)[1]["decisions"]] == [1, 2, 3]


def test_numbers_are_corrected_as_numbers(open_page):
    page = open_page(regression())
    view(page, "all")
    line(page, 0).locator("[data-choice=correct]").click()
    page.fill("#enter-0-price", "12.5")
    (decision,) = exported(page)[1]["decisions"]
    assert decision == {"row": 0, "decision": "correct", "target": 12.5, "changes": {}, "drawn": "worst"}


def test_a_row_without_a_suggestion_is_right_or_corrected(open_page):
    page = open_page()
    view(page, "all")
    assert [button.inner_text() for button in line(page, 59).locator("button").all()] == ["Is right", "Correct"]
    line(page, 59).locator("button").first.click()
    (decision,) = exported(page)[1]["decisions"]
    assert decision["decision"] == "reject"


def test_decisions_survive_a_reload_and_can_be_forgotten(open_page):
    page = open_page()
    view(page, "all")
    line(page, 4).locator("[data-choice=accept]").click()
    open_page.reloads = 1
    page.reload()
    view(page, "all")
    assert line(page, 4).get_attribute("data-decision") == "accept"
    page.on("dialog", lambda dialog: dialog.accept())
    page.click("#forget")
    assert line(page, 4).get_attribute("data-decision") == ""
    assert page.is_disabled("#export")


def test_everything_by_the_keyboard(open_page):
    report = classification()
    first, second = report.inspect["row"].tolist()[:2]
    page = open_page(report)
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.id") == f"line-{first}"
    page.keyboard.press("a")
    assert line(page, first).get_attribute("data-decision") == "accept"
    assert page.evaluate("document.activeElement.id") == f"line-{first}"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.locator(f"#details-{second}").count() == 1
    page.keyboard.press("c")
    assert page.evaluate("document.activeElement.id") == f"enter-{second}-diagnosis"
    page.keyboard.press("ArrowDown")  # the other label
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.id") == f"line-{second}"
    page.keyboard.press("k")
    page.keyboard.press("u")
    assert line(page, first).get_attribute("data-decision") == ""
    page.keyboard.press("r")
    page.keyboard.press("/")
    page.keyboard.type("P-0042")
    assert page.evaluate("document.activeElement.id") == "search"
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    assert page.is_visible("#keys")
    with page.expect_download():
        page.keyboard.press("e")


def test_every_control_can_be_reached_by_tab_and_shows_it(open_page):
    page = open_page()
    seen = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.id || document.activeElement.textContent"))
        if page.evaluate("document.activeElement.tagName") == "BUTTON":
            assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    assert {"search", "kind", "drawn", "decided", "help"} <= seen
    assert any(name.startswith("line-") for name in seen)


@pytest.mark.parametrize("make", [classification, regression, aggregate])
@pytest.mark.parametrize("width", [320, 375, 768, 1060])
def test_no_page_scrolls_sideways(open_page, make, width):
    page = open_page(make(), viewport={"width": width, "height": 700})
    if make is not aggregate:
        view(page, "all")
        line(page, 0).locator("[data-choice=correct]").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if width < 1040 and make is not aggregate:
        page.select_option("#sort", "row")
        assert rows(page) == sorted(rows(page))


@pytest.mark.parametrize("make", [classification, aggregate])
def test_dark_is_dark_and_readable(open_page, make):
    for scheme, dark in (("light", False), ("dark", True)):
        page = open_page(make(), color_scheme=scheme)
        ground, ink = (
            page.evaluate(f"getComputedStyle(document.body).{name}") for name in ("backgroundColor", "color")
        )
        brightness = [sum(int(part) for part in colour[4:-1].split(",")) / 765 for colour in (ground, ink)]
        assert (brightness[0] < 0.2) == dark
        assert abs(brightness[0] - brightness[1]) > 0.6


def test_print_shows_decisions_and_no_buttons(open_page):
    page = open_page(color_scheme="dark", viewport={"width": 700, "height": 900})
    view(page, "all")
    line(page, 0).locator("[data-choice=accept]").click()
    page.emulate_media(media="print")
    assert line(page, 0).locator(".said").inner_text() == "accepted"
    for hidden in ("#export", "#search", "#line-0 button"):
        assert not page.locator(hidden).first.is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("document.querySelector('#table').scrollWidth <= document.body.clientWidth")
    assert page.pdf(format="A4").startswith(b"%PDF")


def test_a_thousand_lines_are_shown_in_steps(open_page):
    report = regression(1000)
    issues = report.issues.assign(flagged=True)
    page = open_page(replace(report, issues=issues, rows=pd.DataFrame({"size": 1.0}, index=range(1000))))
    assert len(rows(page)) == 100
    assert page.inner_text("#count") == "100 of 1,000 matching rows shown"
    page.click("#more")
    assert len(rows(page)) == 200


def test_without_scripts_the_page_says_what_to_do(open_page):
    page = open_page(java_script_enabled=False)
    assert "issues.csv" in page.inner_text("noscript")
    assert not page.is_visible("#tool")


def test_from_two_files_to_a_second_training(open_page, tmp_path, monkeypatch, capsys):
    """The whole way: fit, look, decide, export, train again."""
    from comt.cli import main

    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--files", "flats"]) == 0
    fit = ["fit", "flats/north.csv", "flats/south.csv", "--target", "price", "--trusted", "verified", "--drop", "flat"]
    assert main([*fit, "--out", "run"]) == 0
    page = open_page(tmp_path / "run" / "south" / "report.html")
    for choice, line in zip(["accept", "reject", "correct", "reject"], page.locator("tr.line").all()[:4], strict=True):
        line.locator(f"[data-choice={choice}]").click()
    corrected = rows(page)[2]
    page.fill(f"#enter-{corrected}-area", "81.5")
    page.fill(f"#enter-{corrected}-price", "322.5")
    page.fill(f"#enter-{corrected}-heating", "gas")
    name, review = exported(page)
    assert [decision["drawn"] for decision in review["decisions"]].count("random") == 1
    (tmp_path / name).write_text(json.dumps(review))
    capsys.readouterr()
    assert main(["fit", "--resume", "run", "--reviews", name, "--out", "again", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    trusted = {agent["name"]: agent["trusted_rows"] for agent in summary["agents"]}
    assert trusted == {"north": 30, "south": 34}
    aggregate_page = open_page(tmp_path / "again" / "report.html")
    assert "64" in aggregate_page.inner_text(".tiles")
