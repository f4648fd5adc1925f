"""Sinks and views: they show or store events. Sees ``ninelives.events`` and nothing else of the package."""
