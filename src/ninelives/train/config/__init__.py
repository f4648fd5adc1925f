"""A run's settings: the classes that hold them, where values come from, and what is refused."""
