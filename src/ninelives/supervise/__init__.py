"""Starting, watching and ending processes, and deciding when to start them again.

This package must know nothing about environments: children are numbers, entry points are names. Decisions
(``machine``, ``budget``, ``admission``) are pure and tested on a fake clock; effects (``keeper``, ``child``,
``children``) are thin.
"""
