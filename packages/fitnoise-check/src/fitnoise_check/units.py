"""The records that one protected unit can change: section 3 of docs/plan_format.md."""

from math import prod

from fitnoise_check.exact import need


class Unit:
    """The records that one protected unit can change: section 3."""

    def __init__(self, spec, size):
        privacy, data = spec.get("privacy", {}), spec.get("data", {})
        self.fixed, self.far = frozenset(privacy.get("fixed", ())), privacy.get("separation", {})
        caps = [(privacy["once_per"], 1)] if privacy.get("once_per") else []
        caps += [([a], n) for a, n in privacy.get("per_value", {}).items()] + [([a], 1) for a in self.far]
        self.caps = [(frozenset(names) - self.fixed, n) for names, n in caps]
        room = [n * prod(size[a] for a in names) for names, n in self.caps]
        room += [-(-size[a] // n) for a, n in self.far.items() if a not in self.fixed]
        self.records = min([privacy.get("max_records", 1), *room])
        self.caps = self.caps if self.records > 1 else []
        usual = data.get("outside_domain", "refuse")
        ways = {a.get(x) or usual for a in spec["domain"].values() for x in ("if_missing", "if_outside")}
        if spec.get("impossible") or spec.get("possible"):
            ways.add(spec.get("rules", {}).get("outside") or usual)
        drops = "drop" in ways or (usual == "drop" and "id" in privacy)
        self.replaces, self.within = privacy.get("neighbours") == "replace-one", frozenset(privacy.get("within", ()))
        varies = bool(data.get("where")) or privacy.get("max_records", 1) > 1 or "id" in privacy
        self.alone = not self.replaces or drops or (varies and not self.within)
        counted = [frozenset(x["by"]) for x in spec.get("public", []) if x.get("origin", "elsewhere") != "elsewhere"]
        possible = [[self.within]] if self.within else [[], [frozenset()]]
        need(counted in possible, "public totals of these data need within, and within them")
        self.is_exchanged = self.replaces and not (self.alone or self.caps or self.fixed or "id" in privacy)
        need(self.is_exchanged or not counted, "public totals of these data need records that are replaced one by one")
