"""The two prototype recipes that automatic choice began with, rebuilt as a reference: pooled rows, nothing federated.

Classification is :mod:`.classification` ("evidence averaging around models of the buggy rows"), regression is
:mod:`.regression` ("exchangeability, then evidence"). Each says where the notes on it leave a choice, and what was chosen;
such choices were made on the cells of ``comt bench choice``, which the recipes were designed on, too.
"""

from comt.bench.prototypes.prototype import Prototype

__all__ = ["Prototype"]
