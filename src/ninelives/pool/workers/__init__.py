"""The worker processes of a pool: starting, watching, replacing them, and why each one ended."""
