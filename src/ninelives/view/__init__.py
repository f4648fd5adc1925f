"""Listeners: whatever shows or keeps events. Sees ``ninelives.events`` and nothing else of the package."""
