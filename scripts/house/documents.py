"""Files and functions named by documents exist, each name means one file, and each link leads to a file and a heading."""

import os
import pathlib
import re

NAMED = re.compile(r"`([\w.-]+(?:/[\w.-]+)*)`")
# `file.rs` (`function`, `another`), and: `function` in `file.rs`.
FUNCTIONS_OF = re.compile(r"`([\w./-]+\.rs)`\s+\(((?:`\w+!?`(?:,\s+)?)+)\)")
FUNCTION_IN = re.compile(r"(`\w+`)\s+in\s+`([\w./-]+\.rs)`")
# Where a name that begins so leads to, whether it is a file or a folder.
TOPS = ("crates", "docs", "examples", "fuzz", "scripts")
# Made by a run of the fuzzer or of the tests, and in no repository.
MADE = ("fuzz/artifacts", "fuzz/corpus", "fuzz/target", "target/docs")
FENCE = re.compile(r"^\s*```")
LINK = re.compile(r"\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#+\s+(.*)$")
CODE = re.compile(r"`[^`]*`")
# Names of files in a history may be those of its time.
HISTORY = "docs/history/"


def documents(root):
    """All documents, in their order."""
    return [*sorted(root.glob("*.md")), *sorted((root / "docs").rglob("*.md"))]


def short(name):
    """A path as documents may write it: from `crates`, and without `src`."""
    return "/".join(part for part in name.removeprefix("crates/").split("/") if part != "src")


class Tree:
    """The files of a house, by all ends of their paths."""

    def __init__(self, root):
        self.root = root
        self.by_end = {}
        self.names = set()
        for top in TOPS:
            for directory, folders, files in os.walk(root / top):
                folders[:] = [folder for folder in folders if folder not in ("target", "__pycache__")]
                for file in files:
                    self.add((pathlib.Path(directory) / file).relative_to(root).as_posix())

    def add(self, path):
        parts = short(path).split("/")
        self.names.add(parts[-1])
        for start in range(len(parts) - 1):
            self.by_end.setdefault("/".join(parts[start:]), []).append(path)

    def wrong(self, name):
        """What is wrong with a name in a document; `None`: nothing, or it is no file's."""
        first, slash, _ = name.partition("/")
        if "NAME" in name or name.startswith(MADE):
            return None
        if slash and first in TOPS:
            return None if (self.root / name).exists() else "is not there"
        if not name.endswith((".rs", ".md")):
            return None
        if not slash:
            return None if name in self.names or name.endswith(".md") else "is nowhere"
        found = self.by_end.get(short(name), [])
        # The whole path, though longer ones end alike.
        if len(found) == 1 or any(short(path) == short(name) for path in found):
            return None
        return f"may be {' or '.join(sorted(found))}" if found else "is not there"

    def lacks(self, file, names):
        """Those of `names` that a file, named in a document, doesn't define."""
        found = self.by_end.get(short(file), [])
        whole = found if len(found) == 1 else [path for path in found if short(path) == short(file)]
        if len(whole) != 1:
            return
        source = (self.root / whole[0]).read_text(encoding="utf-8")
        for name in names:
            if not re.search(rf"\b(?:fn|struct|enum|trait|type|const|mod|macro_rules!)\s+{name}\b", source):
                yield name


def check_functions(text, tree, breach):
    """`breach` takes the place in `text` and what is wrong there."""
    named = [(match.start(), match.group(1), match.group(2)) for match in FUNCTIONS_OF.finditer(text)]
    named += [(match.start(), match.group(2), match.group(1)) for match in FUNCTION_IN.finditer(text)]
    for at, file, names in named:
        for name in tree.lacks(file, re.findall(r"\w+", names)):
            breach(at, f"{file} has no {name}")


def lines_of_prose(text):
    """(number, line) of each line outside fences."""
    fenced = False
    for number, line in enumerate(text.split("\n"), 1):
        if FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            yield number, line


def anchors(text):
    """Anchors of a document's headings, as GitHub makes them."""
    found, times = set(), {}
    for _, line in lines_of_prose(text):
        if (heading := HEADING.match(line)) is None:
            continue
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.group(1)).replace("`", "")
        anchor = re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")
        count = times.get(anchor, 0)
        times[anchor] = count + 1
        found.add(f"{anchor}-{count}" if count else anchor)
    return found


def check_links(document, text, breach):
    """Each relative link leads to a file, and to a heading if it has an anchor."""
    for number, line in lines_of_prose(text):
        for link in LINK.findall(CODE.sub("", line)):
            if re.match(r"[a-z]+:", link):
                continue
            name, _, anchor = link.partition("#")
            target = document.parent / name if name else document
            if not target.exists():
                breach(number, f"link {link} leads to no file")
            elif anchor and anchor not in anchors(target.read_text(encoding="utf-8")):
                breach(number, f"link {link} leads to no heading")


def check_documents(root, breach):
    """Each file named by a document exists; one that ends like others is named with its crate; links lead somewhere."""
    tree = Tree(root)
    for document in documents(root):
        name_of = document.relative_to(root).as_posix()
        text = document.read_text(encoding="utf-8")
        check_links(document, text, lambda number, what: breach(name_of, number, what))
        if name_of.startswith(HISTORY) or name_of in ("CHANGELOG.md", "README.md"):
            continue
        check_functions(text, tree, lambda at, what: breach(name_of, text.count("\n", 0, at) + 1, what))
        is_code = False
        for number, line in enumerate(text.split("\n"), 1):
            is_code ^= FENCE.match(line) is not None
            if is_code:
                continue
            for name in NAMED.findall(line):
                if (what := tree.wrong(name)) is not None:
                    breach(name_of, number, f"{name} {what}")
