"""Laws about what stands where, each with the number of exceptions that there were when it was made: it may only fall.

Each takes `trees`: for each crate the files of `src` that are no tests, with their code without comments, text and tests.
"""

import re

# Files that start threads, outside of the places for that.
THREAD_FILES_MAX = 8
THREAD_PLACES = re.compile(r"crates/postrider/src/(?:services/|world/|commit_thread)")
# They stand beside the house or measure it.
THREADS_OF_THEIR_OWN = {"lab", "load", "skips"}
THREAD = re.compile(r"\bthread::(?:Builder\b|spawn\b)")

# A draft of a message is made in one place, so that a new field is set in one.
DRAFT = "crates/mta/src/ingress/draft.rs"
MAKES_DRAFT = re.compile(r"(?<!let )(?<!struct )(?<!impl )(?<!for )(?<!-> )\bDraft\s*\{")

SMALL_FILE_LINES = 80
SMALL_FILES_MAX = 130
# A module at the root of a crate is as long as this, or has a folder.
ROOT_MODULE_LINES = 60
SMALL_ROOT_MODULES_MAX = 17

# More than so many types of one name over the workspace: nobody knows which is meant.
SAME_NAME_MAX = 4
SAME_NAMES_ALLOWED = {"Error", "Record", "State", "Text"}
# Types beyond the fourth of their name.
NAMESAKES_MAX = 0
TYPE = re.compile(r"^(?:pub(?:\([^)]*\))?[ \t]+)?(?:struct|enum|trait|type|union)[ \t]+([A-Z]\w*)", re.MULTILINE)
OF_TESTS = re.compile(r"(?:^|/)(?:tests?|testing)/|(?:^|[/_])tests?\.rs$")


def line_of(code, at):
    return code.count("\n", 0, at) + 1


def threads(trees):
    """Only few places start threads: what waits or works beside shards is a service, or a lane of the world."""
    found = [
        name
        for crate, files in trees.items()
        if crate not in THREADS_OF_THEIR_OWN
        for name, code in files.items()
        if THREAD.search(code) and not THREAD_PLACES.match(name) and not OF_TESTS.search(name)
    ]
    if len(found) > THREAD_FILES_MAX:
        what = f"{len(found)} files start threads beside services, world and commit_thread, {THREAD_FILES_MAX} at most"
        yield "crates", 1, f"{what}: {', '.join(found)}"


def drafts(trees):
    for files in trees.values():
        for name, code in files.items():
            for match in MAKES_DRAFT.finditer(code):
                if name != DRAFT:
                    yield name, line_of(code, match.start()), f"a Draft is made in {DRAFT} only"
    if DRAFT in trees.get("mta", {}) and not MAKES_DRAFT.search(trees["mta"][DRAFT]):
        yield DRAFT, 1, "no Draft is made here: who else makes one is not found any more"


def small_files(sizes):
    """`sizes`: the lines of each file of `src` that is no test."""
    small = sorted(name for name, lines in sizes.items() if lines < SMALL_FILE_LINES)
    if len(small) > SMALL_FILES_MAX:
        what = f"{len(small)} files of src under {SMALL_FILE_LINES} lines, {SMALL_FILES_MAX} at most"
        yield "crates", 1, f"{what}: fold one into the file that it belongs to; {', '.join(small)}"


def root_modules(sizes):
    folders = {name.rpartition("/")[0] for name in sizes}
    small = []
    for name, lines in sorted(sizes.items()):
        parts = name.split("/")
        is_module = len(parts) == 4 and parts[3] not in ("lib.rs", "main.rs")
        if is_module and lines < ROOT_MODULE_LINES and name.removesuffix(".rs") not in folders:
            small.append(name)
    if len(small) > SMALL_ROOT_MODULES_MAX:
        what = f"{len(small)} modules at a crate's root under {ROOT_MODULE_LINES} lines and without a folder"
        yield "crates", 1, f"{what}, {SMALL_ROOT_MODULES_MAX} at most: {', '.join(small)}"


def namesakes(trees):
    places = {}
    for files in trees.values():
        for name, code in files.items():
            if not OF_TESTS.search(name):
                for type_name in TYPE.findall(code):
                    places.setdefault(type_name, []).append(name)
    often = {
        name: len(found) - SAME_NAME_MAX
        for name, found in sorted(places.items())
        if len(found) > SAME_NAME_MAX and name not in SAME_NAMES_ALLOWED
    }
    if sum(often.values()) > NAMESAKES_MAX:
        what = f"{sum(often.values())} types beyond the fourth of their name, {NAMESAKES_MAX} at most"
        listed = ", ".join(f"{name} ({over + SAME_NAME_MAX})" for name, over in often.items())
        yield "crates", 1, f"{what}: {listed}"


def breaches(trees, sizes):
    for law in (threads, drafts, namesakes):
        yield from law(trees)
    for law in (small_files, root_modules):
        yield from law(sizes)
