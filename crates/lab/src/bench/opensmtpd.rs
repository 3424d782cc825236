//! Not yet.
use super::contender::{Place, Server};
pub(super) fn version() -> Result<String, String> {
    Err("not installed".to_owned())
}
pub(super) fn start(_place: &Place) -> Result<Box<dyn Server>, String> {
    Err("not installed".to_owned())
}
