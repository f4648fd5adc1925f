"""Measurements behind ``ninelives benchmark``: which pool shapes to try, and how fast each one is."""
