"""The two prototype recipes that automatic choice began with, rebuilt as a reference: pooled rows, nothing federated.

Classification is :mod:`.classification` ("evidence averaging around models of the buggy rows"), regression is
:mod:`.regression` ("exchangeability, then evidence"). Each says where the notes on it leave a choice, and what was chosen;
what was compared was compared on the cells of ``comt bench choice``, never on those of ``comt bench unseen``.
"""

from comt.bench.prototypes.prototype import Prototype

__all__ = ["Prototype"]
