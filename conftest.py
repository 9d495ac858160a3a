"""Settings every test shares: hypothesis tries the same examples each time, and no test depends on the clock."""

import signal

from hypothesis import HealthCheck, settings

settings.register_profile("repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("repeatable")

# A shell that starts a run in the background has it ignore Ctrl-C, and programs inherit that: those that tests
# interrupt would not end.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
