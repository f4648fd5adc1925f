"""Playing by hand: one game in a terminal or a window, keys in, pictures out."""
