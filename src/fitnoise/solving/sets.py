"""Which sets of records of one unit are dear: what is planned for. Nothing is proven here.

Where all sets are few enough they are looked at one by one; of more, those are found from which no record added, taken
away or exchanged for another leads to a dearer one.
"""

from __future__ import annotations

from functools import cached_property
from typing import final

import numpy as np

from fitnoise.kernel.arrays import Floats
from fitnoise.kernel.designs.sets import sets_of
from fitnoise.solving.certificates import Admissible

Chosen = tuple[int, ...]
"""Structured cells, in increasing order."""

STEPS = 1000
"""Of one search: far more than are needed."""

NEAR = 1e-12
"""Part of the largest number below which nothing is gained."""


@final
class Dear:
    """The dear ones among all sets of records that one unit can have."""

    def __init__(self, admissible: Admissible) -> None:
        self.admissible = admissible
        self._n = len(admissible.together)

    @cached_property
    def _every(self) -> list[tuple[np.ndarray, np.ndarray]] | None:
        return sets_of(self.admissible.together, self.admissible.most)

    def first(self) -> list[Chosen]:
        """Single records; and from every cell on as many as a unit can have, each the next that goes with them all."""
        out: list[Chosen] = [(o,) for o in range(self._n)]
        for o in range(self._n):
            chosen: list[int] = []
            for i in (*range(o, self._n), *range(o)):
                if len(chosen) < self.admissible.most and self.admissible.together[i, chosen].all():
                    chosen.append(i)
            out.append(tuple(sorted(chosen)))
        return list(dict.fromkeys(out))

    def dearest(self, x: Floats, known: list[Chosen], count: int) -> list[tuple[float, Chosen]]:
        """The largest Σ_{i,j∈τ} x_ij that are found, with their sets, the dearest first, at most so many.

        Args:
            x: symmetric (n_o, n_o).
            known: where to begin, if not all sets are looked at.
            count: at least 1.
        """
        if self._every is None:
            found = {chosen: value for start in known for chosen, value in [self._climb(x, start)]}
            return sorted(((v, c) for c, v in found.items()), reverse=True)[:count]
        twice, sums, out = np.where(np.eye(self._n, dtype=bool), x, 2 * x), np.zeros(self._n), []
        for parents, places in self._every:
            last = places[:, -1]
            sums = sums[parents] + sum(twice[i, last] for i in places.T)
            best = np.argsort(-sums, kind="stable")[:count]
            out += [(float(sums[i]), tuple(places[i].tolist())) for i in best]
        return sorted(out, reverse=True)[:count]

    def _climb(self, x: Floats, start: Chosen) -> tuple[Chosen, float]:
        inside = np.zeros(self._n, dtype=bool)
        inside[list(start)] = True
        own, together, most = x.diagonal(), self.admissible.together, self.admissible.most
        apart = ~together & ~np.eye(self._n, dtype=bool)
        least = NEAR * float(own.max())
        for _ in range(STEPS):
            y = x @ inside
            hit = apart @ inside.astype(np.intp)  # how many of the set a cell does not go with
            gain = np.where(inside, own - 2 * y, own + 2 * y)
            gain[~inside & (hit > 0)] = -np.inf
            if inside.sum() >= most:
                gain[~inside] = -np.inf
            if inside.sum() == 1:
                gain[inside] = -np.inf
            on, off = np.flatnonzero(inside), np.flatnonzero(~inside)
            swap = (own - 2 * y)[on][:, None] + (own + 2 * y)[off] - 2 * x[np.ix_(on, off)]
            swap[hit[off] - apart[np.ix_(on, off)] > 0] = -np.inf
            flip = int(np.argmax(gain))
            at = np.unravel_index(int(np.argmax(swap)), swap.shape) if swap.size else None
            if at is not None and swap[at] > max(gain[flip], least):
                inside[[on[at[0]], off[at[1]]]] = False, True
            elif gain[flip] > least:
                inside[flip] = ~inside[flip]
            else:
                break
        return tuple(np.flatnonzero(inside).tolist()), float(inside @ x @ inside)
