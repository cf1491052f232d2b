"""Imports point only down the table of packages, the kernel imports nothing from outside, and only its noise draws.

Engines read records, so they import only the kernel, without the modules that price, charge or draw.
"""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from conftest import KERNEL
from rooms import FITNOISE, PACKAGES, imported_module, module_name, product_files

ROOT = Path(__file__).parents[1]

MEASURING = {"engines", "kernel.counting", "kernel.noise", "kernel.measure", "kernel.series"}
"""Modules that see records, or draw noise."""

ONLY_IMPORTS = {"kernel": {"kernel", "errors"}, "engines": {"engines", "kernel", "errors"}}
"""Packages that import only these."""

FORBIDDEN = {
    "planning": {"kernel.ledger", *MEASURING},  # a plan is made without data
    "mechanisms": {"kernel.ledger", *MEASURING},
    "solving": {"request.publication", "kernel.ledger", *MEASURING},
    "solving.certificates": {"algebra.backends", "solving.problems"},  # shares no code with the solvers
    "reading": {"kernel.ledger", *MEASURING},  # readers cannot measure
    "engines": {  # they know no plan, so that no cell of a record depends on one
        "kernel.designs",
        "kernel.ledger",
        "kernel.measure",
        "kernel.noise",
        "kernel.order",
        "kernel.series",
    },
    "mechanisms.projection.regions": {"kernel.designs", "solving", "request"},  # for any noise
    "studio": MEASURING,  # it does what commands do
    "kernel.profiles": {"kernel"},  # arithmetic, and knows nothing else
}
"""Walls inside the table: for a room, or a file, what it may not import although it stands below."""

EXCEPTIONS = {("interfaces.commands", "studio.serve")}  # the command that starts the studio
"""Imports that break a law. The list may only shrink."""

KINDS = {
    "interfaces.commands": 1,  # settings of small databases are compared, not noises; a search says how far it is
    "interfaces.reports.costs": 1,  # a cost is stated as ρ, or as ε alone
    "mechanisms._base": 1,  # which mechanism a request asks for, if it says no more than what is promised
    "mechanisms.tables": 3,  # a setting exists exactly for a small database (and in its document)
    "planning.comparison": 2,  # "auto" is planned by comparing, and small databases are not compared
    "planning.plan": 2,  # the parts for tables, and those for questions
    "reading.description": 1,  # release.json says pure ε only where there is one, as it always did
}
"""The number of lines in each module that distinguish kinds of plans, parts or requests, with the reason.

Mechanisms ask of what is theirs, and `request` checks what users say together; others should not need to know.
"""

DISTINCTIONS = re.compile(
    r"(exact_epsilon|loss\.epsilon|exact|\.small_database|small|\.setting|setting) is (not )?None"
    r"|privacy (is|is not|==) Privacy"
    r"|isinstance\([^()]*(\([^()]*\))?[^()]*(Part|Strategy|Mechanism)\b"
    r"|mechanism(\.name)? (is|is not|==|!=|in|not in) [\"'A-Z({\[]"
)

CLASS_QUESTIONS = {
    ("Attribute", "mechanisms"): 1,
    ("Attribute", "planning"): 1,
    ("Attribute", "reading"): 4,
    ("Attribute", "request"): 5,
    ("Counter", "engines"): 1,
    ("DerivedTables", "interfaces"): 6,
    ("DerivedTables", "reading"): 4,
    ("Design", "kernel"): 3,
    ("Design", "mechanisms"): 4,
    ("Design", "solving"): 2,
    ("LabelledNumbers", "reading"): 11,
    ("Operator", "algebra"): 1,
    ("Operator", "laboratory"): 2,
    ("Operator", "mechanisms"): 4,
    ("Operator", "reading"): 2,
    ("Operator", "request"): 2,
    ("Operator", "solving"): 55,
    ("PlanPart", "planning"): 2,
    ("QuestionMixin", "interfaces"): 2,
    ("QuestionMixin", "reading"): 2,
    ("View", "reading"): 5,
    ("View", "request"): 2,
    ("Witness", "mechanisms"): 1,
    ("_KyFanProblem", "solving"): 1,
}
"""For each abstract class and package, the tests of the class of an object. A number may only fall.

Counted are `isinstance`, `issubclass`, `type(x) is`, `match` on a class, comparisons with `EACH` or a new object, and
dictionaries with classes as keys. A new abstract class is counted from the start.
"""

OF_THE_PROCESS = re.compile(
    r"logging\.(disable|basicConfig|captureWarnings|setLoggerClass|setLogRecordFactory|addLevelName)"
    r"|(.*\.)?(setLogLevel|setLevel|addHandler|removeHandler|addFilter|removeFilter|getLogger)"
    r"|warnings\.\w+|(simple|filter)warnings|catch_warnings"
    r"|locale\.\w+|setlocale|os\.(environ\.(update|pop|popitem|setdefault|clear)|putenv|unsetenv|umask|chdir|fchdir|dup2|nice|setsid|register_at_fork)"
    r"|signal\.\w+|sys\.(set\w+|path\.\w+|modules\.\w+|excepthook|displayhook|addaudithook)|(decimal\.)?setcontext"
    r"|np\.(seterr\w*|set_printoptions|setbufsize)|(np\.)?random\.\w+|time\.tzset|socket\.setdefaulttimeout"
    r"|resource\.\w+|faulthandler\.\w+|gc\.\w+|atexit\.\w+|tracemalloc\.\w+|\w+\.set_start_method"
    r"|(pd|pandas|pl|polars)\.(set_option|options\.\w+|Config\w*(\.\w+)*|reset_option)|threadpool_limits|_libraries\(\)\.limit"
    r"|duckdb\.(sql|query|execute|read_\w+|from_\w+|set_default_connection|default_connection|register\w*)"
    r"|(sa\.|sqlalchemy\.)?event\.\w+|listens_for|sqlite3\.(register_\w+|enable_callback_tracebacks)"
    r"|(plt|pyplot|matplotlib)\.\w+|rcParams\.\w+|rc_context|style\.\w+|torch\.(set_\w+|use_\w+|manual_seed)"
    r"|mimetypes\.\w+|codecs\.register\w*|copyreg\.\w+|csv\.(field_size_limit|register_dialect)"
)
"""Calls that change, or may change, what others in the process see."""

ASSIGNED = re.compile(
    r"(sys|os|logging|warnings|signal|locale|decimal|np|duckdb|pd|pl|plt|matplotlib|torch)\.\S+|\S*(environ|rcParams)\[.*"
)
"""Assignments that do."""

ALLOWED = {
    ("algebra.backends", "_libraries().limit"): "the first thread within sets it, and the last puts it back, by a lock",
    ("planning.comparison", "logging.getLogger"): "the logger of its own package, without a level or a handler",
    ("publishing", "logging.getLogger"): "likewise",
    ("interfaces.streams", "os.dup2"): "the command is the process, and it ends",
    ("interfaces.cli", "signal.getsignal"): "looks, and changes nothing",
    ("interfaces.cli", "signal.signal"): "the command is the process; in its main thread, and put back",
    ("interfaces.plots", "style.context"): "Matplotlib has settings of the process only: a lock separates threads",
    ("studio.planner", "os.dup2"): "a process of its own, whose lines others read",
    ("studio.serve", "signal.signal"): "the command is the process; in its main thread, and put back",
    ("engines.spark", "PySparkLogger.getLogger"): "PySpark's own loggers alone",
    (
        "engines.spark",
        "PySparkLogger.getLogger(name).addFilter",
    ): "passes all messages except those of counting",
    ("reading.expressions", "warnings.catch_warnings"): "Python's parser warns of a text; a lock separates threads",
    ("reading.expressions", "warnings.simplefilter"): "within the same lock, and put back",
}
"""Allowed uses of these, each with the reason that makes it safe. The list may only shrink."""

CIRCLES = [{"mechanisms._base", "mechanisms.tables"}]  # a part has aspects, and each aspect has its part
"""Modules that import one another, where imports for types count. The list may only shrink."""

BY_POSITION = 7
"""Most arguments of a call that are not named."""

FILES = {module_name(p): p for p in product_files(".py") if module_name(p) not in ("", "__main__")}


@cache
def nodes(path):
    """Return all nodes of the syntax tree of a file."""
    return list(ast.walk(ast.parse(path.read_text())))


def for_types(path):
    """Imports that only a type checker reads."""
    blocks = [n for n in nodes(path) if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"]
    return {id(node) for block in blocks for node in ast.walk(block)}


def imports(path, *, loaded=False):
    """The files of the package that one imports, by name; or only those that are loaded."""
    left_out = for_types(path) if loaded else ()
    for node in nodes(path):
        if id(node) in left_out:
            continue
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} uses a relative import"
            if node.module == "fitnoise":
                yield from (a.name for a in node.names if a.name != "__version__")
            elif room := imported_module(node.module):
                inner = {f"{room}.{a.name}" for a in node.names} & set(FILES)
                yield from inner
                if len(inner) < len(node.names):
                    yield room
        elif isinstance(node, ast.Import):
            names = [a.name for a in node.names]
            assert "fitnoise" not in names, f"{path.name} imports all packages: their names are loaded when used"
            yield from filter(None, map(imported_module, names))


@cache
def import_graph(*, loaded=False):
    """Return for each file those that it imports, or only those that are loaded."""
    return {
        name: sorted({used for used in imports(path, loaded=loaded) if used in FILES}) for name, path in FILES.items()
    }


def under(name, room):
    return name == room or name.startswith(room + ".")


def in_folder_of_mechanism(name):
    """Return True if a module belongs to one mechanism."""
    return under(name, "mechanisms") and FILES[name].parent != FITNOISE / "mechanisms"


def broken(name, used):
    """Return True if a law forbids this import."""
    floor, other = name.split(".")[0], used.split(".")[0]
    if other not in PACKAGES or PACKAGES.index(other) > PACKAGES.index(floor):
        return True
    if other not in ONLY_IMPORTS.get(floor, PACKAGES):
        return True
    walls = [wall for room, forbidden in FORBIDDEN.items() if under(name, room) for wall in forbidden]
    return any(under(used, wall) for wall in walls)


def test_every_room_is_in_the_table():
    assert {name.split(".")[0] for name in FILES} == set(PACKAGES)


def paths_in_tree():
    """Return the paths in the tree of CONTRIBUTING.md, from top to bottom."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8").split("```text\n")[2].partition("```")[0]
    above, paths = [], []
    for line in text.splitlines():
        above[(len(line) - len(line.lstrip())) // 4 :] = [line.split()[0]]
        paths.append("".join(above))
    return paths


def test_the_tree_in_contributing_has_every_folder_in_the_order_of_imports():
    tree = paths_in_tree()
    folders = {f"{path.parent.relative_to(ROOT).as_posix()}/" for path in FITNOISE.rglob("*.py")}
    modules = {path.relative_to(ROOT).as_posix() for path in FITNOISE.glob("[a-z]*.py")}
    assert sorted(x for x in tree if x.startswith("src/fitnoise/")) == sorted(folders | modules)
    assert [x for x in tree if not (ROOT / x).exists()] == []
    packages = [re.fullmatch(r"src/fitnoise/(\w+)(\.py|/)", x) for x in tree]
    assert [x[1] for x in packages if x] == [x for x in PACKAGES if x not in ("studio", "laboratory")]


@pytest.mark.parametrize("name", FILES)
def test_imports_keep_the_laws(name):
    wrong = {(name, used) for used in imports(FILES[name]) if broken(name, used)}
    assert wrong == {(a, b) for a, b in EXCEPTIONS if a == name}


def test_only_engines_load_a_package_by_its_name():
    """Detects an import that the laws do not see."""
    loaded = {
        name: re.findall(r"(?:import_module|__import__)\((.*?)\)", path.read_text()) for name, path in FILES.items()
    }
    assert {name: calls for name, calls in loaded.items() if calls} == {
        "engines.statistical": loaded["engines.statistical"],
    }
    assert not [x for x in loaded["engines.statistical"] if "fitnoise" in x]


def test_no_file_imports_itself_through_others():
    """Detects a circle of imports, which only the order of loading would hide."""
    graph = import_graph(loaded=True)
    done: set[str] = set()

    def visit(name, above):
        assert name not in above, " → ".join([*above[above.index(name) :], name])
        if name not in done:
            for used in graph[name]:
                visit(used, [*above, name])
            done.add(name)

    for name in graph:
        visit(name, [])


def used_by(names):
    """Return the files that these files import, directly or through others, where imports for types count."""
    seen, new = set(), set(names)
    while new:
        new = {used for name in new for used in import_graph()[name]} - seen
        seen |= new
    return seen


def test_few_files_import_one_another():
    """Detects two files that cannot be read one after the other, also where only a type checker loads both."""
    reach = {name: used_by([name]) for name in FILES}
    circles = {frozenset(x for x in reach[name] if name in reach[x]) for name in FILES if name in reach[name]}
    assert circles == {frozenset(circle) for circle in CIRCLES}


def test_only_the_registry_knows_the_folders_of_mechanisms():
    """Detects code of one mechanism in the modules that all mechanisms share."""
    shared = [name for name in FILES if under(name, "mechanisms") and not in_folder_of_mechanism(name)]
    importing = {name for name in shared if any(map(in_folder_of_mechanism, import_graph()[name]))}
    assert importing == {"mechanisms.registry"}


@pytest.mark.parametrize("room", ["planning", "mechanisms", "solving", "reading", "engines"])
def test_walls_hold_for_what_is_reached_through_others(room):
    names = {name for name in FILES if under(name, room)}
    assert not {name for name in names | used_by(names) for wall in FORBIDDEN[room] if under(name, wall)}


def test_only_noise_draws_randomness():
    """`secrets` names temporary folders and salts charges; nothing else may reach for randomness. OpenDP is there to
    compare with, and to be given plans.
    """
    for name, path in FILES.items():
        names = {a.name for n in nodes(path) if isinstance(n, ast.Import) for a in n.names}
        names |= {n.module for n in nodes(path) if isinstance(n, ast.ImportFrom) and n.module}
        assert not names & {"random", "numpy.random"}
        assert "random" not in {n.attr for n in nodes(path) if isinstance(n, ast.Attribute)}
        if any(n.startswith("opendp") for n in names):
            assert name in {"laboratory.reference_samplers", "opendp"}


def test_few_ask_of_which_kind_a_plan_is():
    """Detects a distinction between mechanisms outside their own folders; the table may only shrink."""
    rooms = ("planning", "reading", "publishing", "interfaces", "studio", "mechanisms")
    counts = {}
    for name, path in FILES.items():
        if any(under(name, r) for r in rooms) and not in_folder_of_mechanism(name):
            tree = ast.parse(path.read_text())
            for text in (n for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)):
                text.value = ""
            if lines := [x for x in ast.unparse(tree).splitlines() if DISTINCTIONS.search(x)]:
                counts[name] = len(lines)
    assert counts == KINDS


def last_name(node):
    """Return the last part of a dotted name; empty for all else."""
    if isinstance(node, ast.Subscript):
        return last_name(node.value)
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def roots(trees):
    """Return, for each class under an abstract class, the highest such class; an abstract class has the base ABC."""
    bases = {}
    for node in (n for tree in trees for n in ast.walk(tree) if isinstance(n, ast.ClassDef)):
        bases.setdefault(node.name, set()).update(last_name(base) for base in node.bases)

    def root(name, below=()):
        if name in below or name not in bases:
            return None
        inherited = [x for base in sorted(bases[name]) if (x := root(base, (*below, name)))]
        return inherited[0] if inherited else name if "ABC" in bases[name] else None

    return {name: inherited for name in bases if (inherited := root(name))}


def compared_classes(node):
    """Return the names of the classes that a node compares an object with, or looks its class up in."""
    compared = []
    if isinstance(node, ast.Call) and last_name(node.func) in ("isinstance", "issubclass") and len(node.args) == 2:
        compared = [node.args[1]]
    elif isinstance(node, ast.Compare) and isinstance(node.left, ast.Call) and last_name(node.left.func) == "type":
        compared = node.comparators
    elif isinstance(node, ast.Compare):
        sides = [y for x in (node.left, *node.comparators) for y in getattr(x, "elts", [x])]
        built = {last_name(x.func) for x in sides if isinstance(x, ast.Call)}
        return built | {"EachValue" for x in sides if last_name(x) == "EACH"}
    elif isinstance(node, ast.MatchClass):
        compared = [node.cls]
    elif isinstance(node, ast.Dict):
        return {last_name(x) for x in node.keys}
    return {last_name(x) for y in compared for x in ast.walk(y)}


def count_questions(trees):
    """Return the number of tests of an object's class, by abstract class and package."""
    root = roots(trees.values())
    counts = {}
    for name, tree in trees.items():
        for node in ast.walk(tree):
            for compared in {root[x] for x in compared_classes(node) if x in root}:
                key = compared, name.split(".")[0]
                counts[key] = counts.get(key, 0) + 1
    return counts


def test_code_asks_an_object_instead_of_testing_its_class():
    """Detects a new test of the class of an object, for all abstract classes of the package."""
    assert count_questions({name: ast.parse(path.read_text()) for name, path in FILES.items()}) == CLASS_QUESTIONS


@pytest.mark.parametrize(
    ("question", "count"),
    [
        ("isinstance(x, Dog)", 1),
        ("isinstance(x, (int, zoo.Dog, Cat))", 1),
        ("isinstance(x, Dog | None)", 1),
        ("issubclass(x, Animal)", 1),
        ("type(x) is Dog", 1),
        ("type(x) in (Dog, Cat)", 1),
        ("x is EACH", 1),
        ("x is not EACH", 1),
        ("x in (EACH, Cat())", 1),
        ("x == Cat()", 1),
        ("{Dog: 1, Cat: 2}[type(x)]", 1),
        ("match x:\n    case Dog():\n        pass\n    case Cat(name=1):\n        pass", 2),
        ("isinstance(x, int)", 0),
        ("len(x) == Dog", 0),
    ],
)
def test_a_test_of_the_class_of_an_object_is_counted(question, count):
    classes = "class Animal(abc.ABC): ...\nclass Pet(Animal): ...\nclass Dog(Pet): ...\nclass Cat(Animal): ...\n"
    trees = {"a.b": ast.parse(classes + "class EachValue(Animal): ...\n" + question)}
    assert count_questions(trees) == ({("Animal", "a"): count} if count else {})


def test_calls_name_what_they_give_where_it_is_much():
    for name, path in FILES.items():
        calls = [n for n in nodes(path) if isinstance(n, ast.Call)]
        much = [ast.unparse(n.func) for n in calls if len(n.args) > BY_POSITION]
        assert not much, f"{name}: {much}"


def test_nobody_changes_what_others_in_the_process_see():
    """Detects settings of the process that two threads could put back for each other, and loggers that are silenced."""
    changes = set()
    for name, path in FILES.items():
        for node in nodes(path):
            if isinstance(node, ast.Call) and OF_THE_PROCESS.fullmatch(function := ast.unparse(node.func)):
                changes.add((name, function))
            targets = node.targets if isinstance(node, ast.Assign | ast.Delete) else []
            changes |= {(name, x) for t in targets if ASSIGNED.fullmatch(x := ast.unparse(t))}
    assert changes == set(ALLOWED)


def test_the_files_that_are_traced_exist():
    """A name of before would leave branches of the kernel untraced."""
    assert {path.stem for path in Path(__file__).parent.glob("test_*.py")} >= KERNEL
