"""Solvers over callables: they know neither agents nor servers.

Each solver is a generator: it yields the points at which it wants sums over rows and receives them, so the same code
runs at a server (one exchange per yield, many problems side by side) and inside an agent (a local loop).
"""
