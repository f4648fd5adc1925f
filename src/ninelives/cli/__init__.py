"""The command line: one file a verb. Verbs measure, ask and print; whatever decides is pure and lives beside them."""
