"""SEES SUMS ONLY. Drives the solvers through a federation: scaling, training, Algorithm 1, selection."""
