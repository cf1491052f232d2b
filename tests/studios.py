"""A studio for tests: its client, and a planner in this process, which answers at once."""

import contextlib
import re
from pathlib import Path

from starlette.testclient import TestClient

from fitnoise_studio import planner, state, workers
from fitnoise_studio.access import Guard, StudioSession
from fitnoise_studio.app import application
from fitnoise_studio.folder import Folder, digest
from people import AREAS, DATA

SPEC = f"""title = "People"

[data]
source = "people"

[privacy]
unit = "person"
max_records = 1

[accuracy]
gap = 1e-4
{AREAS}
[[tables]]  # by age
attributes = ["area"]
cumulative = "age"
margin = 9.5
"""


def public_totals_spec():
    """The text of a specification with the numbers of records by area as public totals."""
    totals = '[[public]]\nby = ["area"]\nsource = "register"\n\n'
    text = SPEC.replace("[[tables]]", totals + "[[tables]]", 1).replace('cumulative = "age"', "")
    return text.replace('\nattributes = ["area"]', '\nname = "first"\nattributes = ["area", "age"]', 1)


class Here:
    """A worker that needs no process."""

    pid, step, newest = None, "", 0

    def __init__(self, *, spare=False):
        self.asked = []

    def start(self):
        pass

    def ask(self, **question):
        self.asked.append(question)
        answer = planner.answered(question, lambda _: None)
        if answer["kind"] != "done":
            assert answer["kind"] == "refused", answer
            raise workers.error_of(answer)
        return answer

    def stop(self):
        pass

    def close(self):
        pass


class Client:
    """A browser at a studio."""

    def __init__(self, studio):
        self.studio, self.session, self.folder = studio, studio.session, studio.folder
        self.http = TestClient(
            Guard(application(studio), studio.session),
            base_url=studio.session.origin + studio.session.token.root,
            headers={"origin": studio.session.origin},
            follow_redirects=False,
        )
        assert self.http.post(f"{studio.session.origin}/open", data={"code": studio.session.code()}).status_code == 200

    def get(self, path):
        return self.http.get(path)

    def page(self, path):
        reply = self.get(path)
        assert reply.status_code == 200, reply.text
        return reply.text

    def post(self, path, fields=(), **values):
        base = re.search(r'data-base="(\w+)"', self.page("/ledger"))
        sent = {"token": self.session.token(path), "base": base[1], **dict(fields), **values}
        return self.http.post(path, data=sent, headers={"x-studio": "1"})

    def number(self, name):
        return str(self.folder.number(name))

    def wait(self):
        """Until no job is under way."""
        while any(j.state in ("waiting", "running") for j in self.studio.jobs.all):
            self.studio.closing.wait(0.01)
        return self.studio.jobs.all[-1]

    def certified(self):
        assert self.post("/certify").status_code == 200
        assert self.wait().state == "done", self.wait().text
        return self.folder.certified()

    def intend(self, **values):
        """The number of an intent."""
        fields = {"data": self.number("people.csv"), "out": "release", **values}
        if self.folder.ledgers():
            fields.setdefault("ledger", self.number(self.folder.ledgers()[0]))
        reply = self.post("/release", fields)
        assert reply.status_code == 200, reply.text
        return re.search(r'action="[^"]*/release/([0-9a-f]{32})"', reply.text)[1]


def filled(folder: Path, spec=SPEC):
    """A folder with a specification and data."""
    folder.mkdir(exist_ok=True)
    if spec:
        (folder / "spec.toml").write_text(spec, encoding="utf-8")
    (folder / "people.csv").write_text(DATA, encoding="utf-8")
    return folder


@contextlib.contextmanager
def opened(folder, monkeypatch=None, clock=None, **values):
    """A client of a studio of a folder; with monkeypatch, without processes that plan."""
    if monkeypatch is not None:
        monkeypatch.setattr(state, "Worker", Here)
        monkeypatch.setattr(workers, "Worker", Here)
    timed = {} if clock is None else {"clock": clock}
    studio = state.Studio(Folder(folder, values.pop("others", ())), StudioSession(1234, **timed), **timed, **values)
    try:
        yield Client(studio)
    finally:
        studio.close()


def base_of(client):
    return digest(client.folder.text())
