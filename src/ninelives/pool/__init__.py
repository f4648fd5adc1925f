"""The pool: joins spec, transport and supervise into ``send`` and ``recv`` over slots that are allowed to die.

Knows the worker's code only by the name of its entry point.
"""
