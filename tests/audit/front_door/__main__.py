"""Print what is claimed beside what is audited, and whether planted faults are caught."""

from __future__ import annotations

import argparse
import resource
import sys
import time
import warnings
from collections.abc import Sequence

from joblib import Parallel, delayed

from tests.audit.front_door.attack import Verdict, audit
from tests.audit.front_door.faults import FAULTS
from tests.audit.front_door.scenarios import SCENARIOS

# How often a run of all audits may have a bound on an error rate that is wrong, at most.
WRONG = 1e-3


def audit_by_name(name: str, wrong: float) -> tuple[Verdict, float]:
    """Return the verdict on a scenario or a planted fault, and the CPU seconds that it took."""
    warnings.simplefilter("ignore")
    before, fault = cpu_seconds(), FAULTS.get(name)
    if fault is None:
        verdict = audit(SCENARIOS[name].run, SCENARIOS[name].n_runs, wrong)
    else:
        with fault.plant():
            verdict = audit(SCENARIOS[fault.scenario].run, fault.n_runs, wrong)
    return verdict, cpu_seconds() - before


def cpu_seconds() -> float:
    """Return the time of this process and of those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def line(name: str, verdict: Verdict, seconds: float) -> str:
    """Return what became of a claim or a planted fault."""
    if name in FAULTS:
        title, word = f"planted: {name}", "caught" if verdict.is_broken else "MISSED"
    else:
        title, word = name, "BROKEN" if verdict.is_broken else "holds"
    return (
        f"{title}: claimed epsilon {verdict.claim.epsilon:.3g}, audited >= "
        f"{verdict.audited_epsilon:.3g}: {word} ({seconds:.0f} s)"
    )


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.audit.front_door", description=__doc__)
    parser.add_argument(
        "--only", action="append", metavar="TEXT", help="audit what has this in its name"
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parsed(arguments)
    everything = [*SCENARIOS, *FAULTS]
    expected = options.only or [""]
    names = [name for name in everything if any(text in name for text in expected)]
    if not names:
        print(f"--only must be part of a name, got {options.only}; names are {everything}.")
        return 2
    started = time.monotonic()
    wrong = WRONG / len(everything)
    jobs = [delayed(audit_by_name)(name, wrong) for name in names]
    results = Parallel(n_jobs=2, return_as="generator", batch_size=1)(jobs)
    total, bad = 0.0, []
    for name, (verdict, seconds) in zip(names, results, strict=True):
        total += seconds
        bad += [name] if verdict.is_broken != (name in FAULTS) else []
        print(line(name, verdict, seconds), flush=True)
    print(
        f"{len(names)} audits in {time.monotonic() - started:,.0f} s, {total:,.0f} s of two "
        f"processors together; {len(bad)} not as they should be: {', '.join(bad) or 'none'}"
    )
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
