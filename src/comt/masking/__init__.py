"""Secure summation: what its two halves, ``comt.agent.site`` and ``comt.federation.masked``, have in common."""
