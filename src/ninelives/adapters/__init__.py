"""Thin views on a pool, in the words of other libraries: Gymnasium's ``VectorEnv``, Stable-Baselines3's ``VecEnv``.

A view translates calls and shapes. It never owns a process, waits, or decides about a fault: that is the pool's.
"""
