from __future__ import annotations

from hypothesis import HealthCheck, settings

# the same examples on every machine and every day; a failure is then everybody's failure
# a loaded machine is no reason to fail
settings.register_profile(
    "comt",
    derandomize=True,
    deadline=None,
    max_examples=40,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("comt")
