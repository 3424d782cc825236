//! A report as people read it: tables for a terminal and for Markdown, a page with its plots.

pub(crate) mod markup;
pub mod number;
pub mod page;
pub mod plot;
pub(crate) mod table;
