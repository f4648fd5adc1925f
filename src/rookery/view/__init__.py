"""Listeners: whatever shows or keeps events. Sees ``rookery.events`` and nothing else of the package."""
