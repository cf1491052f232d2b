"""Laws of the catalogues: each language has the same ids with the same parameters, and the program uses every id."""

import ast
import re
from functools import cache

import jinja2
import pytest

from fitnoise import messages
from refused import refused
from rooms import product_files

WORDS_OF_TEMPLATES = {"doctype", "html", "fitnoise", "studio", "plan", "spec", "toml", "verify", "plans", "json"}
WORDS_OF_TEMPLATES |= {"schema", "DIR", "LaTeX", "report", "ask", "SHA", "nbsp", "new", "write"}
"""Words that a template may write itself: commands, names of files and of programs."""

TEMPLATES = jinja2.Environment(autoescape=True)


@cache
def sources(ending):
    """Return the texts of the files of the product with an ending of their names, by path."""
    return {path: path.read_text(encoding="utf-8") for path in product_files(ending)}


def parameters(text):
    """Return the names in the braces of a text."""
    return set(re.findall(r"\{(\w+)\}", text))


UNREVIEWED = "page.language.unreviewed"
"""The id that only languages have whose texts a machine translated, without a review."""

NOT_IN_REPORTS = (
    *("terminal.", "studio.", "page.figure."),
    *("report.claim.", "report.finding.", "report.fault.", "report.unchecked."),  # verification
    *("report.entry.", "report.balance.", "report.ledger.", "report.more.", "report.together.", "report.charged."),
    *("report.heading.", "report.receipt.", "report.periods.", "report.intervals.", "report.microdata."),
    *("report.comparison.", "report.unsuitable.", "report.finite.", "report.settings.", "report.demo."),
    *(
        "report.column.mean_",
        "report.noise.",
        "report.statistic.",
        "report.target.",
        "report.universe.",
    ),  # release.json
    *("report.price.", "report.counted.", "report.label.all_places", "report.label.composed_plan"),
    *("report.label.uniform_guess", "report.protected.cap", "report.protected.spent", "report.given.condition"),
    *("report.given.certificate", "report.given.estimate", "report.given.nothing"),
    *("report.combined.estimate", "report.combined.improved"),
    *("report.integers.biased", "report.integers.proof", "report.integers.reach", "report.integers.simulated"),
    *("report.integers.table", "report.series.entr", "report.records.assumed", "report.records.chosen"),
    *("report.records.counted", "report.records.draws", "report.records.enforced", "report.records.left_out"),
    *("report.records.shares", "report.records.unknown", "report.supersedes.chain", "report.public.confirmed"),
    *("report.sampling.", "report.proposal."),
)
"""The beginnings of ids that no page or export shows: the terminal, the studio and documents do."""

SECTIONS_OF_REPORTS = {
    *("account", "amounts", "budgets", "cap", "comparison", "composed", "counted", "database", "means", "objective"),
    *(
        "part",
        "precision",
        "price",
        "profile",
        "proof",
        "public",
        "records",
        "series",
        "targets",
        "unbiased",
        "units",
        "universal",
        "unused",
    ),
    "values",
}
"""The titles of the sections of a plan's report."""


def is_in_reports(text_id):
    """Return True if a page or an export can have a text."""
    text_id = text_id.removeprefix(messages.PEOPLE)
    if text_id.startswith("report.section."):
        return text_id.removeprefix("report.section.") in SECTIONS_OF_REPORTS
    return not text_id.startswith(NOT_IN_REPORTS)


@pytest.mark.parametrize("language", messages.LANGUAGES)
def test_languages_have_equal_ids_and_parameters(language):
    english, texts = messages.catalogue("en"), messages.catalogue(language)
    complete = language in messages.COMPLETE_LANGUAGES
    # An error has its English sentences in the code (tests/test_studio_errors.py).
    of_errors = {x for x in texts if x.startswith("error.")} if complete else set()
    assert texts.keys() - {UNREVIEWED} - of_errors == {x for x in english if complete or is_in_reports(x)}
    for text_id, text in texts.items():
        assert text.strip(), text_id
        assert text_id in of_errors or parameters(text) == parameters(english.get(text_id, "")), text_id


def test_languages_without_a_reviewer_say_so():
    unreviewed = {x for x in messages.LANGUAGES if messages.translator(x).unreviewed}
    assert unreviewed == {"es", "fr", "it"}
    assert all(UNREVIEWED in messages.catalogue(x) for x in unreviewed)


def test_other_messages_have_their_english_text():
    text_id = "studio.tables.confidence"
    assert messages.translator("fr").texts[text_id] == messages.catalogue("en")[text_id]


def test_other_languages_are_refused():
    for codes in (messages.LANGUAGES, messages.COMPLETE_LANGUAGES):
        with refused("release.unknown-language") as caught:
            messages.check_language("pt", codes)
        assert f"Choose {in_words(codes)}." in str(caught.value)


def in_words(codes):
    """Return codes of languages as a sentence has them."""
    return f"{', '.join(codes[:-1])} or {codes[-1]}"


def test_every_id_is_in_use():
    text = "".join([*sources(".py").values(), *sources(".html").values()])
    used = {*re.findall(r"""["']((?:page|studio|report|terminal)\.[a-z_.]+)["']""", text)}
    assert not {x.removeprefix(messages.PEOPLE) for x in messages.catalogue("en")} - used


@pytest.mark.parametrize("language", messages.LANGUAGES)
def test_texts_for_people_replace_texts_for_records(language):
    """Each replaces a text, names its values and speaks of something else; no other text changes."""
    records, people = (messages.translator(language, people=x).texts for x in (False, True))
    replaced = {x.removeprefix(messages.PEOPLE) for x in records if x.startswith(messages.PEOPLE)}
    assert len(replaced) > 30
    assert {x for x in records if records[x] != people[x]} == replaced
    assert all(parameters(records[x]) == parameters(people[x]) for x in replaced)


def test_every_message_has_a_text():
    """Also the message of a plan that no request of the tests makes: ids are written out, never joined."""
    ids = r'"((?:report|terminal)\.[a-z_]+\.[a-z_]+)"'
    ids_in_source = {x for text in sources(".py").values() for x in re.findall(ids, text)}
    assert ids_in_source == {
        text_id for text_id in messages.catalogue("en") if text_id.startswith(("report.", "terminal."))
    }


def test_messages_are_not_made_of_texts():
    """An id is a text that is written out, or a variable: no id is put together, and no text is a message."""
    calls = 0
    for path, text in sources(".py").items():
        for call in ast.walk(ast.parse(text)):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") in ("Message", "status_message"):
                calls += 1
                text_id = call.args[0]
                parts = (ast.Name, ast.Attribute, ast.Constant, ast.IfExp, ast.Subscript, ast.Call)
                assert isinstance(text_id, parts), (path.name, ast.unparse(call))
                assert not [x for x in ast.walk(text_id) if isinstance(x, ast.JoinedStr | ast.BinOp)], path.name
    assert calls > 300


def test_sections_hold_messages_and_no_texts():
    """A section has no text of its own: what it says is a message, and so are its title and its headings."""
    for path, text in sources(".py").items():
        for call in ast.walk(ast.parse(text)):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Section":
                assert not any(isinstance(x, ast.Constant) and x.value is not None for x in call.args[:2]), path.name
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "ReportColumn":
                heading = call.args[1] if len(call.args) > 1 else None
                assert not isinstance(heading, ast.Constant) or heading.value in ("", None), path.name


def calls_of_templates():
    """Yield the constant ids of texts in templates, with the names of their values."""
    for text in sources(".html").values():
        for call in TEMPLATES.parse(text).find_all(jinja2.nodes.Call):
            if isinstance(call.node, jinja2.nodes.Name) and call.node.name == "t":
                (text_id,) = call.args
                if isinstance(text_id, jinja2.nodes.Const):
                    yield text_id.value, {pair.key for pair in call.kwargs}


def calls_of_modules():
    """Yield the constant ids of texts in modules, with the names of their values."""
    for text in sources(".py").values():
        for call in ast.walk(ast.parse(text)):
            function = call.func if isinstance(call, ast.Call) else None
            if getattr(function, "attr", getattr(function, "id", "")) not in ("translate", "_text"):
                continue
            text_id = call.args[0]
            if isinstance(text_id, ast.Constant) and isinstance(text_id.value, str):
                yield text_id.value, {keyword.arg for keyword in call.keywords}


@pytest.mark.parametrize("calls", [calls_of_templates, calls_of_modules])
def test_texts_receive_exactly_the_values_that_they_name(calls):
    pairs = [*calls()]
    assert len(pairs) > 30
    for text_id, names in pairs:
        assert names == parameters(messages.catalogue("en")[text_id]), text_id


def test_templates_have_no_words_of_their_own():
    for path, text in sources(".html").items():
        tokens = TEMPLATES.lex(text)
        constant = "".join(value for _, kind, value in tokens if kind == "data")
        visible = re.sub(r' [\w-]+="[^"]*"|<[^<>]*>', " ", constant)
        assert {*re.findall(r"[A-Za-zÄÖÜäöüß]{2,}", visible)} <= WORDS_OF_TEMPLATES, path.name


LINE_FUNCTIONS = {"say", "say_line", "emit", "echo", "secho", "print", "progress", "notice"}
LINE_FUNCTIONS |= {"report_progress", "report_stage", "report_step", "stage_notice", "sentence_notice"}
"""The functions that show a line or a stage in the terminal, by the names that modules give them."""


def called_name(call):
    """Return the name of a called function, without the object that has it."""
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def constant_texts(node):
    """Return the texts with letters in an expression, except those in calls: ids and values are not sentences."""
    if isinstance(node, ast.Call):
        return []
    if isinstance(node, ast.FormattedValue):  # its format is no text
        return constant_texts(node.value)
    texts = [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []
    inner = [text for child in ast.iter_child_nodes(node) for text in constant_texts(child)]
    return [text for text in texts if re.search("[^\\W\\d_]", text)] + inner


def lines_with_texts(source):
    """Return the calls in a module that show a text of the module itself."""
    calls = (x for x in ast.walk(ast.parse(source)) if isinstance(x, ast.Call) and called_name(x) in LINE_FUNCTIONS)
    return [ast.unparse(x) for x in calls if any(map(constant_texts, x.args))]


@pytest.mark.parametrize(
    "call",
    [
        'say("one line")',
        'emit(f"wrote {file}")',
        'click.echo("done" if ok else line)',
        'say("no " + line)',
        'progress("planning")',
        'report_progress(f"step {i}")',
    ],
)
def test_the_law_of_lines_finds_texts(call):
    assert lines_with_texts(call) == [ast.unparse(ast.parse(call))]


def test_lines_of_the_terminal_are_messages():
    calls = 0
    for path, text in sources(".py").items():
        if "interfaces" in path.parts:
            assert not lines_with_texts(text), path.name
            calls += sum(called_name(x) in LINE_FUNCTIONS for x in ast.walk(ast.parse(text)) if isinstance(x, ast.Call))
    assert calls > 60


def test_functions_give_terminal_messages_the_values_that_they_name():
    """Each function that makes a message of the terminal also makes the values of its text, under the same keys.

    Or it gives them as keywords, in the call that names the text.
    """
    checked = set()
    for path, text in sources(".py").items():
        for function in (x for x in ast.walk(ast.parse(text)) if isinstance(x, ast.FunctionDef)):
            calls = [x for x in ast.walk(function) if isinstance(x, ast.Call)]
            value_keys = [x.args[0] for x in calls if called_name(x) == "Value"]
            keys = {x.value for x in value_keys if isinstance(x, ast.Constant)}
            naming = [x for x in calls if any(s.startswith("terminal.") for a in x.args for s in constant_texts(a))]
            keys |= {k.arg for x in naming for k in x.keywords}
            texts = {x.value for x in ast.walk(function) if isinstance(x, ast.Constant) and isinstance(x.value, str)}
            for text_id in {x for x in texts if x.startswith("terminal.")}:
                checked.add(text_id)
                assert parameters(messages.catalogue("en")[text_id]) <= keys, (path.name, function.name, text_id)
    assert checked == {text_id for text_id in messages.catalogue("en") if text_id.startswith("terminal.")}
