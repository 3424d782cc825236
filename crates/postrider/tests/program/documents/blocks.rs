//! Fenced blocks of `README.md` and of the pages below `docs`.

use std::fs;
use std::path::{Path, PathBuf};

/// The directory that the repository is in.
pub(super) fn root() -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    path.canonicalize().expect("the repository")
}

/// A fenced block.
pub(super) struct Block {
    /// `PAGE:LINE`, for messages.
    pub(super) place: String,
    pub(super) language: String,
    /// Its lines, without the indentation of the fence.
    pub(super) text: String,
}

/// A page, with its blocks of one language.
pub(super) struct Page {
    /// Its path below the root.
    pub(super) name: String,
    pub(super) blocks: Vec<Block>,
}

/// The pages that have blocks of a language, `README.md` first.
pub(super) fn pages(language: &str) -> Vec<Page> {
    let root = root();
    let mut paths = vec![root.join("README.md")];
    add_pages(&root.join("docs"), &mut paths);
    paths.sort();
    let mut pages = Vec::new();
    for path in paths {
        let name = path.strip_prefix(&root).expect("a path below the root").display().to_string();
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut blocks = blocks_of(&name, &text);
        blocks.retain(|block| block.language == language);
        if !blocks.is_empty() {
            pages.push(Page { name, blocks });
        }
    }
    pages
}

fn add_pages(directory: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("the pages") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            add_pages(&path, paths);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            paths.push(path);
        }
    }
}

fn blocks_of(page: &str, text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<(Block, usize)> = None;
    for (index, line) in text.lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let fence = line.trim_start().strip_prefix("```");
        match (&mut open, fence) {
            (None, None) => {}
            (None, Some(language)) => {
                let place = format!("{page}:{}", index + 1);
                let language = language.trim().to_owned();
                open = Some((Block { place, language, text: String::new() }, indent));
            }
            (Some((block, indent)), None) => {
                block.text.push_str(line.get(*indent..).unwrap_or("").trim_end());
                block.text.push('\n');
            }
            (Some(_), Some(_)) => blocks.extend(open.take().map(|(block, _)| block)),
        }
    }
    assert!(open.is_none(), "{page}: a block has no end");
    blocks
}

#[test]
fn blocks_lose_the_indentation_of_their_fence() {
    let text = "a\n\n```sh\none \\\n  more\n```\n- b\n  ```toml\n  [x]\n\n    y = 1\n  ```\n```\nplain\n```\n";
    let blocks = blocks_of("page", text);
    let found: Vec<_> =
        blocks.iter().map(|block| (&*block.place, &*block.language, &*block.text)).collect();
    let expected = [
        ("page:3", "sh", "one \\\n  more\n"),
        ("page:8", "toml", "[x]\n\n  y = 1\n"),
        ("page:13", "", "plain\n"),
    ];
    assert_eq!(found, expected);
}
