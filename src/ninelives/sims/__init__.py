"""Simulators that are ready to use. Loaded by name inside a worker; they see ``spec`` and nothing above it."""
