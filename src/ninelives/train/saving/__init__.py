"""What a run saves: its directory, its checkpoints, and how it is resumed from them."""
