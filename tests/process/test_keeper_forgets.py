"""A keeper whose children have died by the thousand is no larger than a new one."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

PROGRAM = textwrap.dedent(
    """
    import os, socket, sys
    from ninelives.supervise.child import ChildSpec
    from ninelives.supervise.keeper import Keeper

    ours, theirs = socket.socketpair()
    keeper = Keeper(theirs, os.getpid(), "fork", None)
    for number in range(5):
        keeper._spawn(
            ChildSpec(
                key=number, entry="builtins:print", args={}, keep_fds=(), scratch=f"{sys.argv[1]}/scratch",
                log=f"{sys.argv[1]}/log", tag=f"tag-{number}", name=f"name-{number}",
            )
        )
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        keeper._reap()
    print([len(kept) for kept in vars(keeper).values() if isinstance(kept, set | dict | list)])
    """
)


def test_nothing_is_kept_of_children_that_are_gone(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, check=True, timeout=60
    )
    assert set(json.loads(done.stdout)) == {0}, "a keeper in a long run with many faults would grow"
