"""Processes: starting, watching, ending them, and when to start them again.

Blind to environments: it knows children by number and entry points by name. Decisions (``machine``, ``budget``,
``admission``) are pure and tested on a fake clock; effects (``keeper``, ``child``, ``children``) are thin.
"""
