"""Playing a game by hand, in a terminal or a window."""
