//! Whoever knows what a table's entries are for says which of them can't be used.

/// An entry as it is written in a file, in a database or in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written<'a> {
    /// `None`: the keys that it is for are known by a pattern or a network.
    pub key: Option<&'a str>,
    /// Its text.
    pub text: &'a str,
    /// The text goes on with what a pattern has matched.
    pub goes_on: bool,
}

/// Says why an entry can't be used, as a sentence without its end.
pub type Judge<'a> = &'a dyn Fn(&Written<'_>) -> Result<(), String>;

/// All entries can be used.
///
/// # Errors
/// None.
pub fn any(_: &Written<'_>) -> Result<(), String> {
    Ok(())
}
