"""Settings for tests without processes."""

from hypothesis import settings

# Times vary on a shared machine, so no deadline; no database, so that nothing is left beside the sources.
settings.register_profile("rookery", deadline=None, database=None)
settings.load_profile("rookery")
