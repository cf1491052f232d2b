"""The proofs of the claimed price of the records of one unit: section 4 of docs/plan_format.md.

A problem is X of every two nodes, and True for two nodes that go together. It also has the place and the values of each
node, and the number of parts of the nodes. A proof shows a bound for all sets of nodes that go together, with at most g
nodes in each part: none costs more than the claim.
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
    x, compatible, places, _, parts = problem
    n, kind = len(x), proof["kind"]
    if kind == "closed":
        return n <= 2**10 and max(places) < 2**7 and closed(problem, max_records, claim)
    need(kind in ("blocks", "multipliers") and type(proof["shift"]) is int, "a proof is of an unknown kind")
    need(-(2**7) <= proof["shift"] <= 2**13, "a proof has a shift out of range")
    costs = x.diagonal()
    x = np.where(compatible | np.eye(n, dtype=bool), x, -np.maximum(costs[:, None], costs))
    if parts > 1 and n > max(places) + 1:
        twins = np.eye(n, k=n // 2, dtype=bool)
        x = np.where((twins | twins.T) & ~compatible, 0, x)
    shift = proof["shift"]
    x = -(-x >> shift) if shift > 0 else x << -shift
    bound = (blocks if kind == "blocks" else multipliers)(x, min(max_records, n // parts), parts, proof)
    return (bound << shift if shift > 0 else bound >> -shift) <= claim


def integers(values, length):
    """Return a list of whole numbers of this length, or raise Wrong."""
    need(isinstance(values, list) and len(values) == length, "a proof has lists of another length")
    need(all(type(v) is int for v in values), "a proof is made of whole numbers")
    need(all(v.bit_length() <= MAX_BITS for v in values), "a proof has a whole number of more than 4,096 bits")
    return values


def multipliers(x, max_records, parts, proof):
    """Return Σ y + ℓ (2hg − n) + Σ |N − LLᵀ|, with h parts."""
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
    return sum(y) + free * (2 * parts * max_records - n) + abs(form - root @ root.T).sum()


def blocks(x, max_records, parts, proof):
    """Return the largest γ m² + Σ β_b m_b² + the m_b largest a_i of each block."""
    n, (k, across) = len(x), integers([proof["length"], proof["across"]], 2)
    need(0 < k <= n and n % (k * parts) == 0, "a proof has blocks that do not divide the nodes")
    total, best = {0: 0}, {0: 0}
    for b, level in enumerate(integers(proof["levels"], n // k)):
        here = range(b * k, b * k + k)
        rest = [[x[i, j] - across - (level if j in here else 0) for j in range(n)] for i in here]
        rows = [row[i] + sum(max(v, 0) for j, v in enumerate(row) if j != i) for i, row in zip(here, rest, strict=True)]
        costs = [level * m * m + v for m, v in enumerate(accumulate(sorted(rows, reverse=True), initial=0))]
        sums = [(m + added, v + c) for (m, v), (added, c) in product(best.items(), enumerate(costs))]
        best = {m: max(v for i, v in sums if i == m) for m, _ in sums if m <= max_records}
        if (b + 1) * k * parts % n == 0:  # the last block of a part
            sums = [(m + added, v + c) for (m, v), (added, c) in product(total.items(), best.items())]
            total, best = {m: max(v for i, v in sums if i == m) for m, _ in sums}, {0: 0}
    return max(across * m * m + v for m, v in total.items() if m)


def closed(problem, max_records, claim):
    """Return True if all sets, built node by node in the order of places, end at most at the claim."""
    x, compatible, places, values, parts = problem
    count, nodes, seen = max(places) + 1, range(len(x)), 0
    part_of, max_records = [p * parts // count for p in range(count)], min(max_records, count // parts)
    pairs = [[0] * count for _ in range(count)]
    for i, j in product(nodes, nodes):
        if compatible[i, j]:
            pairs[places[i]][places[j]] = max(pairs[places[i]][places[j]], x[i, j])
    partner_sums = {}  # for a first place and a place: the sums of its largest pairs with places from the first one on
    for begin, p in product(range(count), range(count)):
        partner_sums[begin, p] = [*accumulate(sorted(pairs[p][begin:], reverse=True), initial=0)]
    rows, compatible_rows = [[2 * v for v in row] for row in x.tolist()], compatible.tolist()
    sets = [(0, x.diagonal().tolist(), 0, [max_records] * parts, [0] * len(values[0]))]
    while sets:
        value, gains, begin, room, used = sets.pop()
        top, later = {}, [i for i in nodes if places[i] >= begin and gains[i] is not None]
        for i in later:
            top[places[i]] = max(gains[i], top.get(places[i], gains[i]))
        further = min(sum(room) - 1, count - begin)
        tops = [[v + partner_sums[begin, p][further] for p, v in top.items() if part_of[p] == h] for h in range(parts)]
        falling = (sorted(row, reverse=True)[:k] for row, k in zip(tops, room, strict=True))
        if value + sum(max(v, 0) for row in falling for v in row) <= claim:
            continue
        for i in later:
            part = part_of[places[i]]
            if not room[part] or any(v > u for v, u in zip(values[i], used, strict=True)):
                continue
            seen += 1
            if value + gains[i] > claim or seen > MAX_SETS:
                return False
            if sum(room) > 1:
                after = [
                    g + v if f and g is not None else None
                    for g, v, f in zip(gains, rows[i], compatible_rows[i], strict=True)
                ]
                new_used = [max(u, v + 1) for u, v in zip(used, values[i], strict=True)]
                new_room = [k - (h == part) for h, k in enumerate(room)]
                sets.append((value + gains[i], after, places[i] + 1, new_room, new_used))
    return True
