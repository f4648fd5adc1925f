"""The data path of a pool: actions in, requests out, answers gathered into batches."""
