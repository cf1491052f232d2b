"""Keys of sealed counts: several recipients, older keys, passphrases, variables, groups; and no secret in any word."""

import contextlib
import json
import logging
import os
import stat
import sys
import traceback
from pathlib import Path

import nacl.exceptions
import nacl.public
import nacl.pwhash
import nacl.secret
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import fitnoise as fn
from fitnoise.interfaces import commands
from fitnoise.interfaces.cli import _run
from fitnoise.kernel.counting import keys as key_files
from fitnoise.kernel.counting.keys import PRIVATE, PROTECTED, PUBLIC, PrivateKeys, key_id, read_public_key, seal
from fitnoise.kernel.counting.sealed import SEALED
from refused import refused

CONTENT = bytes(range(200))

PASSPHRASE = "geheim: fünf Wörter"  # noqa: S105 - of keys that the tests make

posix = pytest.mark.skipif(sys.platform == "win32", reason="permissions of POSIX")


@pytest.fixture(autouse=True)
def small_parameters(monkeypatch):
    """Derive keys with the smallest parameters of libsodium, which the files state, and without a passphrase set."""
    monkeypatch.setattr(key_files, "_STEPS", nacl.pwhash.scrypt.OPSLIMIT_MIN)
    monkeypatch.setattr(key_files, "_MEMORY_BYTES", nacl.pwhash.scrypt.MEMLIMIT_MIN)
    monkeypatch.delenv("FITNOISE_PASSPHRASE", raising=False)


def pair(passphrase=None):
    return [x.encode() for x in key_files.key_pair(passphrase)]


def sealed_for(*public_keys):
    return seal([read_public_key(x) for x in public_keys], CONTENT)


def opened(sealed, *private_keys, passphrase=None):
    return PrivateKeys(private_keys, passphrase).open(sealed, "the counts")


@given(n=st.integers(1, 4), which=st.integers(0, 3))
@settings(max_examples=8, deadline=None)
def test_each_recipient_opens_and_no_one_else(n, which):
    pairs = [pair() for _ in range(n)]
    sealed = sealed_for(*(public for _, public in pairs), pairs[0][1])
    assert len(sealed) == 4 + 88 * n + 24 + 16 + len(CONTENT)
    assert opened(sealed, pairs[which % n][0]) == CONTENT
    with refused("data.sealed-counts-for-other-keys") as caught:
        opened(sealed, pair()[0])
    assert all(key_id(read_public_key(public)) in str(caught.value) for _, public in pairs)


def test_counts_of_an_old_key_open_with_the_new_one_given():
    """The file names its keys, so the right one of several is chosen, and no passphrase of another key is needed."""
    (old, old_public), (new, new_public) = pair(), pair(PASSPHRASE)
    assert opened(sealed_for(old_public), new, old) == CONTENT
    assert opened(sealed_for(new_public), old, new, passphrase=PASSPHRASE) == CONTENT
    for keys in ((old, new), (new, old)):
        for passphrase in (PASSPHRASE, None):
            assert opened(sealed_for(old_public, new_public), *keys, passphrase=passphrase) == CONTENT


@pytest.mark.no_cover
@given(position=st.integers(0, 4 + 2 * 88 + 24 + 16 + len(CONTENT) - 1), change=st.integers(1, 255))
@example(position=3, change=128)  # some thousand million recipients
@example(position=0, change=3)
@settings(max_examples=150, deadline=None)
def test_no_byte_of_a_seal_can_be_altered(position, change):
    sealed = sealed_for(*(public for _, public in PAIRS))
    altered = sealed[:position] + bytes([sealed[position] ^ change]) + sealed[position + 1 :]
    for private, _ in PAIRS:
        with refused("data.sealed-counts-not-opened", "data.sealed-counts-for-other-keys"):
            opened(altered, private)


PAIRS = [pair(), pair()]


@pytest.mark.parametrize("size", [0, 3, 4, 11, 12, 91, 92, 4 + 2 * 88 - 1, 4 + 2 * 88, 4 + 2 * 88 + 24, -16, -1])
def test_no_seal_can_be_cut_off(size):
    sealed = sealed_for(*(public for _, public in PAIRS))
    for private, _ in PAIRS:
        with refused("data.sealed-counts-not-opened", "data.sealed-counts-for-other-keys"):
            opened(sealed[:size], private)


def test_recipients_cannot_be_swapped_added_or_removed():
    sealed, stranger = sealed_for(*(public for _, public in PAIRS)), pair()
    one_box, other_box, body = sealed[4:92], sealed[92:180], sealed[180:]
    other = sealed_for(stranger[1])
    two, one, three = (n.to_bytes(4, "little") for n in (2, 1, 3))
    for altered in (
        two + other_box + one_box + body,
        two + one_box[:8] + other_box[8:] + other_box[:8] + one_box[8:] + body,
        two + one_box + one_box + body,
        one + one_box + body,
        one + other_box + body,
        three + one_box + other_box + other[4:92] + body,
        two + one_box + other[4:92] + body,
        one + other[4:92] + body,
    ):
        for private in (PAIRS[0][0], PAIRS[1][0], stranger[0]):
            with refused("data.sealed-counts-not-opened", "data.sealed-counts-for-other-keys"):
                opened(altered, private)


def test_the_holder_of_a_private_key_can_change_the_counts_for_the_others():
    """The documentation says so: a holder has the content key."""
    (private, _), (other, _) = PAIRS
    sealed = sealed_for(*(public for _, public in PAIRS))
    holder = nacl.public.PrivateKey(bytes.fromhex(private.decode().removeprefix(PRIVATE)))
    head = sealed[: 4 + 2 * 88]
    boxes = {sealed[i : i + 8].hex(): sealed[i + 8 : i + 88] for i in (4, 92)}
    content_key = nacl.public.SealedBox(holder).decrypt(boxes[key_id(bytes(holder.public_key))])
    changed = head + nacl.secret.Aead(content_key).encrypt(b"other counts", head)
    assert opened(changed, other) == b"other counts"


def test_very_many_ids_are_not_all_named():
    sealed = (10**6).to_bytes(4, "little") + bytes(88) * 1000
    with refused("data.sealed-counts-for-other-keys") as caught:
        opened(sealed, PAIRS[0][0])
    assert "and 992 more" in str(caught.value)
    assert len(str(caught.value)) < 800


# --- passphrases ------------------------------------------------------------------------------------------------------


def altered_head(key, position, value):
    content = bytes.fromhex(key.decode().removeprefix(PROTECTED))
    return PROTECTED.encode() + (content[:position] + value + content[position + len(value) :]).hex().encode()


def test_a_passphrase_opens_its_key_in_any_spelling_of_accents():
    private, public = pair(PASSPHRASE)
    assert private.startswith(PROTECTED.encode())
    sealed = sealed_for(public)
    assert opened(sealed, private, passphrase=PASSPHRASE) == CONTENT
    assert opened(sealed, private, passphrase=PASSPHRASE.replace("ü", "u\u0308").replace("ö", "o\u0308")) == CONTENT
    for wrong in (PASSPHRASE + " ", PASSPHRASE.upper(), "\udcff"):
        with refused("data.passphrase-wrong"):
            opened(sealed, private, passphrase=wrong)
    for nothing in ("", 7, b"bytes"):
        with refused("data.passphrase-empty"):
            opened(sealed, private, passphrase=nothing)
        with refused("data.passphrase-empty"):
            fn.new_keys("never.key", nothing)
    assert not os.path.lexists("never.key")
    with refused("data.passphrase-missing"):
        opened(sealed, private)
    assert [PrivateKeys([x]).are_protected() for x in (private, PAIRS[0][0])] == [True, False]


@pytest.mark.parametrize("position", [0, 8, 9, 16, 18, 24, 55, 56, 80, 127])
def test_no_part_of_a_protected_key_can_be_altered(position):
    """Its id, the steps, the memory, the salt, the nonce, the key and its tag."""
    private, public = pair(PASSPHRASE)
    content = bytes.fromhex(private.decode().removeprefix(PROTECTED))
    altered = altered_head(private, position, bytes([content[position] ^ 1]))
    codes = ("data.passphrase-wrong",) if position else ("data.sealed-counts-for-other-keys",)
    with refused(*codes):
        opened(sealed_for(public), altered, passphrase=PASSPHRASE)


@pytest.mark.parametrize("position", [8, 16])
@pytest.mark.parametrize("number", [2**30 + 1, 2**40, 2**63, 2**64 - 1])
def test_huge_parameters_are_refused_before_memory_is_taken(position, number, monkeypatch):
    private, public = pair(PASSPHRASE)
    sealed = sealed_for(public)

    def unexpected(*args, **kwargs):
        raise AssertionError("scrypt was called")

    monkeypatch.setattr(nacl.pwhash.scrypt, "kdf", unexpected)
    with refused("data.passphrase-parameters-too-large"):
        opened(sealed, altered_head(private, position, number.to_bytes(8, "little")), passphrase=PASSPHRASE)


@pytest.mark.parametrize("error", [nacl.exceptions.RuntimeError("Unexpected failure in key derivation"), MemoryError()])
def test_too_little_memory_is_not_taken_for_a_wrong_passphrase(error, monkeypatch, tmp_path):
    private, public = pair(PASSPHRASE)
    sealed = sealed_for(public)

    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(nacl.pwhash.scrypt, "kdf", fail)
    for act in (
        lambda: opened(sealed, private, passphrase=PASSPHRASE),
        lambda: fn.new_keys(tmp_path / "own.key", PASSPHRASE),
    ):
        with refused("data.passphrase-memory-exhausted") as caught:
            act()
        assert caught.value.__context__ is None
    assert not list(tmp_path.iterdir())


def test_new_keys_take_128_mebibytes():
    import importlib

    fresh = importlib.util.module_from_spec(importlib.util.find_spec(key_files.__name__))
    fresh.__spec__.loader.exec_module(fresh)
    pick = nacl.bindings.crypto_pwhash.nacl_bindings_pick_scrypt_params
    assert pick(fresh._STEPS, fresh._MEMORY_BYTES) == (17, 8, 1)


# --- sources ----------------------------------------------------------------------------------------------------------


@posix
@pytest.mark.parametrize("mode", range(0o400, 0o1000, 7))
def test_a_key_is_read_by_its_owner_and_with_a_flag_by_its_group(mode, tmp_path):
    private, public = fn.new_keys(tmp_path / "own.key")
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    sealed = sealed_for(public)
    private.chmod(mode)
    for flag in (False, True):
        keys = PrivateKeys([private], group_readable=flag)
        if mode & (0o037 if flag else 0o077):
            with refused("data.private-key-exposed"):
                keys.open(sealed, "the counts")
        else:
            assert keys.open(sealed, "the counts") == CONTENT


@posix
def test_a_secret_of_an_orchestrator_opens_with_the_flag(tmp_path):
    private, public = fn.new_keys(tmp_path / "own.key", PASSPHRASE)
    private.chmod(0o440)
    (tmp_path / "mounted.key").symlink_to(private)
    sealed = sealed_for(public)
    with refused("data.private-key-exposed"):
        opened(sealed, tmp_path / "mounted.key", passphrase=PASSPHRASE)
    keys = PrivateKeys([tmp_path / "mounted.key"], PASSPHRASE, group_readable=True)
    assert keys.open(sealed, "the counts") == CONTENT


def test_a_key_is_a_file_a_variable_or_bytes(tmp_path, monkeypatch):
    private, public = fn.new_keys(tmp_path / "own.key")
    monkeypatch.setenv("OWN_KEY", private.read_text())
    monkeypatch.setenv("THEIR_KEY", public.read_text())
    for source in (public, str(public), "env:THEIR_KEY", public.read_bytes()):
        sealed = sealed_for(source)
        for source_of_private in (private, str(private), "env:OWN_KEY", private.read_bytes()):
            assert opened(sealed, source_of_private) == CONTENT


@pytest.mark.parametrize(
    "name",
    [
        "fitnoise-private-key-2026.key",
        "fitnoise-protected-key-/fitnoise-private-key-/own.key",
        f"{'0123456789abcdef' * 4}/own.key",
        f"{'a' * 31}-{'0' * 31}.key",
    ],
)
def test_a_file_may_have_any_name_that_is_no_key(name, tmp_path):
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    private, public = fn.new_keys(tmp_path / name)
    assert opened(sealed_for(public), private) == opened(sealed_for(str(public)), str(private)) == CONTENT


def test_no_keys_are_made_that_no_command_takes(tmp_path):
    with refused("data.private-key-as-argument"):
        fn.new_keys(tmp_path / f"{'a' * 32}.key")
    assert not list(tmp_path.iterdir())


@pytest.fixture
def piped():
    """Return a function from some bytes to the path of a pipe that holds them and ends after them."""
    with contextlib.ExitStack() as stack:

        def path_of(data):
            reader, writer = os.pipe()
            stack.callback(os.close, reader)
            os.write(writer, data)
            os.close(writer)
            return f"/dev/fd/{reader}"

        yield path_of


@posix
def test_a_pipe_is_read_once(piped):
    for passphrase in (None, PASSPHRASE):
        private, public = pair(passphrase)
        keys = PrivateKeys([piped(private)], passphrase)
        assert keys.are_protected() is (passphrase is not None)
        for _ in range(2):
            assert keys.open(sealed_for(piped(public)), "the counts") == CONTENT
    # what cannot be used stays what it is, also behind a key that was read
    keys = PrivateKeys([piped(private), piped(public), "gone.key"])
    for _ in range(2):
        with refused("data.key-of-other-kind"):
            keys.are_protected()
    with refused("data.key-of-other-kind"):
        keys.open(sealed_for(public), "the counts")


NO_KEYS = [b"", b"key", PRIVATE.encode(), PRIVATE.encode() + b"0" * 62, PROTECTED.encode() + b"0" * 64, b"x" * 2000]


@pytest.mark.parametrize("data", [*NO_KEYS, PRIVATE.encode() + b"g" * 64, PRIVATE.encode() + b"\xff" * 64])
def test_what_is_no_private_key_is_refused_from_every_source(data, tmp_path, monkeypatch):
    file = tmp_path / "odd.key"
    file.write_bytes(data)
    file.chmod(0o600)
    monkeypatch.setenv("ODD_KEY", data.decode("latin-1"))
    for source in (file, "env:ODD_KEY", data):
        with refused("data.key-file-invalid"):
            opened(sealed_for(PAIRS[0][1]), source)
        with refused("data.key-file-invalid", "data.key-of-other-kind"):
            read_public_key(source)


@pytest.mark.parametrize("number", [0, 1])
def test_points_that_give_everyone_the_key_are_no_public_keys(number):
    with refused("data.key-file-invalid"):
        read_public_key((PUBLIC + number.to_bytes(32, "little").hex()).encode())


def test_sources_that_give_no_key_say_so(tmp_path, monkeypatch):
    monkeypatch.delenv("ABSENT", raising=False)
    sealed = sealed_for(PAIRS[0][1])
    for code, source in {
        "data.key-file-not-read": tmp_path / "gone.key",
        "data.key-variable-missing": "env:ABSENT",
        "data.key-variable-name-invalid": "env:no name",
        "data.key-of-other-kind": PAIRS[0][1],
        "data.key-of-wrong-type": 7,
    }.items():
        with refused(code):
            opened(sealed, source)
    with refused("data.key-of-other-kind"):
        read_public_key(pair(PASSPHRASE)[0])


# --- no word has a secret ---------------------------------------------------------------------------------------------


def test_no_error_and_no_log_has_a_secret(tmp_path, monkeypatch, caplog):
    """Errors with their contexts, representations and logs, for every source and each way to give a key wrongly."""
    caplog.set_level(logging.DEBUG)
    unprotected, public = pair()
    protected, other_public = pair(PASSPHRASE)
    monkeypatch.setenv("OWN_KEY", unprotected.decode())
    file = tmp_path / "own.key"
    file.write_bytes(unprotected[:-1])
    sealed = sealed_for(public, other_public)
    texts, contexts = [], []

    def keep(action):
        try:
            action()
        except fn.FitnoiseError as error:
            texts.extend([traceback.format_exc(), repr(error), str(error), str(error.place)])
            contexts.append(error.__context__)
            return error.code
        return None

    for text in spellings(unprotected.decode()) + spellings(protected.decode()):
        for source in (text, Path(text), Path("folder") / text):
            for act in (lambda: opened(sealed, source), lambda: read_public_key(source)):  # noqa: B023 - called here
                assert keep(act) == "data.private-key-as-argument", text
    for source in (
        unprotected.decode(),
        f"env:{unprotected.decode()}",
        protected.decode(),
        unprotected[:-1],
        protected[:-1],
        protected,
        bytearray(unprotected),
        "env:OWN_KEY",
        file,
    ):
        keys = PrivateKeys([source], "wrong " + PASSPHRASE)
        texts.append(repr(keys) + str(keys))
        for stranger in (sealed, sealed_for(PAIRS[0][1]), sealed[:-1]):
            keep(lambda: keys.open(stranger, "the counts"))  # noqa: B023 - called here
    assert not any(contexts)
    assert len(texts) > 200
    digits = [x.decode()[-64:] for x in (unprotected, protected)]
    for text in (*texts, caplog.text):
        assert PASSPHRASE not in text
        for secret in digits:
            assert all(secret[i : i + 16] not in text.lower() for i in range(0, 48, 8))


def spellings(key):
    """Return what a person may give in place of the file of a key, complete or cut."""
    prefix, digits = key[: key.rindex("-") + 1], key[key.rindex("-") + 1 :][-64:]
    texts = [
        *(digits, digits.upper(), f" {digits}\n", f"x{digits}x", f"{digits}.key", f"env:a{digits}", f"env:{digits}"),
        *(prefix.upper() + digits, key.upper(), prefix[3:] + digits, prefix[:-1] + digits, f"fitnoise:{digits}"),
        *(prefix.replace("-", "_") + digits, prefix.replace("-", " ") + digits, f"env:{prefix}{digits}"),
        *(f"env:{prefix.replace('-', '_')}{digits}", f"env:{prefix.upper().replace('-', '_')}{digits.upper()}"),
    ]
    return [*texts, prefix + digits[:32], digits[32:]]


# --- in Python and on the command line --------------------------------------------------------------------------------


@pytest.fixture
def planned(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    domain = fn.Domain(sex=fn.Categorical(["f", "m"]))
    plan = fn.plan(fn.Workload(domain, [fn.table("sex", margin=20)]), source=fn.DataSource("census"))
    (tmp_path / "plan.json").write_text(plan.to_json())
    (tmp_path / "people.csv").write_text("sex\n" + "f\nm\nm\n" * 20)
    return plan


@pytest.mark.no_cover
def test_counts_for_several_keys_are_released_in_python(planned):
    (old, old_public), (new, new_public) = fn.new_keys("old.key"), fn.new_keys("new.key", PASSPHRASE)
    fn.count(planned, "people.csv", "counts", public_key=[old_public, new_public.read_bytes()])
    for i, options in enumerate(
        (
            {"private_key": old},
            {"private_key": [new, old], "passphrase": PASSPHRASE},
            {"private_key": new.read_bytes(), "passphrase": PASSPHRASE},
        )
    ):
        fn.release(planned, "counts", ledger="l.db", directory=f"r{i}", again=True, **options)
        assert fn.verify(f"r{i}", ledger="l.db").ok
    for options in ({"passphrase": PASSPHRASE}, {"group_readable_key": True}):
        with refused("release.private-key-missing") as caught:
            fn.release(planned, "counts", ledger="l.db", directory="none", **options)
        assert PASSPHRASE not in str(caught.value)
    with refused("release.sealed-or-unsealed"):
        fn.count(planned, "people.csv", "more", public_key=[])


@pytest.mark.no_cover
def test_no_call_in_python_quotes_what_is_given_as_a_key(planned):
    private, public = pair()
    digits = private.decode().removeprefix(PRIVATE)
    fn.count(planned, "people.csv", "counts", public_key=public)
    for key in (*spellings(private.decode()), f"{digits}\0", int(digits, 16), [digits], [int(digits, 16)], {digits: 1}):
        for act in (
            lambda: fn.release(planned, "counts", ledger="l.db", directory="none", private_key=key),  # noqa: B023
            lambda: fn.count(planned, "people.csv", "more", public_key=key),  # noqa: B023
        ):
            with pytest.raises(fn.FitnoiseError) as caught:
                act()
            text = "".join(traceback.format_exception(caught.value)).lower()
            assert all(x[i : i + 16] not in text for x in (digits, str(int(digits, 16))) for i in range(0, 48, 8))
    assert not os.path.lexists("none")
    assert not os.path.lexists("more")


@posix
@pytest.mark.no_cover
def test_commands_take_keys_from_pipes(planned, piped, monkeypatch, capsys):
    monkeypatch.setenv("FITNOISE_PASSPHRASE", PASSPHRASE)
    (private, public), (protected, _) = pair(), pair(PASSPHRASE)
    count = ["count", "plan.json", "people.csv", "-o", "counts", "--json", "--public-key"]
    assert _run([*count, piped(public)]) == 0
    assert json.loads(capsys.readouterr().out)["keys"] == [key_id(read_public_key(public))]
    release = ["release", "plan.json", "counts", "--ledger", "l.db", "-o", "r"]
    assert _run([*release, "--key", piped(protected), "--key", "gone.key"]) == 6
    assert "'gone.key'" in capsys.readouterr().err
    assert _run([*release, "--key", piped(protected), "--key", piped(private)]) == 0
    assert fn.verify("r", ledger="l.db").ok


@pytest.mark.no_cover
def test_making_keys_reads_no_file_and_needs_no_standard_input(planned, monkeypatch, capsys):
    def unexpected(*args, **kwargs):
        raise AssertionError("a file was read")

    monkeypatch.setattr(sys, "stdin", None)
    assert _run(["count", "keys", "none.key", "--protect"]) == 2
    assert "no passphrase" in capsys.readouterr().err
    with monkeypatch.context() as patched:
        patched.setattr(key_files, "_from_file", unexpected)
        assert _run(["count", "keys", "own.key", "--json"]) == 0
    names = json.loads(capsys.readouterr().out)
    assert names["id"] == key_id(read_public_key("own.key.pub"))
    fn.new_keys("protected.key", PASSPHRASE)
    fn.count(planned, "people.csv", "counts", public_key="protected.key.pub")
    assert _run(["release", "plan.json", "counts", "--ledger", "l.db", "-o", "r", "--key", "protected.key"]) == 6
    assert "[data.passphrase-missing]" in capsys.readouterr().err


@pytest.mark.no_cover
def test_keys_on_the_command_line(planned, monkeypatch, capsys, tmp_path):
    prompts = []

    def ask(text, **options):
        prompts.append((text, options))
        return PASSPHRASE

    monkeypatch.setattr(commands.click, "prompt", ask)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False, raising=False)
    assert _run(["count", "keys", "own.key", "--protect"]) == 2
    assert "no passphrase" in capsys.readouterr().err
    assert not list(tmp_path.glob("own.key*"))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    assert _run(["count", "keys", "own.key", "--protect"]) == 0
    text, options = "passphrase of the private key", {"hide_input": True, "err": True}
    assert prompts == [(text, {"confirmation_prompt": True} | options)]
    assert _run(["count", "keys", "old.key", "--json"]) == 0
    names = json.loads(capsys.readouterr().out)
    monkeypatch.setenv("PUBLIC_KEY", (tmp_path / "own.key.pub").read_text())
    count = ["count", "plan.json", "people.csv", "-o", "counts", "--public-key"]
    assert _run([*count, "env:PUBLIC_KEY", "--public-key", "old.key.pub", "--json"]) == 0
    ids = json.loads(capsys.readouterr().out)["keys"]
    assert len(ids) == 2
    assert names["id"] in ids
    release = ["release", "plan.json", "counts", "--ledger", "l.db", "--again", "-o"]
    assert _run([*release, "r0", "--key", "own.key"]) == 0
    assert prompts[1:] == [(text, {"confirmation_prompt": False} | options)]
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False, raising=False)
    assert _run([*release, "r1", "--key", "own.key"]) == 6
    assert "[data.passphrase-missing]" in capsys.readouterr().err
    monkeypatch.setenv("FITNOISE_PASSPHRASE", PASSPHRASE)
    assert _run([*release, "r1", "--key", "own.key", "--json"]) == 0
    monkeypatch.setenv("OWN_KEY", (tmp_path / "own.key").read_text())
    assert _run([*release, "r2", "--key", "gone.key", "--key", "env:OWN_KEY"]) == 6
    assert _run([*release, "r2", "--key", "old.key", "--key", "env:OWN_KEY"]) == 0
    assert len(prompts) == 2
    (tmp_path / "old.key").chmod(0o640)
    if sys.platform != "win32":
        assert _run([*release, "r3", "--key", "old.key"]) == 6
    assert _run([*release, "r3", "--key", "old.key", "--group-readable-key"]) == 0
    output = capsys.readouterr()
    assert PASSPHRASE not in output.out + output.err
    assert (tmp_path / "counts").read_bytes().startswith(SEALED)
