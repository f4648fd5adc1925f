"""Emulated games as environments: machines, screens, memory maps, rewards, states and movies."""
