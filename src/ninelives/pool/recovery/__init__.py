"""How a slot comes back after a fault: its status, its journal, snapshots and replays."""
