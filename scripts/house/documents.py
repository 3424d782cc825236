"""Files that documents name are in the tree, and each name means one file; so are functions named with their file."""

import os
import pathlib
import re

NAMED = re.compile(r"`([\w.-]+(?:/[\w.-]+)*)`")
# `file.rs` (`function`, `another`), and: `function` in `file.rs`.
FUNCTIONS_OF = re.compile(r"`([\w./-]+\.rs)`\s+\(((?:`\w+!?`(?:,\s+)?)+)\)")
FUNCTION_IN = re.compile(r"(`\w+`)\s+in\s+`([\w./-]+\.rs)`")
# Where a name that begins so leads to, whether it is a file or a folder.
TOPS = ("crates", "docs", "examples", "fuzz", "scripts")
# Made by whoever fuzzes, and in no repository.
MADE = ("fuzz/artifacts", "fuzz/corpus", "fuzz/target")
FENCE = re.compile(r"^\s*```")


def documents(root):
    """Those whose names of files are checked."""
    return [root / "ARCHITECTURE.md", root / "CONTRIBUTING.md", *sorted((root / "docs").glob("*.md"))]


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


def check_documents(root, breach):
    """Each file that a document names is there; one that ends like others is named with its crate."""
    tree = Tree(root)
    for document in documents(root):
        if not document.exists():
            continue
        name_of = document.relative_to(root).as_posix()
        text = document.read_text(encoding="utf-8")
        check_functions(text, tree, lambda at, what: breach(name_of, text.count("\n", 0, at) + 1, what))
        is_code = False
        for number, line in enumerate(text.split("\n"), 1):
            is_code ^= FENCE.match(line) is not None
            if is_code:
                continue
            for name in NAMED.findall(line):
                if (what := tree.wrong(name)) is not None:
                    breach(name_of, number, f"{name} {what}")
