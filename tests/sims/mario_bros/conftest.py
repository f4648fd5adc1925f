"""Collected only where you have installed gym-super-mario-bros yourself: it carries games that nobody may ship."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("gym_super_mario_bros") else ["*.py"]
