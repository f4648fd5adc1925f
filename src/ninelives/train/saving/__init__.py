"""What a run keeps: its directory, checkpoints, and how it continues from them."""
