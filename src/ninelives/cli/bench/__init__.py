"""Measurements behind ``ninelives benchmark``: which layouts to try, and how fast each one is."""
