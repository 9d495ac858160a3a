"""Second stage: everything one recording brought home, in memory or in a spool."""
