"""The proofs of the claimed price of the records of one unit: section 4 of docs/plan_format.md.

A problem is X of every two nodes, True for two nodes that go together, and the place and the values of each node. A
proof shows that no set of at most g nodes that go together costs more than the claim.
"""

import json
from itertools import accumulate, product

import numpy as np

from fitnoise_check.exact import need

MAX_SETS, MAX_BITS = 2**20, 2**12


def without_proofs(text, plan):
    """Return the text of a plan that its hash covers."""
    has_texts = "languages" in plan or "metadata" in plan["spec"]
    if not has_texts and not any("proofs" in part for part in plan["tables"]):
        return text
    need(serialised(plan) == text, "the plan is not in the form in which plans are written")
    spec = {key: x for key, x in plan["spec"].items() if key != "metadata"}
    tables = [{key: x for key, x in part.items() if key != "proofs"} for part in plan["tables"]]
    hashed = plan | {"spec": spec, "tables": tables}
    return serialised({key: x for key, x in hashed.items() if key != "languages"})


def serialised(plan):
    """Return the text of a plan."""
    return json.dumps(plan, separators=(",", ":")).encode() + b"\n"


def proven(problem, max_records, claim, proof):
    """Return True if the proof shows that no set of records costs more than the claim."""
    x, compatible, places, _ = problem
    n, kind = len(x), proof["kind"]
    if kind == "closed":
        return n <= 2**10 and max(places) < 2**7 and closed(problem, min(max_records, max(places) + 1), claim)
    need(kind in ("blocks", "multipliers") and type(proof["shift"]) is int, "a proof is of an unknown kind")
    need(-(2**7) <= proof["shift"] <= 2**13, "a proof has a shift out of range")
    costs = x.diagonal()
    x = np.where(compatible | np.eye(n, dtype=bool), x, -(costs[:, None] + costs))
    shift = proof["shift"]
    x = -(-x >> shift) if shift > 0 else x << -shift
    bound = (blocks if kind == "blocks" else multipliers)(x, min(max_records, n), proof)
    return (bound << shift if shift > 0 else bound >> -shift) <= claim


def integers(values, length):
    """Return a list of whole numbers of this length, or raise Wrong."""
    need(isinstance(values, list) and len(values) == length, "a proof has lists of another length")
    need(all(type(v) is int for v in values), "a proof is made of whole numbers")
    need(all(v.bit_length() <= MAX_BITS for v in values), "a proof has a whole number of more than 4,096 bits")
    return values


def multipliers(x, max_records, proof):
    """Return Σ y + ℓ (2g − n) + Σ |N − LLᵀ|."""
    n = len(x)
    y, (free,) = integers(proof["y"], n + 1), integers([proof["free"]], 1)
    need(free >= 0 and n <= 2**8 and len(proof["root"]) == n + 1, "a proof has another size than its problem")
    root = np.zeros((n + 1, n + 1), dtype=object)
    for i, row in enumerate(proof["root"]):
        root[i, : i + 1] = integers(row, i + 1)
    form = np.zeros((n + 1, n + 1), dtype=object)
    form[1:, 1:] = 4 * np.diag(np.array(y[1:], dtype=object)) - x
    form[0, 1:] = form[1:, 0] = [free - 2 * v for v in y[1:]]
    form[0, 0] = sum(y) - free * n
    return sum(y) + free * (2 * max_records - n) + abs(form - root @ root.T).sum()


def blocks(x, max_records, proof):
    """Return the largest γ m² + Σ β_b m_b² + the m_b largest a_i of each block."""
    n, (k, across) = len(x), integers([proof["length"], proof["across"]], 2)
    need(0 < k <= n and n % k == 0, "a proof has blocks that do not divide the nodes")
    best = {0: 0}
    for b, level in enumerate(integers(proof["levels"], n // k)):
        here = range(b * k, b * k + k)
        rest = [[x[i, j] - across - (level if j in here else 0) for j in range(n)] for i in here]
        rows = [row[i] + sum(max(v, 0) for j, v in enumerate(row) if j != i) for i, row in zip(here, rest, strict=True)]
        costs = [level * m * m + v for m, v in enumerate(accumulate(sorted(rows, reverse=True), initial=0))]
        sums = [(m + added, v + c) for (m, v), (added, c) in product(best.items(), enumerate(costs))]
        best = {m: max(v for i, v in sums if i == m) for m, _ in sums if m <= max_records}
    return max(across * m * m + v for m, v in best.items() if m)


def closed(problem, max_records, claim):
    """Return True if all sets, built node by node in the order of places, end at most at the claim."""
    x, compatible, places, values = problem
    count, nodes, seen = max(places) + 1, range(len(x)), 0
    pairs = [[0] * count for _ in range(count)]
    for i, j in product(nodes, nodes):
        if compatible[i, j]:
            pairs[places[i]][places[j]] = max(pairs[places[i]][places[j]], x[i, j])
    partner_sums = {}  # for a first place and a place: the sums of its largest pairs with places from the first one on
    for begin, p in product(range(count), range(count)):
        partner_sums[begin, p] = [*accumulate(sorted(pairs[p][begin:], reverse=True), initial=0)]
    rows, compatible_rows = [[2 * v for v in row] for row in x.tolist()], compatible.tolist()
    sets = [(0, x.diagonal().tolist(), 0, max_records, [0] * len(values[0]))]
    while sets:
        value, gains, begin, k, used = sets.pop()
        top = {}
        for i in nodes:
            if places[i] >= begin and gains[i] is not None:
                top[places[i]] = max(gains[i], top.get(places[i], gains[i]))
        tops = sorted((v + partner_sums[begin, p][min(k - 1, count - begin)] for p, v in top.items()), reverse=True)
        if value + sum(v for v in tops[:k] if v > 0) <= claim:
            continue
        for i in nodes:
            if places[i] < begin or gains[i] is None or any(v > u for v, u in zip(values[i], used, strict=True)):
                continue
            seen += 1
            if value + gains[i] > claim or seen > MAX_SETS:
                return False
            if k > 1:
                after = [
                    g + v if f and g is not None else None
                    for g, v, f in zip(gains, rows[i], compatible_rows[i], strict=True)
                ]
                new_used = [max(u, v + 1) for u, v in zip(used, values[i], strict=True)]
                sets.append((value + gains[i], after, places[i] + 1, k - 1, new_used))
    return True
