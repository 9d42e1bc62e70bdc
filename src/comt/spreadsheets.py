"""Tables that people open in spreadsheets: no cell of them is run as a formula."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

#: a text cell that begins with one of these is run as a formula by spreadsheets
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def neutral(table: pd.DataFrame) -> pd.DataFrame:
    """Put an apostrophe before text that a spreadsheet would run as a formula; numbers stay numbers."""

    def safe(cell: Any) -> Any:
        return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell

    text = table.select_dtypes(include=["object", "str", "category"]).columns
    import pandas as pd

    # as objects: left to itself, pandas would turn whole numbers beside empty cells into floats
    cells = {name: pd.Series([safe(cell) for cell in table[name]], table.index, dtype=object) for name in text}
    safe_cells = table.assign(**cells)
    return safe_cells.rename(columns=safe)


def original(cell: str) -> str:
    """Take the apostrophe away again."""
    return cell[1:] if cell[:1] == "'" and cell[1:].startswith(FORMULA) else cell
