"""Is it as good as others: learning curves of Ninelives's PPO and its peers, same game, same settings, same seeds.

``python benchmarks/learning.py`` trains what is not yet in ``build/learning`` and writes ``LEARNING.md``. Every run is
a process of its own, one after the other: the systems take turns seed by seed, so that a slow hour of the machine falls
on all of them. Slow tasks run only when they are asked for: ``--only lunarlander``.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import statistics
import sys
from pathlib import Path

import procfs
from curves import WIDTH, drawn
from onerun import Request, RunFailedError, in_a_child
from page import bullets, table, versions
from tasks import LABELS, TASKS, Task
from tracks import Course

HERE = Path(__file__).parent
PAGE = HERE / "LEARNING.md"
STORE = HERE.parent / "build" / "learning"

METHOD = """\
- Every system gets the same settings (below each table), the same network and the same number of environments. What a
  system does beyond that is its own: Ninelives bootstraps from the true last observation in batches, SB3 one by one.
- "trained" is the mean return of the last 100 episodes of the training itself; "greedy" and "drawn" are means over 100
  fresh episodes with the final weights, taking the likeliest action or drawing. "reached" is the step at which the mean
  of 50 episodes first was at the goal. Mean over seeds, in brackets the worst and the best seed.
- A curve is the mean over seeds of the mean return of the last 50 episodes."""


def main() -> int:
    args = _arguments()
    tasks = [_sized(task, args) for task in TASKS if task.name in (args.only or ()) or not (args.only or task.is_slow)]
    if not args.page:
        _train(tasks, args.store)
    known = [_sized(task, args) for task in TASKS]
    page = render([(task, _runs(task, args.store)) for task in known])
    if args.out is None and args.quick:
        print(page)
    else:
        (args.out or PAGE).write_text(page)
        print(f"written: {args.out or PAGE}")
    return 0


def _arguments() -> argparse.Namespace:
    names = ", ".join(task.name for task in TASKS)
    parser = argparse.ArgumentParser(prog="benchmarks/learning.py", description="Learning curves, side by side.")
    parser.add_argument("--only", nargs="+", metavar="TASK", choices=[t.name for t in TASKS], help=f"tasks: {names}")
    parser.add_argument("--quick", action="store_true", help="a few updates of one seed; prints, writes no file")
    parser.add_argument("--page", action="store_true", help="train nothing, write the page from what is stored")
    parser.add_argument("--store", type=Path, help="where runs are kept (default build/learning)")
    parser.add_argument("--out", type=Path, help="where the page goes (default benchmarks/LEARNING.md)")
    args = parser.parse_args()
    args.store = args.store or (STORE / "quick" if args.quick else STORE)
    return args


def _sized(task: Task, args: argparse.Namespace) -> Task:
    if not args.quick:
        return task
    rollout = task.settings.n_envs * task.settings.n_steps
    return dataclasses.replace(task, timesteps=min(task.timesteps, 6 * rollout), seeds=1)


def _train(tasks: list[Task], store: Path) -> None:
    store.mkdir(parents=True, exist_ok=True)
    for task in tasks:
        for seed in range(task.seeds):
            for system in task.systems:
                target = _file(store, task, system, seed)
                if target.exists():
                    continue
                print(f"{task.name}: {LABELS[system]}, seed {seed}", flush=True)
                # One thread for small networks: it changes the time of a run, not what is learned.
                options = {"threads": 1} if system == "sb3" and task.settings.net != "cnn" else {}
                try:
                    course = in_a_child(Request(system, task.game, task.timesteps, seed, task.settings, options))
                except RunFailedError as failure:
                    print(f"  failed: {failure}", flush=True)
                    continue
                target.write_text(course.as_json())
                print(f"  {course.seconds:.0f} s, trained {course.last():.1f}, {course.evaluation}", flush=True)


def _file(store: Path, task: Task, system: str, seed: int) -> Path:
    return store / f"{task.name}-{system}-{seed}.json"


def _runs(task: Task, store: Path) -> dict[str, list[Course]]:
    """What is stored of a task, by system."""
    found = {
        system: [
            Course.of_json(path.read_text())
            for seed in range(task.seeds)
            if (path := _file(store, task, system, seed)).exists()
        ]
        for system in task.systems
    }
    return {system: runs for system, runs in found.items() if runs}


def render(results: list[tuple[Task, dict[str, list[Course]]]]) -> str:
    """The whole page."""
    parts = [
        "# Learning, side by side",
        f"{datetime.date.today():%d %B %Y}; written by `python benchmarks/learning.py`.",
        "## Machine and versions",
        bullets({**procfs.describe_machine(), **versions()}.items()),
        "## Method",
        METHOD,
        *(section(task, runs) for task, runs in results if runs),
    ]
    missing = [task.title for task, runs in results if not runs]
    if missing:
        parts.append("## Not measured\n\n" + "\n".join(f"- {title}" for title in missing))
    return "\n\n".join(parts) + "\n"


def section(task: Task, runs: dict[str, list[Course]]) -> str:
    """One task: table, picture, settings."""
    rows = [_row(task, system, courses) for system, courses in runs.items()]
    head = ("system", "seeds", "trained", "(spread)", "greedy", "drawn", "reached", "seconds")
    at = [task.timesteps * (column + 1) / WIDTH for column in range(WIDTH)]
    means = {LABELS[system]: _mean_curve(courses, at) for system, courses in runs.items()}
    settings = ", ".join(f"{key} {value}" for key, value in dataclasses.asdict(task.settings).items())
    title = f"## {task.title}: goal {task.goal:g} within {task.timesteps:,} steps"
    picture = f"```\n{drawn(means, task.timesteps, task.goal)}\n```"
    return "\n\n".join((title, table(head, "lrrrrrrr", rows), picture, f"Settings: {settings}."))


def _row(task: Task, system: str, courses: list[Course]) -> tuple[str, ...]:
    trained = [course.last() for course in courses]
    steps = [course.reached(task.goal) for course in courses]
    reached = [step for step in steps if step is not None]
    at = f"{statistics.median(reached):,.0f} ({len(reached)} of {len(courses)})" if reached else "never"
    return (
        LABELS[system],
        str(len(courses)),
        f"{statistics.mean(trained):.2f}",
        f"({min(trained):.2f} to {max(trained):.2f})",
        _mean_of(courses, "greedy"),
        _mean_of(courses, "drawn"),
        at,
        f"{statistics.median(course.seconds for course in courses):.0f}",
    )


def _mean_of(courses: list[Course], key: str) -> str:
    values = [course.evaluation[key] for course in courses if key in course.evaluation]
    return f"{statistics.mean(values):.2f}" if values else ""


def _mean_curve(courses: list[Course], at: list[float]) -> list[float]:
    return [statistics.mean(points) for points in zip(*(course.curve(at) for course in courses), strict=True)]


if __name__ == "__main__":
    sys.exit(main())
