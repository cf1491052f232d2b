"""PyTorch tensors give what NumPy arrays give; on the CPU everywhere, on an accelerator where there is one."""

import sys

import array_api_compat.torch  # noqa: F401 - a missing test dependency shows here, not as an error of planning
import numpy as np
import pytest
import torch

import fitnoise as fn
import zoo
from fitnoise.algebra import backends
from fitnoise.algebra.backends import NUMPY, torch_backend
from fitnoise.mechanisms.gaussian.formulation import Formulation
from fitnoise.request.publication import CellBudgets, Goal, Objective
from laws.plans import check_plan
from refused import refused
from tolerances import EXACT, GAP

torch.set_num_threads(1)  # many are slower on two cores

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
NAMES = ["five structured cells", "crossed", "all ranges", "pivoted basis", "random signs", "wide targets", "marginals"]
SWAP = fn.PrivacyUnit(neighbours=fn.Neighbours.REPLACE_ONE)


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


@pytest.mark.parametrize("kind", zoo.OBJECTIVES)
@pytest.mark.parametrize("name", NAMES)
def test_tensors_evaluate_a_problem_as_arrays_do(name, kind, device, rng):
    """Bounds, slopes and second derivatives, at the same weights."""
    form = zoo.formulation(name, kind)
    d = form.decomposition
    pairs, terms = zoo.all_pairs(d, kind), zoo.terms(d, kind)
    other = Formulation(d, terms, pairs=pairs, backend=torch_backend(device))
    p, q = rng.random(form.problem.cells) + 0.1, rng.random(form.problem.constraints) + 0.1
    p, q = p / p.sum(), q / q.sum()
    a, b = form.problem.linearise(p, q), other.problem.linearise(p, q)
    rounding = 1e-8 if "pairs" in kind else EXACT  # the number of records is nearly free there, and cancels
    for x, tolerance in (("nu", EXACT), ("lower", EXACT), ("total", EXACT), ("stretch", EXACT), ("upper", rounding)):
        assert getattr(b.value, x) == pytest.approx(getattr(a.value, x), rel=tolerance), x
    v = rng.normal(size=len(p) + len(q))
    for x, y, tolerance in (
        (a.value.profile, b.value.profile, rounding),
        (a.value.ratios, b.value.ratios, EXACT),
        (a.hessian_times(v), b.hessian_times(v), 10 * rounding),
        (a.diagonal(), b.diagonal(), 1e-4 if "pairs" in kind else EXACT),  # its bounds, for the preconditioner
    ):
        assert x.dtype == y.dtype == np.float64
        np.testing.assert_allclose(x, y, rtol=EXACT, atol=tolerance * np.abs(x).max())
    for f, g in zip(form.precision_factors(p, q), other.precision_factors(p, q), strict=True):
        one, two = (x.swapaxes(1, 2) @ x for x in (f, g))
        np.testing.assert_allclose(one, two, rtol=0, atol=EXACT * np.abs(one).max())


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"unit": SWAP, "public": fn.KnownTotals((), "Register", "these data")},
        {"unit": SWAP, "source": fn.DataSource(outside_domain=fn.OutsideDomain.DROP)},
        {"objective": Objective(Goal.TOTAL_ERROR)},
        {"objective": Objective(Goal.HYBRID, total_error_weight=0.01)},
    ],
    ids=["targets", "pairs", "dropped", "total", "hybrid"],
)
@pytest.mark.parametrize("name", NAMES)
def test_a_plan_made_on_a_device_is_certified(name, options, device):
    plan, other = (
        fn.plan(zoo.WORKLOADS[name](), gap=GAP, device=device, **options),
        fn.plan(zoo.WORKLOADS[name](), **options),
    )
    check_plan(plan)
    assert plan.bound <= other.table_part.objective_value * (1 + EXACT)
    assert other.bound <= plan.table_part.objective_value * (1 + EXACT)


def test_budgets_of_cells_on_a_device(device):
    check_plan(fn.plan(zoo.five_cells(), cell_budgets=CellBudgets(("a",), (1, 0.5, 0.1)), device=device))


@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (3, 5), (4, 4), (0, 3)])
def test_decompositions_give_back_their_matrix(shape, device, rng):
    a = rng.normal(size=shape)
    for backend in (NUMPY, torch_backend(device)):
        x = backend.put(a)
        np.testing.assert_array_equal(backend.get(x), a)
        triangle = backend.get(backend.triangle(x))
        assert len(triangle) <= max(shape[1], 1)
        np.testing.assert_allclose(triangle.T @ triangle, a.T @ a, atol=1e-12)
        root = backend.get(backend.root(x.T @ x))
        np.testing.assert_allclose(root.T @ root, a.T @ a, atol=1e-12)
        u, s, vt = (backend.get(y) for y in backend.svd(x))
        np.testing.assert_allclose((u * s) @ vt, a, atol=1e-12)
        assert s.shape == (min(shape),)


def test_arrays_of_any_kind_arrive_as_float64(device):
    backend = torch_backend(device)
    for a in (np.arange(6).reshape(2, 3), np.arange(6, dtype=np.float32), np.eye(3)[:, ::-1], np.array([True, False])):
        x = backend.put(a)
        assert x.dtype is torch.float64
        np.testing.assert_array_equal(backend.get(x), a.astype(np.float64))


@pytest.mark.parametrize("device", ["cuda:99", "nonsense", ""])
def test_a_device_that_is_not_there_is_refused(device):
    with refused("plan.device-unusable"):
        fn.plan(zoo.five_cells(), device=device)


@pytest.mark.parametrize("module", ["torch", "array_api_compat"])
def test_without_the_extra_the_error_names_it(module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with refused("plan.pytorch-not-installed"):
        fn.plan(zoo.five_cells(), device="cpu")
    assert fn.plan(zoo.five_cells()).gap <= GAP  # a library that no other plan needs


@pytest.mark.parametrize("decades", [0, 3, 9], ids=["alike", "by eigenvectors", "afresh"])
def test_singular_values_of_large_matrices(decades, device, rng):
    """They make up the matrix, with orthogonal vectors, whichever way they were found; of a stack, of each."""
    n = backends.SQUARED
    turned, back = (np.linalg.qr(rng.normal(size=(n, n)))[0] for _ in range(2))
    a = turned * np.logspace(0, -decades, n) @ back
    for backend in (NUMPY, torch_backend(device)):
        u, s, vt = map(backend.get, backend.svd(backend.put(np.stack([a, a.T]))))
        check_singular(u, s, vt, a, np.logspace(0, -decades, n))


def check_singular(u, s, vt, a, values):
    np.testing.assert_allclose(s[0], values, rtol=1e-6)
    for i, matrix in enumerate((a, a.T)):
        np.testing.assert_allclose(u[i] * s[i] @ vt[i], matrix, atol=1e-13)
        for x in (u[i].T @ u[i], vt[i] @ vt[i].T):
            np.testing.assert_allclose(x, np.eye(len(a)), atol=1e-8)


@pytest.mark.parametrize("rank", [3, 8])
def test_roots_are_of_the_matrix(rank, rng):
    """Definite or not."""
    x = rng.normal(size=(2, rank, 8))
    gram = x.swapaxes(-1, -2) @ x
    root = NUMPY.root(gram)
    np.testing.assert_allclose(root.swapaxes(-1, -2) @ root, gram, atol=1e-12)


def test_one_thread_is_left_in_whichever_order_threads_leave_it():
    """Detects a limit of the process that one thread puts back while another works, or that stays for good."""
    libraries = [x for x in backends.ThreadpoolController().lib_controllers if x.user_api == "blas"]
    with backends.ThreadpoolController().limit(limits=2):
        before = [x.num_threads for x in libraries]  # one that was built for a single thread keeps it
        assert 2 in before
        one, second = backends.one_thread(), backends.one_thread()
        one.__enter__()
        second.__enter__()
        one.__exit__(None, None, None)
        assert {x.num_threads for x in libraries} == {1}
        second.__exit__(None, None, None)
        assert [x.num_threads for x in libraries] == before
