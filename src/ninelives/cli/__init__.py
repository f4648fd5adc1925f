"""The command line: one file per verb. ``bench``, ``diagnosis`` and ``reporting`` hold what verbs share."""
