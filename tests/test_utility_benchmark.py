"""What ``benchmarks/utility`` measures with: relations, peers, splits, ratios, resuming."""

import math
import sys

import numpy as np
import pytest

from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.privacy import Release, epsilon_of, gdp_epsilon
from tests.helpers.benchmarks import utility_with


@pytest.fixture(scope="module")
def utility():
    """The package and all of its modules that need no further environment."""
    with utility_with("__main__", "peers.__main__") as package:
        yield package


def small_task(utility, kind="classification", n=400, seed=0):
    """Two groups that want different things, of unequal size."""
    rng = np.random.default_rng(seed)
    codes = (rng.random(n) < 0.25).astype(int)
    X = rng.normal(size=(n, 3)) / 4.0
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    scores = 3.0 * X[:, 0] + np.where(codes == 1, 3.0, -1.0) * X[:, 1]
    rows = np.column_stack([X, np.ones(n)])
    targets = np.where(scores > 0, 1.0, -1.0) if kind == "classification" else np.tanh(scores)
    y = (targets > 0).astype(int) if kind == "classification" else targets
    groups = np.array(["a", "b"])[codes]
    part = utility.tasks.Part(rows, targets, codes, X, y, groups)
    public = {"data_norm": 1.0}
    if kind == "regression":
        public["target_bounds"] = (-1.0, 1.0)
    return utility.tasks.Task("small", kind, part, part, ("a", "b"), public)


def neighbours(task, corners=((0.9, 0.1, 0.0), (-0.9, 0.3, 0.0)), flip=True):
    """Pairs of parts that differ by one record, of either group."""
    for index in (np.flatnonzero(task.train.codes == group)[0] for group in (0, 1)):
        for corner in corners:
            for first, second in ((1.0, -1.0), (-1.0, 1.0)):
                pair = []
                for sign, target in ((1.0, first), (-1.0, second)):
                    part = task.train.take(np.arange(len(task.train.codes)))
                    part.rows[index, :3] = np.array(corner) * (sign if flip else 1.0)
                    part.targets[index] = target
                    pair.append(part)
                yield pair


def clipped_gradients(utility, task, part, weighting, clips):
    """Weighted sums of clipped gradients, of columns with these clips."""
    return utility.peers.clipped.ClippedGradients(
        part,
        utility.peers.weightings.record_factors(task, task.train, weighting),
        np.asarray(clips),
        is_classification=task.is_classification,
    )


def neighbouring_gradients(utility, task, weighting, clip, weights):
    """Pairs of sums on neighbouring records."""
    clips = np.full(weights.shape[1], clip)
    for pair in neighbours(task):
        yield [clipped_gradients(utility, task, part, weighting, clips)(weights) for part in pair]


# --- relations ---------------------------------------------------------------------------------


def test_full_batch_noise_is_what_gaussian_accounting_says(utility):
    multiplier = utility.peers.weightings.noise_multiplier(50, 1.0, 1e-5)
    assert gdp_epsilon(1e-5, math.sqrt(50) / multiplier) == pytest.approx(1.0, rel=1e-4)


def test_sampled_noise_keeps_the_budget_for_a_replaced_record(utility):
    multiplier = utility.peers.weightings.noise_multiplier(100, 1.0, 1e-5, 0.1)
    release = Release("gradient", "gaussian", multiplier, 100, sampling_rate=0.1)
    assert 0.99 < epsilon_of(release.event, 1e-5) <= 1.0
    # adding or removing one record is easier to hide: the same noise in units of C buys less ε
    import dp_accounting

    accountant = dp_accounting.pld.PLDAccountant(
        dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
    )
    event = dp_accounting.PoissonSampledDpEvent(
        0.1,
        dp_accounting.GaussianDpEvent(2.0 * multiplier),
    )
    accountant.compose(dp_accounting.SelfComposedDpEvent(event, 100))
    removed = accountant.get_epsilon(1e-5)
    assert 0.4 < removed < 0.8
    # removing and adding again promises no more than the accountant of replacements
    assert epsilon_of(release.event, (1.0 + math.exp(removed)) * 1e-5) <= 2.0 * removed


@pytest.mark.parametrize("kind", ["classification", "regression"])
@pytest.mark.parametrize("weighting", ["average", "mixed", "half", "balanced"])
def test_replacing_a_record_moves_a_gradient_within_the_sensitivity(utility, kind, weighting):
    task = small_task(utility, kind)
    descent = utility.peers.gradient_descent
    run, sizes = descent.Run(10, 0.1, 0.25, weighting), task.group_sizes
    weights = np.random.default_rng(1).normal(size=(4, 6)) * 3.0
    stated = descent.noise_std(sizes, run, 1.0, 1e-5)
    stated /= utility.peers.weightings.noise_multiplier(10, 1.0, 1e-5)
    moved = [
        np.linalg.norm(first - second, axis=0).max()
        for first, second in neighbouring_gradients(utility, task, weighting, run.clip, weights)
    ]
    assert max(moved) <= stated * (1 + 1e-12)
    assert max(moved) > 0.7 * stated  # nearly attained, so a factor of two would be seen


# --- peers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["classification", "regression"])
def test_unclipped_noiseless_gradient_is_that_of_the_risks(utility, kind):
    task = small_task(utility, kind)
    from sklearn_dpwg.data.records import RecordEncoder
    from sklearn_dpwg.losses import BinaryLogLoss, SquaredError

    loss = BinaryLogLoss() if kind == "classification" else SquaredError()
    records = RecordEncoder(2, 1.0).encode(task.train.X, task.train.targets, task.train.codes)
    risks = GroupRisks(records, loss, 1.0)
    weights = np.random.default_rng(2).normal(size=4)
    values, gradients = risks.risks_and_gradients(weights)
    sizes, shares = task.group_sizes, np.array([0.3, 0.7])
    found = utility.peers.clipped.ClippedGradients(
        task.train,
        (shares / sizes)[task.train.codes],
        np.array([100.0]),
        is_classification=kind == "classification",
    )(weights[:, None])
    np.testing.assert_allclose(found[:, 0], shares @ gradients, rtol=1e-12)
    losses, _ = task.losses_by_group(task.train, weights[:, None])
    np.testing.assert_allclose(losses[:, 0], values, rtol=1e-12)


def test_columns_are_runs_of_their_own(utility):
    task = small_task(utility)
    descent = utility.peers.gradient_descent
    runs = [descent.Run(10, 0.4, 0.5, "mixed"), descent.Run(10, 1.6, 1.0, "mixed")]
    both = descent.descend(task, task.train, runs, np.array([0.1, 0.2]), np.array([3, 4]))
    alone = descent.descend(task, task.train, runs[1:], np.array([0.2]), np.array([4]))
    for kind in ("last", "mean"):
        np.testing.assert_allclose(both[kind][:, 1:], alone[kind], rtol=1e-10)
    dro = utility.peers.group_dro
    runs = [dro.Run(20, 0.2, 0.4, 0.5, 0.1, "half"), dro.Run(20, 0.2, 0.1, 1.0, 1.0, "average")]
    both = dro.sgd(task, task.train, runs, np.array([0.0, 1.0]), 5)
    alone = dro.sgd(task, task.train, runs[1:], np.array([1.0]), 5)
    for kind in ("last", "mean"):
        np.testing.assert_allclose(both[kind][:, 1:], alone[kind], rtol=1e-10)


def test_hedge_on_losses_serves_the_worst_group_better(utility):
    task = small_task(utility)
    dro = utility.peers.group_dro
    runs = [dro.Run(400, 0.2, 0.4, 1.0, rate, "average") for rate in (0.0, 0.1)]
    means = dro.sgd(task, task.train, runs, np.zeros(2), 0)["mean"]
    plain, robust = task.train_excess(means)
    assert robust < plain - 0.01


def test_the_grid_is_judged_in_hindsight_by_the_reported_excess(utility):
    task = small_task(utility)
    peers, tuning = utility.peers.numpy_peers, utility.peers.tuning
    descent = utility.peers.gradient_descent
    runs = [descent.Run(10, rate, 0.5, "average") for rate in (0.01, 0.1, 0.4)]

    def train(part, chosen, budgets, seeds, *, is_final):
        noise = np.zeros(len(chosen))
        return descent.descend(task, part, list(chosen), noise, seeds)

    stages = (tuning.Stage(300, 2, 2), tuning.Stage(400, 2, 1))
    peer = peers.Peer(runs, ("n_steps", "weighting"), train, stages=stages)
    cells = peers.best_of_grid(task, peer, (1.0,), 2)
    every = train(task.train, runs, None, np.zeros(3, dtype=int), is_final=True)
    best = min(task.train_excess(weights).min() for weights in every.values())
    assert cells["1"]["train_excess"] == pytest.approx([best, best], abs=1e-5)
    assert cells["1"]["fresh_excess"] == pytest.approx([best, best], abs=1e-5)


def test_records_are_thinned_from_the_largest_groups_and_groups_keep_their_weight(utility):
    task = small_task(utility, n=400)
    tuning, weightings = utility.peers.tuning, utility.peers.weightings
    few = int(task.group_sizes.min())
    part = tuning.thin(task.train, 2, few + 150)
    assert np.bincount(part.codes).tolist() == [150, few]
    assert len(np.unique(part.X, axis=0)) == few + 150
    np.testing.assert_array_equal(np.bincount(tuning.thin(task.train, 2, 100).codes), [50, 50])
    assert len(tuning.thin(task.train, 2, 10_000).codes) == 400
    for weighting in weightings.WEIGHTINGS:
        factors = weightings.record_factors(task, part, weighting)
        shares = weightings.group_shares(task.group_sizes, weighting)
        np.testing.assert_allclose(np.bincount(part.codes, factors), shares)
    # what the race is judged by is the excess on what is left
    weights = np.random.default_rng(0).normal(size=(4, 3))
    everything = tuning.tuning_part(task, 400)
    np.testing.assert_allclose(
        tuning.thinned_excess(task, everything, weights), task.train_excess(weights), rtol=1e-4
    )


def test_weightings_count_records_by_powers_of_their_groups_sizes(utility):
    weightings, sizes = utility.peers.weightings, np.array([100, 400, 0])
    shares = {name: weightings.group_shares(sizes, name) for name in weightings.WEIGHTINGS}
    np.testing.assert_allclose(shares["average"], [0.2, 0.8, 0.0])
    np.testing.assert_allclose(shares["half"], [1 / 3, 2 / 3, 0.0])
    np.testing.assert_allclose(shares["balanced"], [0.5, 0.5, 0.0])
    np.testing.assert_allclose(shares["mixed"], [0.26, 0.74, 0.0])
    assert weightings.largest_factor(sizes, "half") == pytest.approx(1 / 300)


# --- objective perturbation and Newton's method ------------------------------------------------


def amp_plan(utility, task, run, epsilon=1.0, delta=1e-5):
    return utility.peers.objective_perturbation.make_plan(
        task.group_sizes,
        run,
        epsilon,
        delta,
        utility.peers.weightings.row_bound(task),
        is_classification=task.is_classification,
    )


@pytest.mark.parametrize("kind", ["classification", "regression"])
@pytest.mark.parametrize("clip", [0.1, 1.0])
def test_a_replaced_record_moves_a_perturbed_objective_as_its_plan_says(utility, kind, clip):
    task = small_task(utility, kind)
    amp, weightings = utility.peers.objective_perturbation, utility.peers.weightings
    run = amp.Run(0.3, clip, "half")
    plan = amp_plan(utility, task, run)
    factor = weightings.largest_factor(task.group_sizes, "half")
    weights = np.random.default_rng(1).normal(size=(4, 50)) * 3.0
    moved = max(
        np.linalg.norm(first - second, axis=0).max()
        for first, second in neighbouring_gradients(utility, task, "half", clip, weights)
    )
    assert 0.7 * 2.0 * factor * clip < moved <= 2.0 * factor * clip * (1 + 1e-12)
    # one record's curvature, by differences, is at most what the regularisation is made for
    longest = np.array([0.6, 0.8, 0.0, 1.0])
    curvature = amp.largest_curvature(clip, np.sqrt(2.0), is_classification=kind[0] == "c")
    one = task.train.take(np.array([0]))
    one.rows[0] = longest
    found = []
    for target in (-1.0, 1.0):
        one.targets[0] = target
        sums = utility.peers.clipped.ClippedGradients(
            one, np.ones(1), np.full(4001, clip), is_classification=kind[0] == "c"
        )
        lengths = np.linspace(-6.0, 6.0, 4001)
        slopes = longest @ sums(longest[:, None] * lengths / 2.0)
        found.append(np.diff(slopes) / np.diff(lengths))
    assert max(map(np.max, found)) <= curvature * (1 + 1e-6)
    assert max(map(np.max, found)) > 0.99 * curvature
    assert np.log1p(factor * curvature / plan.strength) == pytest.approx(0.3)


def test_a_shorter_row_has_no_more_curvature(utility):
    amp = utility.peers.objective_perturbation
    for clip in (0.1, 0.5, 0.7, 1.0):
        most = amp.largest_curvature(clip, 1.5, is_classification=True)
        shorter = [
            amp.largest_curvature(clip, length, is_classification=True)
            for length in np.linspace(0.01, 1.5, 50)
        ]
        assert max(shorter) <= most * (1 + 1e-12)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 8.0])
def test_objective_perturbation_spends_its_budget_by_the_closed_form(utility, epsilon):
    from sklearn_dpwg.privacy import gdp_delta

    task, weightings = small_task(utility), utility.peers.weightings
    amp = utility.peers.objective_perturbation
    for run in amp.grid():
        plan = amp_plan(utility, task, run, epsilon)
        factor = weightings.largest_factor(task.group_sizes, run.weighting)
        first = 2.0 * factor * run.clip / plan.linear_std
        second = 2.0 * plan.tolerance / plan.strength / plan.output_std
        left = epsilon - run.curvature_share * epsilon
        assert 2.0 * gdp_delta(left, np.hypot(first, second)) == pytest.approx(1e-5, rel=1e-6)
    with pytest.raises(ValueError, match="must be larger"):
        amp_plan(utility, task, amp.Run(0.8, 1.0, "average"), 0.1, 0.4)


@pytest.mark.parametrize("angle", [0.0, 0.3, np.pi / 2, 2.5])
@pytest.mark.parametrize("labels", [(1.0, -1.0), (1.0, 1.0)])
def test_exact_minimisers_of_neighbours_are_as_close_as_is_proved(utility, angle, labels):
    """The δ of the densities of the minimisers in the plane, by quadrature."""
    from sklearn_dpwg.privacy import gdp_delta

    amp = utility.peers.objective_perturbation
    clip, factor, std, strength = 0.1, 0.5, 0.12, 0.4
    rows = np.array([[1.0, 0.0], [np.cos(angle), np.sin(angle)]])
    other = np.array([0.3, 0.5])
    # minimisers are far within this window
    axis = np.linspace(-3.0, 3.0, 901)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)

    def density(row, label):
        linear, hessian = -strength * grid, strength * np.eye(2) + np.zeros((*grid.shape[:2], 2, 2))
        for x, y in ((row, label), (other, 1.0)):
            slopes = 1.0 / (1.0 + np.exp(y * (grid @ x)))
            limit = clip / np.linalg.norm(x)
            curvature = factor * slopes * (1.0 - slopes) * (slopes < limit)
            linear += factor * y * np.minimum(slopes, limit)[..., None] * x
            hessian += curvature[..., None, None] * np.outer(x, x)
        normal = np.exp(-0.5 * np.sum(linear**2, axis=-1) / std**2) / (2.0 * np.pi * std**2)
        return normal * np.linalg.det(hessian) * (axis[1] - axis[0]) ** 2

    first, second = (density(row, label) for row, label in zip(rows, labels, strict=True))
    assert first.sum() == pytest.approx(1.0, abs=2e-3)
    kappa = np.log1p(factor * amp.largest_curvature(clip, 1.0, is_classification=True) / strength)
    mu = 2.0 * factor * clip / std
    attained = []
    for epsilon in (kappa + np.sqrt(mu**2 + mu**4 / 4.0)) * np.array([1.0, 1.3, 1.7]):
        found = max(
            np.maximum(a - np.exp(epsilon) * b, 0.0).sum()
            for a, b in ((first, second), (second, first))
        )
        stated = 2.0 * gdp_delta(epsilon - kappa, mu)
        assert found <= stated
        attained.append(found / stated)
    # the bound is not idle where one row has both labels: there the linear term moves by 2fC
    if angle == 0.0 and labels[0] != labels[1]:
        assert max(attained) > 0.2


def test_minimisers_are_as_near_as_plans_promise(utility):
    task = small_task(utility)
    amp, peers = utility.peers.objective_perturbation, utility.peers.clipped
    runs = [amp.Run(share, clip, "half") for clip in (0.1, 1.0) for share in (0.03, 0.6)]
    plans = [amp_plan(utility, task, run, 8.0) for run in runs]
    silent = [plan._replace(output_std=0.0) for plan in plans]
    seeds = np.arange(4)
    released = amp.perturb(task, task.train, runs, silent, seeds, is_final=True)["last"]
    lengths = np.linalg.norm(released, axis=0)
    gradient = clipped_gradients(utility, task, task.train, "half", [run.clip for run in runs])(
        released
    )
    gradient += np.array([plan.strength for plan in plans]) * released
    gradient += np.array([plan.linear_std for plan in plans]) * peers.seeded_normals(seeds, 1, 4)
    inside = lengths < 0.999 * task.radius  # what is projected is a minimiser no longer
    assert inside.sum() >= 2
    tolerances = np.array([plan.tolerance for plan in plans])
    assert (np.linalg.norm(gradient, axis=0) <= 1.01 * tolerances)[inside].all()
    # noise on the minimiser is drawn, with the plan's deviation
    noisy = amp.perturb(task, task.train, runs, plans, seeds, is_final=True)["last"]
    drawn = amp.OUTPUT_STD * peers.seeded_normals(seeds, 2, 4)
    np.testing.assert_allclose((noisy - released)[:, inside], drawn[:, inside], atol=1e-6)


@pytest.mark.parametrize("kind", ["classification", "regression"])
@pytest.mark.parametrize("part_of_most", [0.25, 1.0])
def test_a_replaced_record_moves_a_hessian_as_its_noise_says(utility, kind, part_of_most):
    from sklearn_dpwg.privacy import gdp_mu

    task = small_task(utility, kind)
    newton, weightings = utility.peers.newton, utility.peers.weightings
    factors = weightings.record_factors(task, task.train, "balanced")
    factor = weightings.largest_factor(task.group_sizes, "balanced")
    weights = np.random.default_rng(1).normal(size=(4, 3))
    weights[:, 0] = 0.0
    for kind_of_hessians, n_hessians in (("once", 1), ("each", 7)):
        run = newton.Run(7, kind_of_hessians, 1.0, 0.5, part_of_most, "balanced")
        noise = newton.make_noise(
            task.group_sizes,
            run,
            2.0,
            1e-5,
            weightings.row_bound(task),
            is_classification=kind == "classification",
        )
        spent = 7 * (2.0 * factor * 0.5 / noise.gradient) ** 2
        spent += n_hessians * (math.sqrt(2.0) * factor * noise.longest / noise.hessian) ** 2
        assert math.sqrt(spent) == pytest.approx(gdp_mu(2.0, 1e-5))

    moved = []
    for pair in neighbours(task, corners=((1.0, 0.0, 0.0), (0.0, 0.8, 0.6))):
        first, second = (
            newton.ClippedHessians(
                part,
                factors,
                np.full(3, noise.longest),
                is_classification=task.is_classification,
            )(weights)
            for part in pair
        )
        moved.append(np.linalg.norm(first - second, axis=(1, 2)).max())
    stated = math.sqrt(2.0) * factor * noise.longest
    assert 0.9 * stated < max(moved) <= stated * (1 + 1e-9)


def test_hessians_are_those_of_the_risks_and_their_noise_is_isometric(utility):
    task, newton = small_task(utility), utility.peers.newton
    factors = utility.peers.weightings.record_factors(task, task.train, "half")
    weights = np.random.default_rng(3).normal(size=(4, 2))
    found = newton.ClippedHessians(task.train, factors, np.full(2, 10.0), is_classification=True)(
        weights
    )
    sums = clipped_gradients(utility, task, task.train, "half", np.full(2, 10.0))
    for j in range(4):
        step = 1e-5 * np.eye(4)[:, [j]]
        difference = (sums(weights + step) - sums(weights - step)) / 2e-5
        np.testing.assert_allclose(found[:, :, j].T, difference, rtol=1e-5, atol=1e-9)
    rng = np.random.default_rng(0)
    draws = np.array([newton.symmetric_noise(rng, 3) for _ in range(20_000)])
    np.testing.assert_array_equal(draws, draws.transpose(0, 2, 1))
    deviations = draws.std(axis=0)
    expected = np.full((3, 3), math.sqrt(0.5)) + (1.0 - math.sqrt(0.5)) * np.eye(3)
    np.testing.assert_allclose(deviations, expected, rtol=0.03)


@pytest.mark.parametrize("kind", ["classification", "regression"])
def test_newton_without_noise_finds_the_average_optimum(utility, kind):
    task, newton = small_task(utility, kind), utility.peers.newton
    for hessians in ("once", "each"):
        runs = [newton.Run(400, hessians, 0.0, 5.0, 1.0, "average")]
        quiet = [newton.Noise(0.0, 0.0, 10.0)]
        found = newton.newton(task, task.train, runs, quiet, np.zeros(1), is_final=True)["last"]
        best = np.array(task.optima["average"]["weights"])
        assert np.linalg.norm(best) < 0.99 * task.radius
        np.testing.assert_allclose(found[:, 0], best, atol=0.01)


# --- the population ----------------------------------------------------------------------------


def test_peers_run_on_a_half_of_the_population(utility, tmp_path, monkeypatch, capsys):
    import types

    task, population = small_task(utility), utility.population
    task.name = "small"
    definitions = tuple(
        types.SimpleNamespace(name=name, half=half)
        for name, half in (("small", "checking"), ("other", "choosing"))
    )
    monkeypatch.setattr(population, "DEFINITIONS", definitions)
    monkeypatch.setattr(population, "load_definition", lambda definition, cache=None: task)
    main, run = sys.modules["utility.peers.__main__"], utility.peers.run
    assert population.names_of("all") == ("small", "other")
    assert population.names_of("choosing") == ("other",)
    assert population.names_of(None) == utility.tasks.task_names()
    # the papers' schedules are for the page's tasks
    assert not run.applies("paper: mgr, at most 150 passes", task.name, task.kind)
    assert run.applies("paper: mgr, at most 150 passes", "adult", "classification")
    assert run.applies("diffprivlib", task.name, task.kind)
    assert not run.applies("diffprivlib", task.name, "regression")
    monkeypatch.setattr(main, "peer_path", lambda name, method: tmp_path / name / method)
    monkeypatch.setattr(main, "FOLDER", tmp_path)
    command = ["peers", "--population", "checking", "--method", run.NOTHING]
    monkeypatch.setattr(sys, "argv", command)
    main.main()
    assert set(utility.store.read_cells(tmp_path / "small" / run.NOTHING)[1]) == set("1248")
    monkeypatch.setattr(sys, "argv", [*command, "--task", "adult"])
    with pytest.raises(SystemExit):
        main.main()
    assert "--task must be one of small, got adult." in capsys.readouterr().err


def test_predicting_nothing_and_the_optima(utility):
    task = small_task(utility)
    run = utility.peers.run
    nothing = run.run_method(run.NOTHING, task, (1.0,), 5)["1"]
    assert nothing["test_loss"] == pytest.approx([math.log(2.0)])
    worst = run.run_method(run.WORST_GROUP, task, (1.0,), 5)["1"]["train_excess"]
    average = run.run_method(run.AVERAGE, task, (1.0,), 5)["1"]["train_excess"]
    assert worst == pytest.approx([0.0], abs=1e-7)
    assert 0.01 < average[0] < nothing["train_excess"][0]


# --- tasks -------------------------------------------------------------------------------------


def test_the_split_is_fixed_and_disjoint(utility):
    train, test = utility.tasks.split(1001)
    assert len(test) == 200
    np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(1001))
    np.testing.assert_array_equal(utility.tasks.split(1001)[1], test)


@pytest.mark.parametrize("name", ["made-classification", "made-regression"])
def test_a_made_task_has_its_populations_optimum(utility, name):
    task = utility.tasks.load_task(name)
    optimum = np.array(task.optima["worst-group"]["weights"])[:, None]
    # the optimum of so many records is near that of the population, and never better
    assert 0.0 <= task.train_excess(optimum)[0] < 2e-3
    losses, _ = task.losses_by_group(task.test, optimum)
    sampled = losses.max() - task.scores(optimum).test_loss[0]
    assert sampled == 0.0


@pytest.mark.parametrize("kind", ["classification", "regression"])
def test_a_fit_is_scored_on_unit_rows(utility, kind):
    task = small_task(utility, kind)
    found = utility.ours.fit_once(task, "mgr", 8.0, 0)
    assert found["solver"] == "mgr"
    assert 0.99 * 8.0 < found["stated_epsilon"] <= 8.0
    nothing = task.train_excess(np.zeros((4, 1)))[0]
    assert 0.0 < found["train_excess"] < nothing
    # train and test parts are the same here
    assert found["test_loss"] == pytest.approx(
        found["train_excess"] + task.optima["worst-group"]["value"]
    )
    assert (found["test_accuracy"] is None) == (kind == "regression")


# --- what is kept ------------------------------------------------------------------------------


def test_a_stopped_run_is_resumed_and_changed_sources_are_measured_again(utility, tmp_path):
    path = tmp_path / "folder" / "task.json"
    store = utility.store.Store(path, {"sources": "one"})
    store.put({"a": 1})
    store.put({"b": 2})
    again = utility.store.Store(path, {"sources": "one"})
    assert "a" in again
    assert again["b"] == 2
    assert "a" not in utility.store.Store(path, {"sources": "two"})
    assert utility.store.read_cells(tmp_path / "none.json") == ({}, {})


def test_the_fingerprint_is_that_of_the_sources(utility, tmp_path):
    (tmp_path / "one.py").write_text("a = 1\n")
    first = utility.store.fingerprint(tmp_path)
    (tmp_path / "notes.txt").write_text("nothing")
    assert utility.store.fingerprint(tmp_path) == first
    (tmp_path / "one.py").write_text("a = 2\n")
    assert utility.store.fingerprint(tmp_path) != first


def test_moments_are_measured_on_regression_alone(utility):
    ours, tasks = utility.ours, utility.tasks
    for name in tasks.task_names():
        is_regression = name.endswith("regression") or name.startswith("cps-")
        methods = ours.methods_of(name, utility.population.kind_of(name))
        assert ("moments" in methods) == is_regression
        assert set(ours.OURS) - set(methods) <= {"moments"}


def test_the_online_solver_is_measured_on_the_pages_tasks_alone(utility):
    assert utility.population.kind_of("swings") == "classification"
    assert utility.population.kind_of("gsoep-income") == "regression"
    methods = utility.ours.methods_of
    assert methods("swings", "classification") == ["ours (auto)", "mgr", "phased-erm"]
    assert methods("gsoep-income", "regression")[1:] == ["mgr", "phased-erm", "moments"]


def test_what_auto_fitted_by_the_same_plan_is_not_fitted_again(utility, tmp_path, monkeypatch):
    main, task, asked = utility.__main__, small_task(utility), []
    assert utility.ours.planned(task, "mgr", 1.0) == utility.ours.planned(task, "mgr", 1.0)
    assert utility.ours.planned(task, "mgr", 1.0) != utility.ours.planned(task, "mgr", 2.0)
    assert utility.ours.planned(task, "mgr", 1.0) != utility.ours.planned(task, "oco", 1.0)

    def fit_once(task, solver, epsilon, seed):
        asked.append(solver)
        return {"train_excess": 0.1 * seed}

    monkeypatch.setattr(main, "fit_once", fit_once)
    monkeypatch.setattr(main, "load_by_name", lambda name, cache: task)
    solvers = {"ours (auto)": "mgr", "mgr": "mgr", "oco": "oco"}
    monkeypatch.setattr(main, "OURS", solvers)
    monkeypatch.setattr(main, "methods_of", lambda name, kind: list(solvers))
    monkeypatch.setattr(main, "ours_path", lambda name: tmp_path / f"{name}.json")
    main.measure(["compas"], (1.0,), 2)
    assert asked == ["mgr", "mgr", "oco", "oco"]
    _, cells = utility.store.read_cells(tmp_path / "compas.json")
    assert cells["mgr|1|1"] == cells["ours (auto)|1|1"] == {"train_excess": 0.1}


def test_a_fit_keeps_the_bound_of_its_plan(utility, tmp_path):
    task = small_task(utility)
    fit = utility.ours.fit_once(task, "mgr", 8.0, 0)
    plan = utility.ours.make_model(task, "mgr", 8.0).plan(
        group_sizes=task.group_sizes.tolist(), n_features=3
    )
    assert fit["predicted_excess"] == plan.predicted_excess
    path = utility.store.ours_path("compas", tmp_path)
    utility.store.Store(path, {}).put({"ours (auto)|8|0": fit})
    cells = utility.frame.collect(["compas"], (8.0,), 1, tmp_path)
    assert cells["compas", 8.0]["ours (auto)"]["predicted_excess"] == plan.predicted_excess
