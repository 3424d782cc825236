//! Arbitrary bytes as a file of a lookup table.

use lookup::{
    CidrTable, MISTAKES_MAX, PatternSyntax, PatternTable, Table, TableFileError, TextTable,
};

/// The first line is what is asked, the rest is the file.
pub fn run(data: &[u8]) {
    let end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let key = String::from_utf8_lossy(&data[..end]);
    let file = data.get(end + 1..).unwrap_or_default();
    check(TextTable::read(file), file, &key, false);
    check(CidrTable::read(file), file, &key, true);
    check(PatternTable::read(file, PatternSyntax::Posix), file, &key, true);
    check(PatternTable::read(file, PatternSyntax::Perl), file, &key, true);
}

fn check<T: Table>(made: Result<T, Vec<TableFileError>>, file: &[u8], key: &str, has_rules: bool) {
    match made {
        Ok(table) => {
            check_places(table.warnings(), file);
            let found = table.find(key);
            if !has_rules {
                // Whatever the case.
                assert_eq!(found, table.find(&lookup::fold(key)));
            }
        }
        Err(mistakes) => {
            assert!(has_rules && !mistakes.is_empty());
            check_places(&mistakes, file);
        }
    }
}

fn check_places(told: &[TableFileError], file: &[u8]) {
    assert!(told.len() <= MISTAKES_MAX + 1);
    let lines = file.split(|byte| *byte == b'\n').count();
    for mistake in told {
        let line = mistake.line as usize;
        assert!(line >= 1 && line <= lines && mistake.column >= 1, "{mistake} of {lines} lines");
        assert!(!mistake.text.is_empty() && !mistake.text.contains('\n'), "{mistake}");
    }
}
