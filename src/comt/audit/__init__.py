"""Attacks on what a coordinator sees, to be run against ourselves. Simulations hold all rows at once, and say so."""
