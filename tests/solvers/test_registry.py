from __future__ import annotations

import math

import pytest

from sklearn_dpwg.solvers import MGR, SOLVERS, Auto, Exact, Solver, make_solver


@pytest.mark.parametrize("name", SOLVERS)
def test_every_name_makes_its_solver(name):
    assert issubclass(SOLVERS[name], Solver)
    assert type(make_solver(name, epsilon=1.0)) is SOLVERS[name]


def test_auto():
    assert isinstance(make_solver("auto", epsilon=1.0), Auto)


def test_an_instance_is_used_as_it_is():
    solver = MGR(n_steps=3)
    assert make_solver(solver, epsilon=1.0) is solver


@pytest.mark.parametrize("solver", ["auto", "mgr", "exact", MGR(n_steps=3)])
def test_without_a_budget_the_exact_solver_stands_in(solver):
    assert isinstance(make_solver(solver, epsilon=math.inf), Exact)


def test_the_exact_solver_keeps_its_parameters():
    solver = Exact(tolerance=1e-3)
    assert make_solver(solver, epsilon=math.inf) is solver


@pytest.mark.parametrize("epsilon", [1.0, math.inf])
def test_unknown_solvers(epsilon):
    message = (
        r"^solver must be one of \['ags', 'auto', 'best-response', 'exact', 'gda', 'mgr', "
        r"'moments', 'oco', 'online-to-batch', 'phased-erm'\] or a solver instance, got 'sgd'"
    )
    with pytest.raises(ValueError, match=message):
        make_solver("sgd", epsilon=epsilon)
    for solver in (None, MGR, 3):
        with pytest.raises(TypeError, match=r"^solver must be a name or a solver instance, got"):
            make_solver(solver, epsilon=epsilon)
