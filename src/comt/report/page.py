"""What all pages share: templates with everything from the data escaped, and no way to the network."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

if TYPE_CHECKING:
    from jinja2 import Environment

#: no page is larger than this, in bytes
LIMIT = 2_000_000
_TEMPLATES = files("comt.report") / "templates"
#: inside a script element these could end it, begin another one, or break lines of JavaScript
_UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    found = Environment(
        autoescape=True,
        loader=FunctionLoader(source),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(short=short, count=count, size=size, percent=percent)
    return found


def source(name: str) -> str:
    """Return a file that is shipped beside the templates."""
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def render(template: str, script: str, **facts: Any) -> str:
    """Fill a template; style and script are inline, and the page may load and send nothing.

    Only the style and the script whose digests stand in the policy are run, so that text from the data that found its
    way into the page could still do nothing.
    """
    style = source("style.css")
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        _environment()
        .get_template(template)
        .render(style=Markup(style), script=Markup(script), policy=policy, version=version("comt"), **facts)
    )


def embedded(value: Any) -> Markup:
    """Return a value as JSON that cannot leave the script element it stands in."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return Markup("".join(_UNSAFE.get(letter, letter) for letter in text))


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def short(value: float) -> str:
    """Write a number with four digits that count.

    >>> short(12345.678), short(0.000123456), short(-2.0), short(float("nan"))
    ('12,346', '0.0001235', '−2', '–')
    """
    value = float(value)
    if math.isnan(value):
        return "–"
    if value == 0 or 1e-4 <= abs(value) < 1e7:
        digits = 0 if value == 0 else max(0, 3 - math.floor(math.log10(abs(value))))
        text = f"{value:,.{digits}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    else:
        text = f"{value:.3g}"
    return text.replace("-", "−")


def count(value: float) -> str:
    """Write a whole number with its thousands set off."""
    return f"{value:,.0f}"


def percent(value: float) -> str:
    """Write a share; small ones keep a digit.

    >>> percent(0.256), percent(0.0042), percent(0.9996), percent(1.0)
    ('26 %', '0.4 %', '> 99.9 %', '100 %')
    """
    if math.isnan(value):
        return "–"
    if 0.999 < value < 1:
        return "> 99.9 %"
    if 0 < value < 0.001:
        return "< 0.1 %"
    digits = 1 if 0 < value < 0.0995 or 0.99 < value < 1 else 0
    return f"{100 * value:.{digits}f} %"


def size(value: float) -> str:
    """Write a number of bytes.

    >>> size(812), size(64_300), size(2_500_000)
    ('812 bytes', '64 kB', '2.5 MB')
    """
    if value < 1000:
        return f"{value:.0f} bytes"
    if value < 1e6:
        return f"{value / 1e3:.{0 if value >= 1e4 else 1}f} kB"
    return f"{value / 1e6:,.1f} MB"
