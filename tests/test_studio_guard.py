"""Access to the studio, and the files that it opens: every refusal, every header, no link that leads out."""

import asyncio
import html
import os
import re
import stat
import urllib.request

import duckdb
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from fitnoise.request.documents import SpecSection
from fitnoise_studio import access
from fitnoise_studio.access import HEADERS, Guard, StudioSession, opening_page
from fitnoise_studio.folder import FILES, Folder, digest, named_files, publication_of
from refused import refused
from studios import SPEC, filled


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def client():
    """A guarded application, whose one change says what it was given."""
    clock = Clock()
    session = StudioSession(4321, clock)
    seen = []

    async def change(request):
        seen.append(dict(request.scope["form"]))
        return PlainTextResponse("changed", headers={"cache-control": "public", "x-frame-options": "none"})

    async def show(request):
        return PlainTextResponse("shown")

    app = Starlette(routes=[Route("/", show), Route("/x", change, methods=["POST"])])
    client = TestClient(Guard(app, session), base_url=session.origin + session.token.root, follow_redirects=False)
    client.session, client.seen, client.clock = session, seen, clock
    return client


def enter(client):
    assert opens(client, client.session.code()).status_code == 200


def opens(client, code, origin="null"):
    return client.post(f"{client.session.origin}/open", data={"code": code}, headers={"origin": origin})


def post(client, path="/x", *, headers=None, **fields):
    sent = {"origin": client.session.origin, "x-studio": "1", **(headers or {})}
    request_data = {"token": client.session.token(path), **fields}
    return client.post(path, data=request_data, headers={k: v for k, v in sent.items() if v is not None})


def test_a_change_from_our_own_page_is_made(client):
    enter(client)
    assert client.get("/").text == "shown"
    assert post(client, a="1").text == "changed"
    assert [x["a"] for x in client.seen] == ["1"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "localhost:4321"}, 421),
        ({"host": "127.0.0.1"}, 421),
        ({"host": "127.0.0.1:4322"}, 421),
        ({"host": "evil.example:4321"}, 421),
        ({"host": "127.0.0.1:4321.evil.example"}, 421),
        ({"origin": None}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://localhost:4321"}, 403),
        ({"origin": "https://127.0.0.1:4321"}, 403),
        ({"origin": "http://127.0.0.1:4321.evil.example"}, 403),
        ({"x-studio": None}, 403),
        ({"x-studio": "0"}, 403),
        ({"cookie": "x=1"}, 403),
        ({"cookie": "x=1", "content-type": "text/plain"}, 403),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "multipart/form-data; boundary=x"}, 415),
        ({"content-type": "application/json"}, 415),
    ],
)
def test_what_another_site_could_send_is_refused(client, headers, status):
    enter(client)
    assert post(client, headers=headers).status_code == status
    assert client.seen == []


@pytest.mark.parametrize("token", ["", "x", "é"])
def test_a_change_needs_the_token_of_its_own_form(client, token):
    enter(client)
    assert post(client, token=token).status_code == 403
    assert post(client, token=client.session.token("/y")).status_code == 403
    assert client.seen == []


def test_reading_needs_the_cookie_and_our_name(client):
    assert client.get("/").status_code == 403
    enter(client)
    assert client.get("/").status_code == 200
    assert client.get("/", headers={"host": "rebound.example:4321"}).status_code == 421
    (cookie,) = client.cookies.jar
    assert cookie.name == client.session.cookie
    client.cookies.clear()
    for value in ("", "x", cookie.value[:-1], cookie.value + "x"):
        assert client.get("/", headers={"cookie": f"{cookie.name}={value}"}).status_code == 403
        assert client.get("/", headers={"cookie": f"other={cookie.value}"}).status_code == 403
    assert client.get("/", headers={"cookie": f"{cookie.name}={cookie.value}"}).status_code == 200


def test_the_cookie_is_only_for_this_site_and_no_script_reads_it(client):
    header = opens(client, client.session.code()).headers["set-cookie"]
    expected = {"httponly", "samesite=strict", f"path={client.session.home}"}
    assert {x.strip().lower() for x in header.split(";")[1:]} == expected
    assert re.fullmatch("/[0-9a-f]{64}/", client.session.home)  # 256 bits
    assert StudioSession(4321).cookie != StudioSession(4321).cookie
    assert StudioSession(4321).home != StudioSession(4321).home


def test_the_cookie_goes_to_no_other_server_of_the_machine(client):
    """Cookies know no ports: to what is below the root alone they are sent, which only the opening reply names."""
    enter(client)
    (cookie,) = client.cookies.jar
    for path, sent in (
        (client.session.home, True),
        ("/", False),
        ("/open", False),
        (f"/x{client.session.home}", False),
    ):
        for port in (4321, 8000):
            request = urllib.request.Request(f"http://127.0.0.1:{port}{path}")
            client.cookies.jar.add_cookie_header(request)
            assert request.has_header("Cookie") == sent
    request_data = {"cookie": f"{cookie.name}={cookie.value}"}
    root = client.session.token.root
    for path in ("/", "/x", root, root.upper() + "/", f"/{'0' * 64}/", f"{root[:-1]}/", f"/x{root}/", "/open"):
        refused = client.get(client.session.origin + path, headers=request_data)
        assert refused.status_code == 403
        assert "paste the code" in refused.text
        assert root not in refused.text + str(refused.headers)
    headers = {**request_data, "origin": client.session.origin, "x-studio": "1"}
    sent = {"token": client.session.token("/x")}
    assert client.post(f"{client.session.origin}/x", data=sent, headers=headers).status_code == 403
    assert client.post("/x", data=sent, headers=headers).text == "changed"
    assert f'url={client.session.home}"' in opens(client, client.session.code()).text


def test_a_code_opens_once_and_for_five_minutes(client):
    code = client.session.code()
    wrong = opens(client, "x")
    assert (wrong.status_code, "set-cookie" in wrong.headers) == (403, False)
    assert opens(client, code, "https://evil.example").status_code == 403
    assert opens(client, code).status_code == 200
    repeated = opens(client, code)
    assert (repeated.status_code, "set-cookie" in repeated.headers) == (403, False)
    late = client.session.code()
    client.clock.now += access.CODE_LIFETIME_SECONDS
    assert opens(client, late).status_code == 403
    older, second = client.session.code(), client.session.code()
    assert not client.session.opens(older)
    assert client.session.opens(second)
    assert len(second) >= 43  # 256 bits
    assert not client.session.opens("")


def test_every_reply_carries_the_headers_word_for_word(client):
    replies = [client.get("/"), client.get("/", headers={"host": "x"}), client.post("/x"), opens(client, "x")]
    enter(client)
    replies += [client.get("/"), client.get("/nothing"), post(client), client.delete("/x")]
    for reply in replies:
        assert {name: reply.headers.get_list(name) for name in HEADERS} == {n: [v] for n, v in HEADERS.items()}
    assert HEADERS["content-security-policy"] == (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )


def test_a_long_body_and_one_that_is_no_form_are_refused(client, monkeypatch):
    monkeypatch.setattr(access, "MAX_BODY_BYTES", 1000)
    enter(client)
    assert post(client, a="x" * 800).status_code == 200
    assert post(client, a="x" * 1000).status_code == 413
    form = {"content-type": "application/x-www-form-urlencoded", "origin": client.session.origin, "x-studio": "1"}
    for body in (b"\xff=1", b"a=%ff", b"novalue", b"&" * 100):
        assert client.post("/x", content=body, headers=form).status_code == 400
    monkeypatch.setattr(access, "MAX_FIELDS", 3)
    assert post(client, a="1", b="1", c="1").status_code == 400
    assert len(client.seen) == 1


@pytest.mark.parametrize(
    ("form_name", "max_bytes"), [("x", access.MAX_BODY_BYTES), ("open", access.MAX_CODE_BODY_BYTES)]
)
def test_of_a_body_no_more_is_read_than_may_be_sent(client, form_name, max_bytes, monkeypatch):
    """Without the cookie nothing but a short code; and what never ends is given up."""
    monkeypatch.setattr(access, "BODY_TIMEOUT_SECONDS", 0.05)
    enter(client)
    (cookie,) = client.cookies.jar
    path = "/open" if form_name == "open" else f"{client.session.home}x"
    with_cookie = {"cookie": f"{cookie.name}={cookie.value}"}
    assert sent_in_pieces(client, path, with_cookie, forever=max_bytes) == (413, max_bytes + 1)
    for without in ({}, {"cookie": f"{cookie.name}=x"}):
        assert sent_in_pieces(client, path, without, forever=max_bytes) == (
            (403, 0) if form_name == "x" else (413, max_bytes + 1)
        )
    assert sent_in_pieces(client, path, {**with_cookie, "x-studio": "0"}, forever=max_bytes)[1] == (
        0 if form_name == "x" else max_bytes + 1
    )
    assert sent_in_pieces(client, path, with_cookie, forever=0) == (408, 0)


def sent_in_pieces(client, path, headers, *, forever):
    """The status of the reply, and how many bytes were read of a body that comes in two pieces and does not end."""
    defaults = {
        "host": client.session.host,
        "origin": client.session.origin,
        "x-studio": "1",
        "content-type": "application/x-www-form-urlencoded",
    }
    fields = [(k.encode(), v.encode()) for k, v in {**defaults, **headers}.items()]
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": fields}
    pieces, read, statuses = [forever, 1] if forever else [], [], []

    async def receive():
        if not pieces:
            await asyncio.Event().wait()  # the client sends no more
        read.append(pieces.pop(0))
        return {"type": "http.request", "body": b"a" * read[-1], "more_body": True}

    async def send(message):
        statuses.append(message.get("status"))

    asyncio.run(client.app(scope, receive, send))
    return statuses[0], sum(read)


def test_a_field_that_is_there_often_has_all_its_values():
    form = access.form_of(b"a=1&b=&a=2")
    assert (form.all("a"), form["a"], form["b"], form.all("c")) == (["1", "2"], "2", "", [])
    assert access.form_of(b"") == {}


def test_the_opening_page_posts_its_code_and_nothing_else(client):
    text = opening_page(client.session)
    policy = html.unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1])
    assert f"form-action {client.session.origin}" in policy
    assert "default-src 'none'" in policy
    code = re.search(r'name="code" value="([^"]*)"', text)[1]
    assert f'action="{client.session.origin}/open"' in text
    assert client.session.opens(code)


def test_pages_without_a_cookie_are_in_the_language_of_the_studio():
    session = StudioSession(4321, language="de")
    german = TestClient(Guard(Starlette(), session), base_url=session.origin, follow_redirects=False)
    entry = german.get("/").text
    assert '<html lang="de">' in entry
    assert "fügen Sie den Code ein" in entry
    wrong = german.post("/open", data={"code": "x"}, headers={"origin": session.origin}).text
    assert '<p role="alert">Dieser Code ist falsch, verbraucht oder zu alt.</p>' in wrong
    assert "<button>Studio öffnen</button>" in opening_page(session)
    entered = german.post("/open", data={"code": session.code()}, headers={"origin": session.origin}).text
    assert f'<a href="{session.home}">Zum Studio</a>' in entered


# --- the folder ------------------------------------------------------------------------------------------------------


def test_only_the_owner_reads_what_the_studio_keeps(tmp_path):
    folder = Folder(tmp_path)
    page_path = folder.page("x")
    assert stat.S_IMODE(page_path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.own.stat().st_mode) == 0o700
    os.utime(page_path, (0, 0))
    assert folder.page("y").is_file()
    assert not page_path.exists()  # of a server that was killed


def test_what_leads_out_is_neither_listed_nor_opened(tmp_path):
    outside = filled(tmp_path / "outside")
    root = filled(tmp_path / "root")
    (root / "inner").mkdir()
    (root / "inner" / "a.csv").write_text("x\n1\n")
    (root / "link.csv").symlink_to(outside / "people.csv")
    (root / "loop.csv").symlink_to(root / "loop.csv")
    (root / "away").symlink_to(outside)
    (root / "near.csv").symlink_to(root / "inner" / "a.csv")
    (root / "mixed").mkdir()
    (root / "mixed" / "a.csv").write_text("x\n1\n")
    (root / "mixed" / "b.csv").symlink_to(outside / "people.csv")
    (root / ".hidden.csv").write_text("x\n")
    folder = Folder(root)
    assert folder.data() == ["inner", "inner/a.csv", "mixed", "mixed/a.csv", "near.csv", "people.csv"]
    for name in ("link.csv", "away", "loop.csv", "mixed", "../outside/people.csv", "away/people.csv", "no.csv", "a\0b"):
        with refused("release.path-outside-folder"):
            folder.inside(name)
    assert folder.inside("near.csv").read_text() == "x\n1\n"
    assert folder.inside("inner").is_dir()


def test_a_number_stays_that_of_its_name(tmp_path):
    folder = Folder(filled(tmp_path / "f"), ("env:URL",))
    number = str(folder.number("people.csv"))
    (folder.root / "a.csv").write_text("x\n")
    assert folder.name_by_number(number, folder.data()) == "people.csv"
    assert folder.name_by_number("0", folder.data()) == "env:URL"
    for wrong in ("", "-1", "7", "x", "٣", "1e9", "99999999999999999999"):
        with refused("release.choice-not-listed"):
            folder.name_by_number(wrong, folder.data())
    (folder.root / "people.csv").unlink()
    with refused("release.choice-not-listed"):
        folder.name_by_number(number, folder.data())


def test_places_that_are_refused(tmp_path):
    with refused("release.studio-folder-missing"):
        Folder(tmp_path / "none")
    with refused("release.studio-data-address-invalid"):
        Folder(tmp_path, ("/etc/passwd",))
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / ".studio").symlink_to(tmp_path)
    with refused("release.studio-place-not-made"):
        Folder(tmp_path / "f")
    folder = Folder(filled(tmp_path / "g"))
    for name in ("", ".", "..", "a/b", "../a", ".hidden", "a\n", "é", "x" * 101, "a.", "people.csv"):
        with refused("release.new-name-invalid", "release.new-name-taken"):
            folder.target(name)
    (folder.root / "dangling").symlink_to(tmp_path / "nowhere")
    with refused("release.new-name-taken"):
        folder.target("dangling")
    with refused("release.plan-hash-invalid"):
        folder.plan("../../x")
    (folder.root / "plans").symlink_to(tmp_path)
    with refused("release.path-outside-folder"):
        folder.plan("0" * 64)


def test_only_the_header_line_is_read(tmp_path, monkeypatch):
    folder = Folder(filled(tmp_path / "f"))
    assert folder.columns("people.csv") == ["area", "age"]
    (folder.root / "b.csv").write_bytes(b"\xef\xbb\xbfa;b;c\n\xff\xff broken \0 line")
    assert folder.columns("b.csv") == ["a", "b", "c"]
    none = {"broken.parquet": b"x", "x.sav": b"x", "empty.csv.gz": b"x", "names.txt": b"a,b\n", "bare.csv": b"a,b"}
    none |= {"born.csv": b"Doe,1980-02-03,x\n", "paid.csv": b"Doe;1.200,5\n", "two.csv": b"a,a\n", "gap.csv": b"a,,b\n"}
    for name, content in none.items():
        (folder.root / name).write_bytes(content)
        with refused("release.columns-not-listed"):
            folder.columns(name)
    expected = {"b.csv", "people.csv", *none} - {"x.sav", "names.txt"}
    assert {*folder.headed()} == expected


def test_a_schema_is_that_of_one_file(tmp_path):
    folder = Folder(filled(tmp_path / "f"))
    for folder_name, column in (("?", "a"), ("b", "hidden")):
        (folder.root / folder_name).mkdir()
        duckdb.execute(f"COPY (SELECT 1 AS {column}) TO '{folder.root / folder_name / 'x.parquet'}'")
    assert folder.columns("?/x.parquet") == ["a"]


def test_save_refuses_what_changed_meanwhile(tmp_path):
    folder = Folder(filled(tmp_path / "f"))
    spec = folder.root / "spec.toml"
    folder.save()  # there is no draft: nothing to do
    assert spec.read_text() == SPEC
    folder.accept(SPEC + "# more\n", digest(SPEC))
    assert spec.read_text() == SPEC
    with refused("fitnoise.draft-changed-elsewhere"):
        folder.accept("title = 'x'", digest(SPEC))
    spec.write_text(SPEC + "# somebody else\n")
    assert folder.is_spec_changed()
    with refused("fitnoise.specification-changed-elsewhere"):
        folder.save()
    assert spec.read_text() == SPEC + "# somebody else\n"
    assert folder.text() == SPEC + "# more\n"
    spec.write_text(SPEC)
    folder.save()
    assert spec.read_text() == SPEC + "# more\n"
    assert not folder.drafted()


def test_a_specification_reads_no_file_outside(tmp_path):
    (tmp_path / "codes.csv").write_text("code\na\n")
    root = filled(tmp_path / "f")
    text = SPEC.replace('codes = ["n", "s"]\nlabels = ["North", "South"]', 'codes_file = "{}"')
    possible = SPEC + '\n[[possible]]\nfile = "{}"\n'
    target = SPEC.replace("margin = 9.5", 'margin = {{ by = "area", file = "{}", column = "margin" }}')
    (root / "link.csv").symlink_to(tmp_path / "codes.csv")
    for name in ("../codes.csv", str(tmp_path / "codes.csv"), "link.csv"):
        for with_file in (text, possible, target):
            with refused("spec.file-outside-folder"):
                publication_of(with_file.format(name), root)
            assert named_files(with_file.format(name)) == [name]
    (root / "link.csv").unlink()
    (root / "codes.csv").write_text("code\na\n")
    assert publication_of(text.format("codes.csv"), root).domain["area"].values == ("a",)


def test_the_studio_knows_all_keys_of_files_of_a_specification():
    sections = [SpecSection]
    for section in sections:
        sections += section.__subclasses__()
    fields = {k: str(x.description) for section in sections for k, x in section.model_fields.items()}
    assert {k for k, text in fields.items() if k.endswith("file") or "relative to the specification" in text} == {
        *FILES
    }


def test_a_plan_is_certified_for_the_text_and_the_files_it_names(tmp_path):
    root = filled(
        tmp_path / "f", SPEC.replace('codes = ["n", "s"]\nlabels = ["North", "South"]', 'codes_file = "c.csv"')
    )
    (root / "c.csv").write_text("code\na\n")
    folder = Folder(root)
    (root / "plans").mkdir()
    (root / "plans" / f"{'0' * 64}.json").write_text("{}")
    assert folder.certified() is None
    folder.certify(folder.key(folder.text()), "0" * 64)
    assert folder.certified() == "0" * 64
    (root / "c.csv").write_text("code\nb\n")
    assert folder.certified() is None
    key = folder.key(folder.text())
    os.utime(root / "c.csv", (1, 1))  # long ago: it is read once
    assert [folder.key(folder.text()) for _ in range(2)] == [key] * 2
    (root / "c.csv").write_text("code\nc\n")
    assert folder.key(folder.text()) != key
    (root / "c.csv").unlink()
    os.mkfifo(root / "c.csv")  # which is not waited for
    assert folder.key(folder.text()) != key


def test_names_like_data_next_to_the_folder_are_not_listed(tmp_path):
    folder = Folder(filled(tmp_path / "f"), ["env:PEOPLE"])
    (folder.root / "env:STUDY").mkdir()
    (folder.root / "env:STUDY" / "people.csv").write_text("a\n1\n")
    (folder.root / "spark:t.csv").write_text("a\n1\n")
    assert folder.data() == ["env:PEOPLE", "people.csv"]
