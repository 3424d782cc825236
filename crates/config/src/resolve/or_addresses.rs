//! What routes take of O/R addresses.

use crate::or_routes::OrRoutes;
use crate::resolver::Resolver;
use crate::route::Route;
use mail::OrAddress;

impl Resolver<'_> {
    /// An O/R address, read by `parse`.
    pub(crate) fn or_address(
        &mut self,
        path: &str,
        text: &str,
        parse: fn(&str) -> Result<OrAddress, mail::AddressError>,
    ) -> Option<OrAddress> {
        let read = parse(text);
        if let Err(error) = &read {
            let message = format!("\"{text}\" is not an O/R address");
            self.error(path, message, &error.to_string());
        }
        read.ok()
    }

    /// What a route takes of O/R addresses.
    pub(super) fn or_addresses(&mut self, at: &str, written: &[String]) -> Vec<OrAddress> {
        let path = format!("{at}.or_addresses");
        if written.is_empty() {
            let help = "name some, or leave `or_addresses` out";
            self.error(&path, "`or_addresses` is empty", help);
        }
        let mut taken = Vec::with_capacity(written.len());
        for (index, text) in written.iter().enumerate() {
            let path = format!("{path}[{index}]");
            let Some(address) = self.or_address(&path, text, OrAddress::parse_part) else {
                continue;
            };
            if let Some(strange) = address.attributes().iter().find(|a| !a.is_routed()) {
                let message = format!("{} in what a route takes", strange.key());
                let help = "mail is routed by C, ADMD, PRMD, O and OU1 to OU4; who it is for, the next MTA \
                            knows";
                self.error(&path, message, help);
                continue;
            }
            taken.push(address);
        }
        taken
    }

    /// Puts what routes take of O/R addresses together.
    pub(super) fn or_routes(&mut self, routes: &[Route]) -> OrRoutes {
        let mut table = OrRoutes::default();
        for route in routes {
            for (position, taken) in route.or_addresses.iter().enumerate() {
                let index = u32::try_from(route.index).unwrap_or(u32::MAX);
                let other = table.insert(taken, index).and_then(|other| routes.get(other as usize));
                let Some(other) = other else { continue };
                let path = format!("route[{}].or_addresses[{position}]", route.index);
                let message = format!("{taken} is taken by route {} already", other.index + 1);
                self.error(&path, message, &format!("on line {}", other.line));
            }
        }
        table
    }
}
