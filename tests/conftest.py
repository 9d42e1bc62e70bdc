from __future__ import annotations

from hypothesis import settings

# the same examples on every machine and every day; a failure is then everybody's failure
settings.register_profile("comt", derandomize=True, deadline=None, max_examples=40, database=None)
settings.load_profile("comt")
