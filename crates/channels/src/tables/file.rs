//! Tables in text files, in Postfix's formats.

use super::LocalTable;
use config::{Reader, TableSection, TableSettings};
use lookup::{
    CidrTable, Judge, PatternSyntax, PatternTable, RULES_BYTES_MAX, TEXT_BYTES_MAX, Table,
    TableFileError, TextTable,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A text file with a key, white space and a value on each line: the source of Postfix's `texthash`, `hash`, `virtual`,
/// `transport` and `access` tables, before `postmap`. Keys are case-insensitive. A changed file is read again. At most
/// 256 MiB.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub(crate) struct FileText {
    /// The file. Required.
    path: String,
}

/// A file of networks with values, in the format of Postfix's `cidr` tables. The first match wins. A changed file is
/// read again. At most 16 MiB.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub(crate) struct CidrText {
    /// The file. Required.
    path: String,
}

/// A file of POSIX regular expressions with values, in the format of Postfix's `regexp` tables. The first match wins.
/// Only whole addresses are looked up. A changed file is read again. At most 16 MiB.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub(crate) struct RegexpText {
    /// The file. Required.
    path: String,
}

/// A file of Perl-compatible regular expressions with values, in the format of Postfix's `pcre` tables, without
/// back-references and look-around. The first match wins. Only whole addresses are looked up. A changed file is read
/// again. At most 16 MiB.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub(crate) struct PcreText {
    /// The file. Required.
    path: String,
}

impl TableSection for FileText {
    const KEY: &'static str = "file";
    const SUMMARY: &'static str =
        "A file with a key and a value on each line, in the format of Postfix.";
    const EXAMPLE: &'static str = "file = { path = \"/etc/postfix/virtual\" }";
    const IS_REMOTE: bool = false;
    type Text = FileText;

    fn read(text: FileText, reader: &mut Reader<'_, '_>) -> Option<Arc<dyn TableSettings>> {
        MapFile::read(text.path, Format::Text, reader)
    }
}

impl TableSection for CidrText {
    const KEY: &'static str = "cidr";
    const SUMMARY: &'static str = "A file of networks.";
    const EXAMPLE: &'static str = "cidr = { path = \"/etc/postfix/clients.cidr\" }";
    const IS_REMOTE: bool = false;
    type Text = CidrText;

    fn read(text: CidrText, reader: &mut Reader<'_, '_>) -> Option<Arc<dyn TableSettings>> {
        MapFile::read(text.path, Format::Cidr, reader)
    }
}

impl TableSection for RegexpText {
    const KEY: &'static str = "regexp";
    const SUMMARY: &'static str = "A file of POSIX regular expressions.";
    const EXAMPLE: &'static str = "regexp = { path = \"/etc/postfix/recipients.regexp\" }";
    const IS_REMOTE: bool = false;
    type Text = RegexpText;

    fn read(text: RegexpText, reader: &mut Reader<'_, '_>) -> Option<Arc<dyn TableSettings>> {
        MapFile::read(text.path, Format::Pattern(PatternSyntax::Posix), reader)
    }
}

impl TableSection for PcreText {
    const KEY: &'static str = "pcre";
    const SUMMARY: &'static str = "A file of Perl's regular expressions.";
    const EXAMPLE: &'static str = "pcre = { path = \"/etc/postfix/recipients.pcre\" }";
    const IS_REMOTE: bool = false;
    type Text = PcreText;

    fn read(text: PcreText, reader: &mut Reader<'_, '_>) -> Option<Arc<dyn TableSettings>> {
        MapFile::read(text.path, Format::Pattern(PatternSyntax::Perl), reader)
    }
}

/// A file and its format.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MapFile {
    path: PathBuf,
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Text,
    Cidr,
    Pattern(PatternSyntax),
}

impl MapFile {
    fn read(
        path: String,
        format: Format,
        reader: &mut Reader<'_, '_>,
    ) -> Option<Arc<dyn TableSettings>> {
        if path.is_empty() {
            reader.error(
                "",
                "a table without `path`",
                "for example path = \"/etc/postrider/users\"",
            );
            return None;
        }
        let path = reader.file_path("path", &path);
        Some(Arc::new(MapFile { path, format }))
    }
}

impl TableSettings for MapFile {
    fn has_patterns(&self) -> bool {
        self.format != Format::Text
    }

    fn is_like(&self, other: &dyn TableSettings) -> bool {
        other.of::<MapFile>() == Some(self)
    }
}

impl LocalTable for MapFile {
    fn path(&self) -> Option<&Path> {
        Some(&self.path)
    }

    fn file_bytes_max(&self) -> usize {
        match self.format {
            Format::Text => TEXT_BYTES_MAX,
            Format::Cidr | Format::Pattern(_) => RULES_BYTES_MAX,
        }
    }

    fn make(
        &self,
        content: &[u8],
        judge: Judge<'_>,
    ) -> Result<Arc<dyn Table>, Vec<TableFileError>> {
        Ok(match self.format {
            Format::Text => Arc::new(TextTable::read_judged(content, judge)?),
            Format::Cidr => Arc::new(CidrTable::read_judged(content, judge)?),
            Format::Pattern(syntax) => Arc::new(PatternTable::read_judged(content, syntax, judge)?),
        })
    }
}
