"""Check the charge of a plan of fitnoise without fitnoise.

python -m fitnoise_check plan.json [SHA-256 that a release, a ledger or a publisher names]

Exit status 0: the charge and all other computed numbers are as stated. 1: something is not as stated. 2: the charge
could not be computed; the output says why. The program shares no code with fitnoise: if they disagree, one is wrong.
"""

import sys

from fitnoise_check.plan import main


def run():
    """Check the plan that the command line names."""
    if len(sys.argv) not in (2, 3):
        sys.stderr.write("usage: fitnoise-check plan.json [SHA-256 that a release, a ledger or a publisher names]\n")
        sys.exit(2)  # 1 would say that something is not as stated
    sys.exit(main(*sys.argv[1:]))


if __name__ == "__main__":
    run()
