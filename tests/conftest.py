"""Settings of all property tests: none depends on speed, since a first call compiles kernels."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "segmentlog", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("segmentlog")
