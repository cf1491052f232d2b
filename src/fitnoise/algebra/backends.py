"""Backends of dense matrices: NumPy arrays by default, PyTorch tensors on an accelerator on request.

Solvers see NumPy vectors of weights. Only the matrices of a sector are on the backend: k × k and k × n_o for rank k and
n_o structured cells. They are handled through the array API standard, so that one code serves both. The extra
`fitnoise[gpu]` brings PyTorch.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, final

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from fitnoise.errors import PlanError

SQUARED, WELL = 32, 1e-4
"""The size from which singular values come from eigenvectors, if the least is more than this part of the largest.
Singular vectors are then orthogonal to 1e-8, and their sums are right to the last digits."""

Matrix = Any
"""An array of the backend's own kind, float64."""


@final
@dataclass(frozen=True)
class Backend:
    """A namespace of the array API and the device of its arrays.

    **Guarantees**
        * Results differ from NumPy's by rounding only.
        * Every array is float64.
    """

    xp: Any
    device: Any = None

    def put(self, a: NDArray[Any]) -> Matrix:
        """Return a NumPy array as one of this backend, as float64."""
        if self.xp is np:
            return np.asarray(a, dtype=np.float64)
        return self.xp.asarray(np.ascontiguousarray(a, dtype=np.float64), device=self.device)

    def get(self, a: Matrix) -> NDArray[np.float64]:
        """Return an array of this backend as NumPy's."""
        return np.asarray(a if self.xp is np else a.cpu(), dtype=np.float64)

    def triangle(self, a: Matrix) -> Matrix:
        """Return T with TᵀT = aᵀa and no more rows than columns, for each matrix of a stack.

        T is the R of a = QR if `a` has more rows than columns, and otherwise `a` itself.
        """
        rows, k = a.shape[-2:]
        if rows <= k:
            return a
        if self.xp is np:
            if a.ndim > 2 and len(a) > 1:
                return np.linalg.qr(a, mode="r")
            r = sl.qr(a.reshape(rows, k), mode="r", check_finite=False)[0][:k]
            return np.asarray(r).reshape(*a.shape[:-2], k, k)
        return self.xp.linalg.qr(a, mode="reduced")[1]

    def root(self, gram: Matrix) -> Matrix:
        """Return T with TᵀT = the positive semidefinite part of a symmetric matrix (…, k, k).

        With NumPy, T is triangular if all matrices of the stack are definite.
        """
        if self.xp is np:
            with contextlib.suppress(np.linalg.LinAlgError):
                return np.linalg.cholesky(gram).swapaxes(-1, -2)
        values, vectors = self.xp.linalg.eigh(gram)
        zero = self.xp.zeros_like(values)
        return self.xp.sqrt(self.xp.maximum(values, zero))[..., None] * vectors.swapaxes(-1, -2)

    def svd(self, a: Matrix) -> tuple[Matrix, Matrix, Matrix]:
        """Return (U, s, Vᵀ), thin, for each matrix of a stack.

        Large square matrices use the eigenvectors U of a aᵀ, a third of the work. s and V are the lengths and the
        directions of the rows of Uᵀa. If these are not orthogonal enough for one matrix of the stack, the function
        decomposes all of them in the usual way.
        """
        if a.shape[-2] == a.shape[-1] >= SQUARED:
            xp = self.xp
            u = xp.flip(xp.linalg.eigh(a @ a.swapaxes(-1, -2))[1], axis=-1)
            rows = u.swapaxes(-1, -2) @ a
            s = xp.sqrt((rows**2).sum(axis=-1))
            largest, smallest = self.get(s).max(axis=-1), self.get(s).min(axis=-1)
            # Rounding leaves the rows orthogonal up to ε (s₁/s_k)².
            if (smallest > WELL * largest).all():
                return u, s, rows / s[..., None]
        u, s, vt = self.xp.linalg.svd(a, full_matrices=False)
        return u, s, vt


NUMPY = Backend(np)


def torch_backend(device: str = "cuda") -> Backend:
    """Return PyTorch on a device such as "cuda", "cuda:1" or "cpu".

    Raises:
        PlanError: The extra is not installed, or PyTorch cannot use the device.
    """
    try:
        import torch
        from array_api_compat import torch as xp
    except ImportError:
        raise PlanError(
            "pytorch-not-installed",
            "Planning on an accelerator needs PyTorch, which is not installed.",
            "",
            "Install it with pip install 'fitnoise[gpu]'.",
            "Nothing was planned.",
        ) from None
    try:
        target = torch.device(device)
        # A device can be there and still lack double precision or this decomposition.
        torch.linalg.svd(torch.eye(2, dtype=torch.float64, device=target))[1].cpu().numpy()
    except Exception as error:  # each device has its own way to be absent
        why = (str(error).splitlines() or [type(error).__name__])[0][:120]
        raise PlanError(
            "device-unusable",
            f"PyTorch cannot use the device {device!r} here ({why}).",
            "",
            "Name a device that PyTorch can use, such as 'cuda' or 'cpu', or name none to plan with NumPy.",
            "Nothing was planned.",
        ) from None
    return Backend(xp, target)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Multiply and decompose matrices by one thread inside the context: for small matrices, several are slower.

    The libraries have one such number for the process. The first thread to enter sets it, and the last to leave
    restores it.
    """
    # If each thread restored the number that it found, the limit of another could stay.
    with _LIMITING:
        if not _active:
            _limits.append(_libraries().limit(limits=1))
        _active.append(None)
    try:
        yield
    finally:
        with _LIMITING:
            _active.pop()
            if not _active:
                _limits.pop().restore_original_limits()


_LIMITING = threading.Lock()

_active: list[None] = []
"""One entry for each thread inside the context."""

_limits: list[Any] = []
"""The limit, while a thread is inside the context."""


# The search for the libraries takes some milliseconds, as long as a small plan, so it is done once.
@cache
def _libraries() -> ThreadpoolController:
    """Return the controller of the libraries with threads."""
    return ThreadpoolController()
