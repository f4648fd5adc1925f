"""Bytes between processes: shared segments, the control words, doorbells and the mailbox.

Blind to policy: nothing here decides what a fault means, when a worker is restarted or which rows are valid.
"""
