from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comt.report import svg

finite = st.floats(-1e12, 1e12)


def read(drawing):
    return ET.fromstring(str(drawing))


def rectangles(drawing, tone):
    return [element for element in read(drawing).iter("rect") if element.get("class") == tone]


def test_bars_are_as_long_as_their_values():
    drawing = svg.rows([svg.Bar("a", 1.0, "1"), svg.Bar("b", 0.5, "½"), svg.Bar("c", -3.0, "−3")], "three", largest=1.0)
    widths = [float(element.get("width")) for element in rectangles(drawing, "main")]
    assert widths == [svg.WIDTH, svg.WIDTH / 2]
    assert read(drawing).get("aria-label") == "three"


def test_short_columns_stay_visible_and_counted():
    drawing = svg.columns([100_000.0, 1.0, 0.0], ["0", "1", "2", "3"], ["plain", "bad", "bad"], "counts")
    (one,) = rectangles(drawing, "bad")
    assert float(one.get("height")) >= 1.5
    assert [text.text for text in read(drawing).iter("text") if text.get("class") == "value"] == ["100,000", "1"]


def test_parts_fill_the_width():
    drawing = svg.parts([svg.Bar("a", 30, "30", "good"), svg.Bar("b", 10, "10", "bad")], "parts")
    first = rectangles(drawing, "good")[0]
    assert float(first.get("width")) == pytest.approx(0.75 * svg.WIDTH - 1)


def test_text_is_escaped():
    drawing = svg.rows([svg.Bar("<b>&", 1.0, '"')], '"><script>')
    assert read(drawing).get("aria-label") == '"><script>'
    assert next(read(drawing).iter("text")).text == "<b>&"


@given(st.lists(finite, min_size=1, max_size=20), st.booleans())
def test_lines_stay_inside_whatever_the_values(values, logarithmic):
    drawing = svg.lines([svg.Line("one", range(1, len(values) + 1), values)], "x", "line", logarithmic=logarithmic)
    root = read(drawing)
    height = float(root.get("viewBox").split()[3])
    for dot in root.iter("circle"):
        assert 0 <= float(dot.get("cx")) <= svg.WIDTH
        assert 0 <= float(dot.get("cy")) <= height


@given(finite, finite)
def test_ticks_are_few_and_cover_the_range(a, b):
    low, high = min(a, b), max(a, b)
    ticks = svg._ticks(low, high, 4)
    assert 2 <= len(ticks) <= 7
    slack = 1e-6 * max(abs(low), abs(high), 1e-300)
    assert ticks[0] <= low + slack
    assert ticks[-1] >= high - slack
    if low != 0 or high != 0:
        assert len({svg._tick(tick, ticks) for tick in ticks}) == len(ticks)


@given(st.lists(finite, min_size=1, max_size=50))
def test_histograms_count_every_value_once(values):
    before = np.array(values)
    drawing = svg.before_after(before, np.clip(before, -1.0, 1.0), "two")
    assert read(drawing) is not None


def test_values_beyond_the_axis_are_counted():
    after = np.linspace(0, 1, 100)
    before = np.concatenate([after[:-3], [1e6, 1e6, -1e6]])
    said = [text.text for text in read(svg.before_after(before, after, "two")).iter("text")]
    assert "← 1 given below" in said
    assert "2 given above →" in said
