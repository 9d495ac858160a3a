"""Settings every test shares: hypothesis tries the same examples each time, and no test depends on the clock."""

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
