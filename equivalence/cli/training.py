"""The command that judges the recorded steps of a training run: `judge`."""

from __future__ import annotations

import argparse
import time
from contextlib import closing

from equivalence.cli.options import filled, line
from equivalence.cli.progress import Progress
from equivalence.cli.work import require
from equivalence.runs.results import INTERRUPTED


def command_judge(chosen: argparse.Namespace) -> int:
    """Judge recorded training steps. Ctrl-C reports the steps that are judged so far."""
    chosen, _ = filled(chosen)
    require("torch", "flint")
    from equivalence.training.judge import Judged, JudgedStep, judge_tasks, report_steps, tasks_of

    start = time.perf_counter()
    tasks = tasks_of(chosen.run, chosen.engine)
    names = [f"step {step} by {provider}" for _, step, provider in tasks]
    found: dict[int, JudgedStep] = {}
    cut_short = False
    try:
        with Progress(f"{chosen.run}", len(tasks)) as progress:
            steps = judge_tasks(tasks, chosen.jobs, lambda number: progress.started(names[number]))
            with closing(steps):
                for number, judged in steps:
                    found[number] = judged
                    status = "within budget" if judged.conformant else "over budget"
                    progress.finished(names[number], status)
    except KeyboardInterrupt:
        cut_short = len(found) < len(tasks)
    judged_steps = tuple(found[number] for number in sorted(found))
    verdict = Judged(judged_steps, time.perf_counter() - start, not cut_short)
    code = report_steps(verdict, chosen.run, chosen.json)
    if not cut_short:
        return code
    asked = {"jobs": chosen.jobs} | ({"engine": chosen.engine} if chosen.engine else {})
    again = f"{line('judge', asked)} {chosen.run}"
    print(f"interrupted with {len(found)} of {len(tasks)} steps done; judge them all with")
    print(f"    {again}")
    return INTERRUPTED
