"""SEES ROWS. This code runs only at the data holder: data access, answers to queries, the gate, the ledger."""

from comt.agent.agent import Agent
from comt.agent.data import ArrayRows, RowSource
from comt.agent.files import FileRows
from comt.agent.ledger import Ledger
from comt.agent.policy import Policy
from comt.agent.tables import TableRows

__all__ = ["Agent", "ArrayRows", "FileRows", "Ledger", "Policy", "RowSource", "TableRows"]
