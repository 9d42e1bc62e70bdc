"""Choosing automatically: moments, rank tests and the weights of agents. Sums only."""
