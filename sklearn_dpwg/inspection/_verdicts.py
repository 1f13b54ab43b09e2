"""Whether an impact ratio is large enough, and what would tell where nobody can."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from sklearn_dpwg.inspection._counted_rates import CountedRates
from sklearn_dpwg.inspection.verdict import Answer, Verdict
from sklearn_dpwg.metrics.intervals import Interval, impact_ratios
from sklearn_dpwg.privacy import IntegerNoise

# What is tried of people and of epsilon; a forecast is good for a quarter at best.
_STEP, _MOST_TIMES, _MOST_PEOPLE, _MOST_EPSILON = 1.25, 1000.0, 1e6, 64.0


def answer_of(ratio: Interval, at_least: float) -> Answer:
    """Return what an interval of a ratio says; one that holds both says that nobody can tell."""
    if ratio.low >= at_least:
        return "passes"
    return "fails" if ratio.high < at_least else "cannot tell"


@dataclass(frozen=True)
class Comparison:
    """Ratios of each group to the reference, and what they say.

    ``strict_rates`` hold at a confidence at which those of all groups hold together.
    """

    labels: tuple[str, ...]
    metric: str
    at_least: float
    reference: int
    rates: tuple[Interval, ...]
    strict_rates: tuple[Interval, ...]
    counted: CountedRates
    confidence: float
    epsilon: float

    def of_group(self, group: int) -> Verdict:
        """Return the verdict about one group by itself."""
        return self._verdict(group, impact_ratios(self.rates, reference=self.reference)[group])

    def of_all(self) -> Verdict:
        """Return the verdict about all groups together."""
        ratios, strict = (
            impact_ratios(rates, reference=self.reference)
            for rates in (self.rates, self.strict_rates)
        )
        from_lowest = sorted(range(len(ratios)), key=lambda place: _known(ratios[place].estimate))
        for place in from_lowest:
            if strict[place].high < self.at_least:
                return self._verdict(place, strict[place])
        for place in from_lowest:
            if ratios[place].high < self.at_least:
                said = self._words(place, ratios[place])
                more = "More people."
                by_chance = "but the lowest of so many groups may be so by chance"
                return Verdict(
                    "cannot tell", f"{said}, below {self.at_least:g}, {by_chance}.", more
                )
            if ratios[place].low < self.at_least:
                return self._verdict(place, ratios[place])
        lowest = from_lowest[0]
        said = f"Every ratio is at least {self.at_least:g}"
        return Verdict("passes", f"{said}: {self._words(lowest, ratios[lowest])}, the lowest.")

    def _verdict(self, group: int, ratio: Interval) -> Verdict:
        said = self._words(group, ratio)
        answer = answer_of(ratio, self.at_least)
        if answer == "passes":
            return Verdict(answer, f"{said}, at least {self.at_least:g}.")
        if answer == "fails":
            return Verdict(answer, f"{said}, below {self.at_least:g}.")
        forecast = Forecast(
            self.counted, self.metric, group, self.reference, self.at_least, self.confidence
        )
        said = f"{said}, which may be below {self.at_least:g} or not."
        return Verdict(answer, said, forecast.words(self.labels[group], self.epsilon))

    def _words(self, group: int, ratio: Interval) -> str:
        number = f"{ratio.estimate:.2f} [{ratio.low:.2f}, {ratio.high:.2f}] times"
        if math.isnan(ratio.estimate):
            number = "an unknown multiple of"
        name = self.metric.replace("_", " ")
        return f"{self.labels[group]} has {number} the {name} of {self.labels[self.reference]}"


def _known(estimate: float) -> float:
    """Return an estimate, the largest where there is none."""
    return math.inf if math.isnan(estimate) else estimate


@dataclass(frozen=True)
class Forecast:
    """What other counts or other noise would say of the ratio of one group to another."""

    rates: CountedRates
    metric: str
    group: int
    reference: int
    at_least: float
    confidence: float

    def ratio(self, rates: CountedRates) -> Interval:
        """Return the interval of the ratio."""
        pair = [
            rates.interval(self.metric, place, self.confidence)
            for place in (self.group, self.reference)
        ]
        return impact_ratios(pair, reference=1)[0]

    def tells(self, rates: CountedRates) -> bool:
        """Return whether there would be an answer."""
        return answer_of(self.ratio(rates), self.at_least) != "cannot tell"

    def words(self, name: str, epsilon: float) -> str:
        """Say what would tell: people, or epsilon."""
        exact = self.rates.with_noise(None)
        sampling = _short(self.ratio(exact).width)
        seem = "if the rates are as they seem"
        people = self._people(name)
        noise = self.rates.noise
        if noise is None:
            return f"Width {sampling}; {seem}, {people} would tell."
        width = f"Width {_short(self.ratio(self.rates).width)}, of which sampling alone {sampling}"
        times = self._times_epsilon(noise) if self.tells(exact) else None
        if times is None:
            return f"{width}: more epsilon will not help; {seem}, {people} would tell."
        return (
            f"{width}; {seem}, epsilon = {epsilon * times:.2g} would tell, and so would {people}"
        ).rstrip(",") + "."

    def _times_epsilon(self, noise: IntegerNoise) -> float | None:
        """Return by what the epsilon of the audit would have to be multiplied."""

        def tells(times: float) -> bool:
            quieter = replace(noise, scale=noise.scale / times)
            return self.tells(self.rates.with_noise(quieter))

        return _least(tells, _MOST_EPSILON)

    def _people(self, name: str) -> str:
        pair = [int(self.rates.cells[place].sum()) for place in (self.group, self.reference)]
        most = min(_MOST_TIMES, _MOST_PEOPLE / max(*pair, 1))
        times = _least(lambda factor: self.tells(self.rates.scaled(factor)), most)
        if times is None or pair[0] < 1:
            return f"more people of {name} than can be said"
        return (
            f"about {_round_up(pair[0] * times):,} people of {name}, {times:.2g} times as many as "
            f"now in every group,"
        )


def _least(tells: Callable[[float], bool], most: float) -> float | None:
    """Return the smallest factor that tells, on a grid, by bisection; None where none does."""
    n_steps = math.floor(math.log(max(most, 1.0), _STEP))
    if n_steps < 1 or not tells(_STEP**n_steps):
        return None
    low, high = 0, n_steps
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if tells(_STEP**middle) else (middle, high)
    return float(_STEP**high)


def _round_up(number: float) -> int:
    """Return a number with two digits."""
    unit = 10 ** max(0, math.floor(math.log10(max(number, 1.0))) - 1)
    return int(math.ceil(number / unit) * unit)


def _short(number: float) -> str:
    return "infinite" if math.isinf(number) else f"{number:.3f}"
