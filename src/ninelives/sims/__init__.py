"""Simulators that are ready to use. Loaded by name inside a worker; they import ``spec`` and nothing above it."""
