"""The state of one server: draft, price, jobs and releases of its folder, and the parts of pages that show them."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, final

from markupsafe import Markup

from fitnoise.errors import FitnoiseError
from fitnoise.messages import translator
from fitnoise_studio import forms
from fitnoise_studio.access import StudioSession, SubmittedForm
from fitnoise_studio.folder import DraftChanged, Folder, digest, draft_changed
from fitnoise_studio.page_parts import error_text, render_part
from fitnoise_studio.releasing import STAGES, Releases, ReleaseState, progress_of
from fitnoise_studio.workers import Job, Jobs, QuestionReplaced, Worker

STEPS = ("data", "describe", "protect", "tables", "prove", "release", "report")
"""The pages of the steps, in the order of work."""

PAGES = (*STEPS, "rules", "price", "ledger", "file")
"""All pages."""

PRICED = ("data", "describe", "rules", "protect", "tables", "price", "prove", "file")
"""The pages with the cost at their foot."""

STALE_PRICE_SECONDS = 2.0
"""The seconds for which a page shows the last price; after them it shows the progress of planning."""


@final
class Studio:
    """A folder with its processes, and the knowledge of the pages of one server.

    Args:
        folder: The folder of all files.
        session: The secrets of the server.
        language: "en" or "de".
        clock: The clock in seconds, for tests.
    """

    def __init__(
        self, folder: Folder, session: StudioSession, language: str = "en", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.folder, self.session, self.language, self.clock = folder, session, language, clock
        self.planner = Worker(spare=True)
        self.jobs = Jobs()
        self.releases = Releases(folder, language, clock)
        self.closing = threading.Event()
        self.last_asked = clock()
        self._lock = threading.RLock()
        self._tabs: dict[str, tuple[int, str]] = {}
        self._made = 0
        self._before = ("", "")
        self._price: tuple[str, dict[str, Markup]] | None = None
        self._pending: str | None = None
        self._since = 0.0
        self._turn = 0
        self._bounds: tuple[str, dict[str, Any]] = ("", {})
        self._bounds_pending = ""

    def close(self) -> None:
        """Stop the processes that plan; a release goes on."""
        self.closing.set()
        self.planner.close()
        self.jobs.close()

    # --- the draft ----------------------------------------------------------------------------------

    def document(self) -> forms.Document:
        """Return the document of the draft. Raise SpecError if the draft is not TOML."""
        return forms.parse(self.folder.text())

    def change(self, form: SubmittedForm, make: Callable[[forms.Document], forms.Document]) -> None:
        """Change the draft, completely or not at all.

        Raises:
            SpecError: The draft cannot be changed in this way.
            DraftChanged: The page does not show the present draft, because another page changed it.
            QuestionReplaced: A later change of the same page came first.
        """
        self.write(form, lambda text: _rewritten(text, make))

    def write(self, form: SubmittedForm, make: Callable[[str], str]) -> None:
        """Change the text of the draft; errors as for :meth:`change`."""
        with self._lock:
            text, tab, turn = self.folder.text(), form.get("tab", ""), form.get("turn", "")
            now, tab_state = digest(text), self._tabs.get(tab)
            # Requests of one page can overtake each other: an older form must not undo a newer one.
            order = int(turn) if turn.isascii() and turn.isdigit() and len(turn) < 10 else 0
            if tab and tab_state is not None and order <= tab_state[0]:
                raise QuestionReplaced(
                    "later-change-first",
                    "A later change of this page was made before this one.",
                    "The changes of a page are made in their order.",
                    "Reload the page, and make the change again.",
                    "Nothing was changed.",
                )
            # A page that saw its own last change may make the next one before it is shown again.
            base = now if tab_state is not None and tab_state[1] == now else form.get("base", "")
            new = make(text)
            if new != text or base != now:
                try:
                    self.folder.accept(new, base)
                except DraftChanged as error:
                    with contextlib.suppress(FitnoiseError):
                        mine = forms.parse(new)
                        language = forms.wording_of(mine, self.language)
                        error.differences = forms.differences(mine, forms.parse(text), language)
                        error.present = now
                    raise
            self._before = digest(new), text
            # A server keeps at most 1,000 pages in mind; further pages must state their base.
            if tab and (tab in self._tabs or len(self._tabs) < 1000):
                self._tabs[tab] = order, digest(new)

    def draft_before(self, text: str) -> str:
        """Return the draft before the last change. Raise DraftChanged if the text is not the result of this change."""
        now, before = self._before
        if digest(text) != now:
            raise draft_changed()
        return before

    def base(self) -> str:
        """Return the digest of the draft that a page shows; "" for a lost draft."""
        try:
            return digest(self.folder.text())
        except FitnoiseError:
            return ""

    def tab(self) -> str:
        """Return a name for a page that is shown."""
        with self._lock:
            self._made += 1
            return str(self._made)

    # --- the price ----------------------------------------------------------------------------------

    def _ledger(self) -> str | None:
        ledgers = self.folder.ledgers()
        # Of several ledgers none is meant without a choice, and a wrong rest would mislead.
        return ledgers[0] if len(ledgers) == 1 else None

    def price(self) -> None:
        """Compute the cost of the draft, and wait for it.

        Raises:
            QuestionReplaced: A newer question came.
        """
        text = self.folder.text()
        key = self.folder.key(text)
        with self._lock:
            if self._price is not None and self._price[0] == key:
                return
            # Another thread may ask for a later price meanwhile: only the last waiter keeps its answer.
            mine = self._wait_for(key)
        # The ledger is read only for the rest of its cap; nothing is charged.
        question: dict[str, Any] = {"what": "price", "text": text, "ledger": self._ledger()}
        try:
            answer = self.planner.ask(**question, **self.question_fields)["parts"]
            parts = {name: Markup(html) for name, html in answer.items()}  # noqa: S704 - escaped where it was made
        except QuestionReplaced:
            with self._lock:
                if self._turn == mine:
                    self._pending = None
            raise
        except FitnoiseError as error:
            # A draft that cannot be planned has no price: the reason is shown in its place, and the page stays usable.
            parts = self._unpriced(text, error)
        with self._lock:
            if self._turn == mine:
                self._price, self._pending = (key, parts), None

    def _unpriced(self, text: str, error: FitnoiseError) -> dict[str, Markup]:
        """Return the parts of a price that could not be computed. A draft without tables is no mistake."""
        if _asks_nothing(text):
            return self._without_price(render_part("no_tables", self.language))
        why = error_text(error.with_outcome("Nothing was planned."), self.language)
        return self._without_price(render_part("unpriced", self.language, why=why))

    def _without_price(self, bar: Markup) -> dict[str, Markup]:
        return {"price": bar, "details": render_part("details", self.language)}

    def _wait_for(self, key: str) -> int:
        """Remember the price that is waited for, and return the waiter's number; only the last one gets the price."""
        self._pending, self._since, self._turn = key, self.clock(), self._turn + 1
        return self._turn

    @property
    def question_fields(self) -> dict[str, Any]:
        """The keys of every question."""
        return {"folder": str(self.folder.root), "language": self.language}

    def wish_price(self) -> None:
        """Start to compute the cost of the draft, unless it is known or under way, and do not wait."""
        key = self.folder.key(self.folder.text())
        with self._lock:
            if self._pending == key or (self._price is not None and self._price[0] == key):
                return
            self._wait_for(key)
        threading.Thread(target=self._wished, daemon=True).start()

    def _wished(self) -> None:
        try:
            self.price()
        except FitnoiseError:
            return

    def price_parts(self) -> dict[str, Markup]:
        """Return the price as it is known: at the foot of a page, and in detail."""
        with self._lock:
            last_price, pending, waited = self._price, self._pending, self.clock() - self._since
        if last_price is not None and (
            waited < STALE_PRICE_SECONDS if pending else last_price[0] == self.folder.key(self.folder.text())
        ):
            return last_price[1]  # for a moment, that of before
        if _asks_nothing(self.folder.text()):
            return self._without_price(render_part("no_tables", self.language))
        fields = {"step": self.planner.step, "pending": pending is not None, **self.form}
        return self._without_price(render_part("pricing", self.language, **fields))

    def bounds_part(self) -> Markup:
        """Return the costs of other numbers of records of a unit; those of an earlier draft are marked as such.

        The first call after the price of a draft is known starts to compute them.
        """
        text = self.folder.text()
        key = self.folder.key(text)
        if _asks_nothing(text):
            return render_part("bounds", self.language, why=translator(self.language).translate("studio.bounds.none"))
        with self._lock:
            (known_key, fields), is_priced = self._bounds, self._price is not None and self._price[0] == key
            # The price goes first: a question that came after this number is not replaced.
            if is_priced and self._pending is None and key not in (known_key, self._bounds_pending):
                self._bounds_pending, after = key, self.planner.newest
                threading.Thread(target=self._find_bounds, args=(text, key, after), daemon=True).start()
        if known_key != key and "why" in fields:
            fields = {}
        return render_part("bounds", self.language, planning=known_key != key, **fields)

    def _find_bounds(self, text: str, key: str, after: int) -> None:
        """Compute the costs of other numbers of records, and keep them unless a newer question came."""
        bounds = None
        try:
            answer = self.planner.ask(what="bounds", text=text, after=after, **self.question_fields)
            bounds = {"figures": Markup(answer["html"])}  # noqa: S704 - escaped where it was made
        except QuestionReplaced:
            pass
        except FitnoiseError as error:
            bounds = {"why": error_text(error.with_outcome("Nothing was planned."), self.language)}
        with self._lock:
            if self._bounds_pending == key:
                self._bounds_pending = ""
            if bounds is not None:
                self._bounds = key, bounds

    # --- parts --------------------------------------------------------------------------------------

    @property
    def form(self) -> dict[str, Any]:
        """The data that forms need."""
        return {"token": self.session.token}

    def steps_done(self) -> set[str]:
        """Return the steps that have what the next ones need."""
        try:
            document = self.document()
        except FitnoiseError:
            return set()
        attributes = forms.domain_of(document).values()
        needed = {
            "data": attributes,
            "describe": attributes and all(isinstance(x, Mapping) and {*x} - {"type", "column"} for x in attributes),
            "protect": forms.value_at(document, ("privacy", "unit")),
            "tables": forms.tables_of(document),
            "prove": self.folder.certified(),
            "release": self.folder.releases(),
        }
        return {name for name, value in needed.items() if value}

    def steps_part(self, page_name: str) -> Markup:
        """Return the steps, of which a page shows one."""
        page = page_name.partition("/")[0]
        return render_part("steps", self.language, pages=STEPS, shown=page, done=self.steps_done(), **self.form)

    def meaning_parts(self) -> dict[str, Markup]:
        """Return what the margin of each table means, in words, and its share in a cost that is not known."""
        document = self.document()
        parts, level = {}, forms.confidence_of(document)
        # A page of before another tab removed a table has the sentences of its own tables, by their marks.
        for mark, table in zip(forms.marks_of(document), forms.tables_of(document), strict=True):
            meaning = None if level is None or forms.value_at(document, ("budget",)) else forms.meaning_of(table)
            name = f"meaning.{mark}"
            parts[name] = render_part("meaning", self.language, name=name, meaning=meaning, level=level)
            # Without a price the share of before would be that of another draft.
            parts[f"share.{mark}"] = render_part("share", self.language, mark)
        return parts

    def state_part(self) -> Markup:
        """Return the state of the specification."""
        return render_part(
            "state",
            self.language,
            drafted=self.folder.drafted(),
            moved=self.folder.is_spec_changed(),
            plan=self.folder.certified(),
            running=self.releases.running(),
            **self.form,
        )

    def head_part(self, page_name: str) -> Markup:
        """Return the heading of a page and the sentence below it; some say how far a job or a release is."""
        name, _, number = page_name.partition("/")
        detail: Mapping[str, Any] = {}
        if name == "prove" and self.folder.certified():
            name = "certified"
        elif name == "release" and number:
            with contextlib.suppress(FitnoiseError):
                state = self.releases.where(number)
                name, detail = state.state, {"out": state.intent.out, "stage": STAGES.get(state.stage)}
        return render_part("head", self.language, shown=name, **detail)

    def jobs_part(self, *names: str, page_name: str = "") -> Markup:
        """Return the jobs, of some names or all: those done, the progress, and those that wait.

        page_name: The page of one table that started them; "" for other pages.
        """
        of_page = (j for j in self.jobs.all if j.question.get("page", "") == page_name)
        jobs = [j for j in of_page if not names or j.name in names]
        return render_part("jobs", self.language, jobs=jobs[-6:][::-1], step=self.jobs.step, **self.form)

    def where_part(self, number: str) -> Markup:
        """Return the state of a release."""
        try:
            state = self.releases.where(number)
        except FitnoiseError as error:
            return render_part("unknown", self.language, why=error_text(error, self.language))
        return render_part(
            "where",
            self.language,
            found=state,
            stages=progress_of(state),
            place=self.folder.number(state.intent.out),
            verified=self._verified(state) if state.state == "released" else None,
            **self.form,
        )

    def _verified(self, state: ReleaseState) -> Job:
        """Return the job that verifies a release with its ledger; the first call starts it."""
        with self._lock:
            jobs = (j for j in self.jobs.all if j.name == "verify" and j.question["number"] == state.id)
            there = next(jobs, None)
            names = {"release": state.intent.out, "ledger": state.intent.ledger}
            charge = "" if state.entry is None else state.entry.digest
            question = {"what": "verify", "number": state.id, "charge": charge, **names, **self.question_fields}
            return there or self.jobs.add("verify", question)

    def parts(self, page_name: str) -> dict[str, Markup]:
        """Return the parts of a page that change by themselves. page_name: its name, or `release/ID`."""
        try:
            shown_parts = {"state": self.state_part(), "steps": self.steps_part(page_name)}
        except FitnoiseError as error:
            return {"state": render_part("lost", self.language, why=error_text(error, self.language))}
        if page_name.partition("/")[0] in PRICED:
            shown_parts |= self.price_parts()
        if page_name == "protect":
            shown_parts["bounds"] = self.bounds_part()
        if page_name == "tables":
            with contextlib.suppress(FitnoiseError):
                shown_parts = {**self.meaning_parts(), **shown_parts}
        if page_name == "prove" or page_name.startswith("release/"):
            shown_parts["head"] = self.head_part(page_name)
        if page_name == "prove":
            shown_parts["jobs"] = self.jobs_part("certify", "show", "kinds")
            plan = self.folder.certified()
            shown_parts |= {x: render_part(x, self.language, plan=plan, **self.form) for x in ("certifying", "go")}
        if page_name == "price":
            shown_parts["jobs"] = self.jobs_part("sweep")
        if page_name.startswith("tables/"):
            shown_parts["jobs"] = self.jobs_part("sweep", page_name=page_name)
        if page_name == "report":
            shown_parts["jobs"] = self.jobs_part("whole")
        if page_name.startswith("release/"):
            shown_parts["where"] = self.where_part(page_name.removeprefix("release/"))
        return shown_parts


def _asks_nothing(text: str) -> bool:
    """Return True for a draft with neither tables nor questions."""
    try:
        document = forms.parse(text)
    except FitnoiseError:
        return False
    return not document.get("tables") and not document.get("questions")


def _rewritten(text: str, make: Callable[[forms.Document], forms.Document]) -> str:
    """Return a changed draft; if its meaning is unchanged, its text is too."""
    before = forms.parse(text)
    after = make(before)
    # A rewritten text would lose comments and order, so it is written only for a change of meaning.
    return text if after == before else forms.write(after)
