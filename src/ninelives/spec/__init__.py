"""Pure data: what an environment is, how its spaces map to arrays, where bytes lie, which settings are allowed.

Owns no process, no file and no shared memory; everything here can be tested without any.
"""
