"""A run's settings: their classes, the layers that values come from, and their checks."""
