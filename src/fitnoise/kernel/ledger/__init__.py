"""The ledger: the durable record of all charges against privacy caps.

**Purpose.** The ledger stores caps, charges and refusals in one place, usually a file. It refuses a charge that exceeds
a cap. The rules below are its constitution: no version may ever change them.

1. **Append-only.** No entry is ever altered, moved or removed. A mistaken charge stays charged.
2. **Chained.** Every entry carries the SHA-256 of its content and of the entry before it. The ledger decides nothing
   from entries that it did not verify in the same transaction.
3. **Spend first.** A charge is on the disk before :meth:`Ledger.charge` returns, hence before noise is drawn. A crash
   can waste budget, and never forget it.
4. **Exact, rounded against the publisher.** A cost is an exact rational, rounded *up* to a multiple of 2⁻⁶⁴. No floats.
5. **An unknown cost is infinite.** The ledger refuses a cost that it cannot price, read or verify.
6. **No data inside.** Entries hold only names, costs, times and parts of a plan, which is made without data. The file
   is private to the publisher all the same, because it shows the plans. fitnoise makes it readable for its owner alone.
7. **Costs add, unless the same records are promised.** A charge can name plans under `composed_with`, each released
   once. The publisher then promises that it is measured on the very records of their releases, unchanged, and of all
   releases that those plans name. Each record has the same cell in all of them. Nothing checks this promise; the ledger
   keeps it. Without it, ρ adds.

8. **A pure promise stays pure.** A charge may state its ε. Its ρ is the cost of its numbers one by one, and at most
   ε²/2, rounded up to a multiple of 2⁻⁶⁴. Under a cap on ε only such charges fit, and their ε add up to at most the
   cap. A charge with a δ counts there as infinite.

9. **All accounts of a name are charged for every release.** The accounts of one name, for several units and relations,
   are about the same people. A charge to one is a charge to all. The cost for each is the stated exact cost of its
   integers, else the bound of :meth:`LedgerEntry.price`, else infinite. A charge fits if it fits under every cap among
   them. No charge opens an account of its own where the name has a cap: that is a decision of its own,
   :meth:`Ledger.set_cap`. Other units that a charge states have accounts from then on, and are charged as all are.

10. **μ² is a currency of its own.** A charge may state μ², for a release that is μ-Gaussian-private, and an upper bound
    on the ratio of μ² to ρ in every cell. Under a cap on μ², μ² adds up: cell by cell through ρ, or sum by sum, and the
    smaller result counts. A charge that states neither μ² nor ε is infinite there.

11. **A series is charged once and completely, and each of its periods is drawn once.** The charge of a plan that is
    drawn period by period states this, covers all periods, and draws the first. Each further period is an entry of its
    own, in order, written before its noise is drawn, and costs nothing more. Each names the counts that were frozen for
    it. A period that is drawn again, from the very counts, is a charge like any other. No charge names a series under
    `composed_with`, and the charge of a series names no plan there.

12. **A promise binds its cells.** The key of an account identifies it. The key holds the source, the name of its unit,
    the relation, and an id or the number of records. For a promised pattern it holds each attribute with the hash of
    the rule for its cells. The printed sentence of an account identifies nothing. A charge under a promise about other
    cells belongs to another account of the name. It costs this account the price of a unit whose records lie anywhere.

13. **A charge has one set of answers.** Before answers are published, an entry of cost 0 names their SHA-256. It names
    the charge, or the period of a series, for which they were drawn. No charge has two such entries. So at most one of
    several draws for one charge is published (:mod:`fitnoise.kernel.measure` gives the proof). Answers that the
    ledger does not name are recognised.

14. **A share is a part of a cap, and only refuses more.** A cap may name a share of its account. Where a source has
    such caps, each charge names one of its shares, also in a ledger that has no other cap. It fits if it fits under the
    caps of the accounts (rule 9), and under the last cap of this share in each account. Under the cap of a share only
    the charges that name it count, at their joint cost (rule 7). The caps of shares may add up to more than the cap of
    the account, which holds all the same. A share never ends; a cap of 0 closes it. No access is controlled: a person
    who can charge can name any share.

15. **A source can require approval, and a proposal is charged once.** A cap may state that its name requires approval,
    or that it no longer does. The last such cap decides for all accounts of the name. Each charge there names a
    proposal by its SHA-256, the person who proposed it, and another person who approved it. No two charges name one
    proposal, required or not. Entries that cost nothing need no approval. No person is authenticated: a person who can
    charge can write any names, and a person who can set caps can end the requirement. The chain shows both.

**Symbols.**

    | ρ | parameter of zero-concentrated differential privacy |
    | ε | parameter of pure differential privacy |
    | μ² | squared parameter of Gaussian differential privacy |
    | group | the charges that are on the same records |
    | profile | the ρ of a charge by cell |

**Statement.** ρ adds under composition (Bun and Steinke 2016). A charge without `composed_with` is a group of its own.
A charge with `composed_with` unites the groups of all charges, in its account, of the plans that it names. The spent ρ
of an account is Σ over the groups of its name of their joint cost for its unit. The joint cost of a group of one charge
is its ρ. The joint cost of a larger group is the costliest joint cell of the summed profiles
(:func:`fitnoise.kernel.profiles.joint`). It is Σ ρ where a charge has no profile. A charge fits when the spent ρ with
it is at most the cap. The spent ρ may grow by less than the ρ of the charge. It grows by 0 where no cell becomes
costlier than the costliest. It falls where groups unite that were counted separately.

These rules keep each pair of neighbours within the cap, and so all releases, even when each cost depends on the
releases before it. This is a privacy filter: for ρ see Feldman and Zrnic 2021, for μ² docs/mathematics/exact_curve.md.
A publisher who raises the cap makes a new promise, and the ledger keeps both.

**Trust.** A mistake here can release more than the cap allows. A chain is no signature. A person who can write to the
file can cut its tail, put back an old copy or forge a new chain. So write :meth:`Ledger.head` down elsewhere with each
release, and pass it to :meth:`Ledger.verify`. One account has one file: two copies are two budgets.

**Reading order.** `entries` defines the stored text, its prices and quotes, `rules` has the rules and :class:`Ledger`,
`refusals` words the refused charges. `store` is the protocol of a storage, and `sqlite` the storage in a file.
"""

from fitnoise.kernel.ledger.entries import GENESIS, DrawnPeriod, LedgerEntry, Price, Quote
from fitnoise.kernel.ledger.rules import ChargeGroup, Ledger
from fitnoise.kernel.units import Account

__all__ = ["GENESIS", "Account", "ChargeGroup", "DrawnPeriod", "Ledger", "LedgerEntry", "Price", "Quote"]
