"""Check records of releases against the schema of the registry of deployments, a copy of which is given.

python benchmarks/registry_schema.py SCHEMA.yaml [RELEASE …]

The schema is `schemas/` of opendp/deployments-registry-data; it is not part of fitnoise. Needs PyYAML and jsonschema,
which the environment of developers does not have: `pip install pyyaml jsonschema`, best into an environment of its own.
Without releases those of the tests are taken, with words of our own for what only people can say.
"""

import sys
from datetime import date
from pathlib import Path

try:
    import jsonschema
    import yaml
except ImportError as error:
    sys.exit(f"{error.name} checks records, and is not installed: pip install pyyaml jsonschema. Nothing was checked.")

import fitnoise as fn
from fitnoise.reading.registry import as_yaml, filled, registry_record
from fitnoise.request.record import RecordSpec

SAMPLES = Path(__file__).parent.parent / "tests" / "data" / "stored" / "releases"

RECORD_SPEC = RecordSpec(
    url_slug="a-release",
    data_curators=["An office"],
    intended_use="Planning: roads, and schools.",
    description="Homes by age.",
    data_product_region="Somewhere",
    data_product_sector="Government",
    publication_date=date(2026, 11, 23),
    actors="Staff hold the records.",
    justification="Targets were set with users.",
    sources="https://example.org",
    registry_authors=["A. Author"],
)


def leaves(value):
    return sum(map(leaves, value.values())) if isinstance(value, dict) else 1


def main(schema_file, *folders):
    schema = yaml.safe_load(Path(schema_file).read_text(encoding="utf-8"))
    check = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
    for folder in map(Path, folders or sorted(SAMPLES.iterdir())):
        record = registry_record(fn.Release.read(folder), RECORD_SPEC)
        if record["deployment"]["basic"]["name"] is None:
            record["deployment"]["basic"]["name"] = "A release"
        parsed = yaml.safe_load(as_yaml(record))
        wrong = [] if parsed == filled(record) else ["the YAML says something else"]
        wrong += [f"{'/'.join(map(str, e.path))}: {e.message}" for e in check.iter_errors(parsed)]
        print(f"{folder.name:25} {leaves(parsed):3} fields  {'; '.join(wrong) or 'valid'}")
        if wrong:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
