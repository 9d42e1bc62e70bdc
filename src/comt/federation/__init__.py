"""How queries travel: a federation turns one question to many agents into one sum. It never sees a row."""

from comt.federation.base import Answering, Declaring, Federation, TableFederation
from comt.federation.local import LocalFederation

__all__ = ["Answering", "Declaring", "Federation", "LocalFederation", "TableFederation"]
