"""Print what is claimed beside what is audited, and whether planted faults are caught."""

from __future__ import annotations

import sys
import time
import warnings

from joblib import Parallel, delayed

from tests.audit.front_door.attack import Verdict, audit
from tests.audit.front_door.faults import FAULTS
from tests.audit.front_door.scenarios import SCENARIOS

N_RUNS, N_RUNS_OF_FAULTS = 600, 400
# What takes several times as long as the others is fitted a third as often.
LONG = (
    "MGR, many passes",
    "MGR, batches",
    "moments, three rounds",
    "auto, classifier",
    "auto, regressor",
    "ledger: forked processes",
    "DPSearchCV",
)


def audit_scenario(name: str) -> Verdict:
    warnings.simplefilter("ignore")
    return audit(name, SCENARIOS[name], N_RUNS // (3 if name in LONG else 1))


def audit_fault(name: str) -> Verdict:
    warnings.simplefilter("ignore")
    fault = FAULTS[name]
    with fault.plant():
        return audit(name, fault.run, N_RUNS_OF_FAULTS)


def main() -> int:
    started = time.monotonic()
    jobs = [delayed(audit_scenario)(name) for name in SCENARIOS]
    jobs += [delayed(audit_fault)(name) for name in FAULTS]
    wrong = []
    results = Parallel(n_jobs=2, return_as="generator", batch_size=1)(jobs)
    for name, verdict in zip([*SCENARIOS, *FAULTS], results, strict=True):
        planted = name in FAULTS
        good = verdict.is_broken == planted
        word = ("caught" if good else "MISSED") if planted else ("holds" if good else "BROKEN")
        print(
            f"{'planted: ' if planted else ''}{name}: claimed epsilon "
            f"{verdict.claimed_epsilon:.3f}, audited >= {verdict.audited_epsilon:.3f}: {word}",
            flush=True,
        )
        wrong += [] if good else [name]
    print(f"{len(jobs)} audits in {time.monotonic() - started:,.0f} s, {len(wrong)} wrong: {wrong}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
