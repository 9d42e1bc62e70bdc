"""Experiments: each claim in README and docs has a command here."""
