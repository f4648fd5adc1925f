"""Thin views of a pool behind the interfaces of other libraries: Gymnasium's ``VectorEnv``, SB3's ``VecEnv``.

A view translates calls and shapes. It must never own a process, wait, or decide about a fault: the pool does that.
"""
