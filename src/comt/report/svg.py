"""Figures as inline SVG: bars, lines, histograms. Colours are classes, so that they follow light, dark and print."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

from comt.report.page import count, short

WIDTH = 440
_Map = Callable[[float], float]


@dataclass(frozen=True)
class Bar:
    """One bar: its name, its length, what is written at its end, its colour's class."""

    label: str
    value: float
    text: str
    tone: str = "main"


@dataclass(frozen=True)
class Line:
    """One line through points, with its name and its colour's class."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    tone: str = "main"


def figure(body: Sequence[Markup], height: float, described: str) -> Markup:
    """Wrap elements; ``described`` is read out to whoever cannot see them."""
    return Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        WIDTH, _n(height), described, Markup("").join(body)
    )


def columns(values: Sequence[float], labels: Sequence[str], tones: Sequence[str], described: str) -> Markup:
    """Draw upright bars, each with its count above, and labels at their edges (one more than bars)."""
    top, floor, left = 22.0, 150.0, 14.0
    step = (WIDTH - 2 * left) / max(len(values), 1)
    largest = max([*values, 1.0])
    body = [_line(left, floor, WIDTH - left, floor, "axis")]
    body += [_text(left + place * step, floor + 15, label, "tick", "middle") for place, label in enumerate(labels)]
    for place, (value, tone) in enumerate(zip(values, tones, strict=True)):
        if value <= 0:
            continue
        height = max((floor - top) * value / largest, 1.5)
        x = left + place * step
        body.append(_rect(x + 2, floor - height, step - 4, height, tone))
        body.append(_text(x + step / 2, floor - height - 5, count(value), "value", "middle"))
    return figure(body, floor + 20, described)


def rows(bars: Sequence[Bar], described: str, largest: float | None = None) -> Markup:
    """Draw lying bars with names above them, so that long names fit a phone."""
    step, body = 40.0, []
    longest = largest if largest is not None else max([bar.value for bar in bars if math.isfinite(bar.value)] + [0.0])
    for place, bar in enumerate(bars):
        y = place * step
        body.append(_text(0, y + 13, bar.label, "label"))
        body.append(_text(WIDTH, y + 13, bar.text, "value", "end"))
        body.append(_rect(0, y + 19, WIDTH, 10, "track"))
        if math.isfinite(bar.value) and bar.value > 0 and longest > 0:
            body.append(_rect(0, y + 19, WIDTH * min(bar.value / longest, 1.0), 10, bar.tone))
    return figure(body, step * len(bars), described)


def parts(bars: Sequence[Bar], described: str) -> Markup:
    """Draw one lying bar cut into parts, with a line of explanation for each below."""
    total = sum(bar.value for bar in bars) or 1.0
    body, x = [], 0.0
    for bar in bars:
        width = WIDTH * bar.value / total
        if width > 0:
            body.append(_rect(x, 2, max(width - 1, 0.7), 26, bar.tone))
        x += width
    for place, bar in enumerate(bars):
        y = 52 + place * 22
        body += [_rect(0, y - 10, 12, 12, bar.tone), _text(20, y, bar.label, "label")]
        body.append(_text(WIDTH, y, bar.text, "value", "end"))
    return figure(body, 40 + 22 * len(bars), described)


def stacked_rows(bars: Sequence[tuple[str, Sequence[float], str]], tones: Sequence[str], described: str) -> Markup:
    """Draw one lying bar per name, cut into parts of the given tones."""
    step, body = 40.0, []
    longest = max([sum(values) for _, values, _ in bars] + [0.0]) or 1.0
    for place, (label, values, text) in enumerate(bars):
        x, y = 0.0, place * step
        body += [_text(0, y + 13, label, "label"), _text(WIDTH, y + 13, text, "value", "end")]
        body.append(_rect(0, y + 19, WIDTH, 10, "track"))
        for value, tone in zip(values, tones, strict=True):
            width = WIDTH * value / longest
            body.append(_rect(x, y + 19, width, 10, tone))
            x += width
    return figure(body, step * len(bars), described)


def lines(
    drawn: Sequence[Line],
    x_name: str,
    described: str,
    *,
    logarithmic: bool = False,
    marked_x: tuple[float, str] | None = None,
    marked_y: tuple[float, str] | None = None,
) -> Markup:
    """Draw lines over common axes, and dashed lines at a marked x and a marked y with what they mean."""
    left, right, top, floor = 46.0, WIDTH - 10.0, 26.0, 176.0
    xs = [x for line in drawn for x in line.x] + ([] if marked_x is None else [marked_x[0]])
    ys = [y for line in drawn for y in line.y] + ([] if marked_y is None else [marked_y[0]])
    shown = [y for y in ys if math.isfinite(y) and (y > 0 or not logarithmic)]
    if not xs or not shown:
        return figure([_text(WIDTH / 2, 40, "nothing was recorded", "tick", "middle")], 60, described)
    ticks = _decades(min(shown), max(shown)) if logarithmic else _ticks(min(shown), max(shown), 4)
    lowest, highest = min(min(shown), ticks[0]), max(max(shown), ticks[-1])
    first, last = (min(xs), max(xs)) if max(xs) > min(xs) else (min(xs) - 1, min(xs) + 1)

    def at(x: float) -> float:
        return left + (right - left) * (x - first) / (last - first)

    def up(y: float) -> float:
        if logarithmic:
            share = (math.log(max(y, lowest)) - math.log(lowest)) / ((math.log(highest) - math.log(lowest)) or 1.0)
        else:
            share = (y - lowest) / ((highest - lowest) or 1.0)
        return floor - (floor - top) * share

    body = []
    for tick in ticks:
        body.append(_line(left, up(tick), right, up(tick), "grid"))
        body.append(_text(left - 6, up(tick) + 4, _power(tick) if logarithmic else _tick(tick, ticks), "tick", "end"))
    across = _ticks(first, last, 5, whole=all(float(x).is_integer() for x in xs))
    body += [_text(at(x), floor + 16, short(x), "tick", "middle") for x in across if min(xs) <= x <= max(xs)]
    body += [_line(left, floor, right, floor, "axis"), _text((left + right) / 2, floor + 34, x_name, "tick", "middle")]
    if marked_y is not None:
        body.append(_line(left, up(marked_y[0]), right, up(marked_y[0]), "mark"))
        body.append(_text(left + 4, up(marked_y[0]) - 5, marked_y[1], "tick"))
    if marked_x is not None:
        near_end = at(marked_x[0]) > (left + right) / 2
        body.append(_line(at(marked_x[0]), top, at(marked_x[0]), floor, "mark"))
        shift, anchor = (-5, "end") if near_end else (5, "start")
        body.append(_text(at(marked_x[0]) + shift, top + 9, marked_x[1], "tick", anchor))
    body += _drawn(drawn, at, up, logarithmic, left)
    return figure(body, floor + 42, described)


def _drawn(drawn: Sequence[Line], at: _Map, up: _Map, positive: bool, left: float) -> list[Markup]:
    """Draw the lines themselves and, if there are several, their names."""
    body, x_legend = [], left
    for line in drawn:
        points = [
            (at(x), up(y)) for x, y in zip(line.x, line.y, strict=True) if math.isfinite(y) and (y > 0 or not positive)
        ]
        path = " ".join(f"{_n(x)},{_n(y)}" for x, y in points)
        body.append(Markup('<polyline points="{}" class="stroke-{}"/>').format(path, line.tone))
        dots = Markup('<circle cx="{}" cy="{}" r="3" class="{}"/>')
        body += [dots.format(_n(x), _n(y), line.tone) for x, y in points] if len(points) <= 60 else []
        if len(drawn) > 1:
            body += [_rect(x_legend, 2, 10, 10, line.tone), _text(x_legend + 15, 11, line.label, "tick")]
            x_legend += 30 + 6.6 * len(line.label)
    return body


def before_after(before: NDArray[np.float64], after: NDArray[np.float64], described: str) -> Markup:
    """Draw two histograms over one another: values as given (outlined) and with the suggestions taken (filled).

    The axis spans the bulk of the values with suggestions taken; what lies beyond it is counted at its ends.
    """
    low, high = (float(q) for q in np.percentile(after, [25, 75]))
    reach = 4.0 * ((high - low) or float(np.std(after)) or 1.0)
    start, end = max(float(after.min()), low - reach), min(float(after.max()), high + reach)
    if end <= start:
        start, end = start - 0.5, start + 0.5
    edges = np.linspace(start, end, 25)
    counts = [np.histogram(values, edges)[0] for values in (before, after)]
    left, right, top, floor = 6.0, WIDTH - 6.0, 30.0, 150.0
    step, largest = (right - left) / 24, max(counts[0].max(), counts[1].max(), 1)
    body = [_rect(left, 4, 10, 10, "good"), _text(left + 15, 13, "with suggestions", "tick")]
    body += [_line(left + 158, 9, left + 174, 9, "stroke-bad"), _text(left + 180, 13, "as given", "tick")]
    for place in range(24):
        height = (floor - top) * counts[1][place] / largest
        if height > 0:
            body.append(_rect(left + place * step + 0.5, floor - height, step - 1, height, "good"))
    outline = [f"{_n(left)},{_n(floor)}"]
    for place in range(24):
        y = floor - (floor - top) * counts[0][place] / largest
        outline += [f"{_n(left + place * step)},{_n(y)}", f"{_n(left + (place + 1) * step)},{_n(y)}"]
    outline.append(f"{_n(right)},{_n(floor)}")
    body.append(Markup('<polyline points="{}" class="stroke-bad"/>').format(" ".join(outline)))
    body += [_line(left, floor, right, floor, "axis"), _text(left, floor + 15, short(start), "tick")]
    body += [_text(WIDTH / 2, floor + 15, short((start + end) / 2), "tick", "middle")]
    body += [_text(right, floor + 15, short(end), "tick", "end")]
    beyond = [int((before < start).sum()), int((before > end).sum())]
    if beyond[0]:
        body.append(_text(left, floor + 32, f"← {count(beyond[0])} given below", "warn"))
    if beyond[1]:
        body.append(_text(right, floor + 32, f"{count(beyond[1])} given above →", "warn", "end"))
    return figure(body, floor + (40 if any(beyond) else 22), described)


def _ticks(low: float, high: float, wanted: int, whole: bool = False) -> list[float]:
    """Return round numbers that cover a range."""
    middle, least = (low + high) / 2, max(abs(low), abs(high), 1e-4) * 0.01
    if high - low < least:  # differences that small are not worth a picture of their own
        low, high = middle - least / 2, middle + least / 2
    raw = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * nice for nice in (1, 2, 2.5, 5, 10) if power * nice >= raw * 0.999)
    if whole:
        step = max(1.0, math.ceil(step))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(step * i, 12) for i in range(first, last + 1)]


def _decades(low: float, high: float) -> list[float]:
    first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    step = max(1, -(-(last - first) // 5))
    return [10.0**power for power in range(first, last + step, step)]


def _tick(value: float, ticks: Sequence[float]) -> str:
    """Write a tick with as many digits as tell it from the next."""
    step = ticks[1] - ticks[0]
    digits = next(digits for digits in range(16) if abs(round(step, digits) - step) < 1e-6 * step)
    text = f"{value:,.{digits}f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text).replace("-", "−")


def _power(value: float) -> str:
    exponent = round(math.log10(value))
    return short(value) if -2 <= exponent <= 3 else f"1e{exponent}".replace("-", "−")


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _rect(x: float, y: float, width: float, height: float, tone: str) -> Markup:
    return Markup('<rect x="{}" y="{}" width="{}" height="{}" class="{}"/>').format(
        _n(x), _n(y), _n(width), _n(height), tone
    )


def _line(x1: float, y1: float, x2: float, y2: float, tone: str) -> Markup:
    return Markup('<line x1="{}" y1="{}" x2="{}" y2="{}" class="{}"/>').format(_n(x1), _n(y1), _n(x2), _n(y2), tone)


def _text(x: float, y: float, text: str, tone: str, anchor: str = "start") -> Markup:
    return Markup('<text x="{}" y="{}" class="{}" text-anchor="{}">{}</text>').format(
        _n(x), _n(y), tone, anchor, escape(text)
    )
