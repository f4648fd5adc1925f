"""What runs in a worker process: build environments, serve requests, report errors.

Never imports torch, never decides about faults, and never communicates with another worker. It is started by the
keeper; the parent knows it only by the name of its module.
"""
