"""The law of operators."""

import numpy as np

from fitnoise.algebra import rules
from tolerances import EXACT


def check_operator(a, rng):
    """Adjoint, linearity, dense agreement, norms, Gram, row variances: on vectors and on several columns at once."""
    m, n = a.shape
    x, x2, y = rng.normal(size=n), rng.normal(size=n), rng.normal(size=m)
    matrix = rules.dense(a)
    assert matrix.shape == (m, n)
    np.testing.assert_allclose(a.mv(x), matrix @ x, rtol=EXACT, atol=EXACT)
    np.testing.assert_allclose(a.mv(2 * x - x2), 2 * a.mv(x) - a.mv(x2), rtol=EXACT, atol=EXACT)
    np.testing.assert_allclose(y @ a.mv(x), a.rmv(y) @ x, rtol=EXACT, atol=EXACT)
    np.testing.assert_allclose(a.T.mv(y), matrix.T @ y, rtol=EXACT, atol=EXACT)
    assert a.T.shape == (n, m)
    np.testing.assert_array_equal(a.T.T.mv(x), a.mv(x))
    columns = rng.normal(size=(n, 3))
    np.testing.assert_allclose(a.mv(columns), matrix @ columns, rtol=EXACT, atol=EXACT)
    rows = rng.normal(size=(m, 2))
    np.testing.assert_allclose(a.rmv(rows), matrix.T @ rows, rtol=EXACT, atol=EXACT)
    for operator, form in ((a, matrix), (a.T, matrix.T)):
        np.testing.assert_allclose(rules.dense(operator), form, rtol=EXACT)
        np.testing.assert_allclose(rules.gram(operator), form.T @ form, rtol=EXACT, atol=EXACT)
        np.testing.assert_allclose(rules.column_norms(operator), (form**2).sum(axis=0), rtol=EXACT)
        np.testing.assert_allclose(rules.row_norms(operator), (form**2).sum(axis=1), rtol=EXACT)
        w, s = rng.normal(size=(len(form), 3)), rng.normal(size=(form.shape[1], form.shape[1], 2))
        weighted, variances = rules.weighted_gram(operator, w), rules.row_variances(operator, s)
        assert weighted.dtype == variances.dtype == np.float64
        expected = np.stack([form.T @ np.diag(column) @ form for column in w.T], axis=-1)
        np.testing.assert_allclose(weighted, expected, rtol=EXACT, atol=EXACT)
        expected = np.stack([np.diag(form @ s[..., c] @ form.T) for c in range(2)], axis=-1)
        np.testing.assert_allclose(variances, expected, rtol=EXACT, atol=EXACT)
        np.testing.assert_allclose(
            np.einsum("ikc,ikd->cd", weighted, s), np.einsum("jc,jd->cd", w, variances), rtol=EXACT, atol=EXACT
        )
        np.testing.assert_allclose(rules.weighted_gram(operator, w[:, 0]), weighted[..., 0], rtol=EXACT, atol=EXACT)
        np.testing.assert_allclose(rules.row_variances(operator, s[..., 0]), variances[:, 0], rtol=EXACT, atol=EXACT)
