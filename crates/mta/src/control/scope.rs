//! The scope of a suspension.

use queue::ScheduledKey;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// The scope of a suspension: mail that matches all given fields; without any, all mail.
///
/// In JSON it is `"all"`, or an object with the fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self", deny_unknown_fields)]
pub struct Scope {
    /// Mail for this domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Mail on the route of this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// Mail to this next hop, or to any next hop that has this host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_hop: Option<String>,
    /// Mail to hosts of the provider of this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Mail from the source of this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Mail of the tenant of this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Mail with this campaign.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub campaign: Option<String>,
}

/// The properties of a next hop that a scope can name.
#[derive(Clone, Copy, Debug)]
pub struct HopSeen<'a> {
    /// The ready queue's name.
    pub next_hop: &'a str,
    /// The route, if known.
    pub route: Option<&'a str>,
    /// The provider of its hosts, if known.
    pub provider: Option<&'a str>,
    /// The source; empty for the default.
    pub source: &'a str,
}

impl Scope {
    /// All names in the scope.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let Scope { domain, route, next_hop, provider, source, tenant, campaign } = self;
        let all = [domain, route, next_hop, provider, source, tenant, campaign];
        all.into_iter().filter_map(Option::as_deref)
    }

    /// Checks that its fields can be combined.
    ///
    /// # Errors
    /// The reason, as a sentence.
    pub fn check(&self) -> Result<(), &'static str> {
        let of_mail = self.domain.is_some() || self.tenant.is_some() || self.campaign.is_some();
        match self.source.is_some() && of_mail {
            // Mail that goes from one source now could go from another source then.
            true => {
                Err("a source can be suspended for a route, provider or next hop, but not for \
             a domain, tenant or campaign")
            }
            false => Ok(()),
        }
    }

    /// Returns true if it suspends next hops themselves, not only mail for them.
    fn is_of_hops(&self) -> bool {
        let of_mail = self.domain.is_some() || self.tenant.is_some() || self.campaign.is_some();
        self.asks_for_hops() && !of_mail
    }

    /// Returns true if matching it needs the next hops.
    #[must_use]
    pub fn asks_for_hops(&self) -> bool {
        self.next_hop.is_some() || self.provider.is_some() || self.source.is_some()
    }

    /// Returns true if it covers mail with this key on this route to one of these hops, as far as these are known. A
    /// scope of hops alone is matched by [`Scope::covers_hop`].
    #[must_use]
    pub fn covers(&self, key: &ScheduledKey, route: Option<&str>, hops: &[HopSeen<'_>]) -> bool {
        let is = |wanted: &Option<String>, is: Option<&str>| match wanted {
            Some(wanted) => is == Some(wanted.as_str()),
            None => true,
        };
        let domain = self.domain.as_deref();
        !self.is_of_hops()
            && domain.is_none_or(|wanted| key.domain.as_str().eq_ignore_ascii_case(wanted))
            && is(&self.tenant, Some(&*key.tenant))
            && is(&self.campaign, Some(&*key.campaign))
            && is(&self.route, route)
            && (!self.asks_for_hops() || hops.iter().any(|hop| self.is_hop(hop)))
    }

    /// Returns true if it covers this next hop, for all mail.
    #[must_use]
    pub fn covers_hop(&self, hop: &HopSeen<'_>) -> bool {
        let is_of_route = self.route.as_deref().is_none_or(|wanted| hop.route == Some(wanted));
        self.is_of_hops() && is_of_route && self.is_hop(hop)
    }

    fn is_hop(&self, hop: &HopSeen<'_>) -> bool {
        let next_hop = self.next_hop.as_deref();
        next_hop.is_none_or(|wanted| super::selection::is_hop(hop.next_hop, wanted))
            && self.provider.as_deref().is_none_or(|wanted| hop.provider == Some(wanted))
            && self.source.as_deref().is_none_or(|wanted| hop.source == wanted)
    }
}

/// To follow "suspend" or "resume".
impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |parts: &[(&str, &Option<String>)]| {
            let named = parts
                .iter()
                .filter_map(|(what, name)| name.as_ref().map(|name| format!("the {what} {name}")));
            named.collect::<Vec<_>>().join(", ")
        };
        let whose = named(&[
            ("tenant", &self.tenant),
            ("campaign", &self.campaign),
            ("source", &self.source),
        ]);
        let whither = named(&[
            ("route", &self.route),
            ("domain", &self.domain),
            ("provider", &self.provider),
            ("next hop", &self.next_hop),
        ]);
        match (whose.is_empty(), whither.is_empty()) {
            (true, true) => f.write_str("all delivery"),
            (false, false) => write!(f, "{whose} for {whither}"),
            _ => write!(f, "{whose}{whither}"),
        }
    }
}

impl Serialize for Scope {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self == Scope::default() {
            true => serializer.serialize_str("all"),
            false => Scope::serialize(self, serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Scope {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Scope, D::Error> {
        struct Reading;
        impl<'de> Visitor<'de> for Reading {
            type Value = Scope;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"all\", or an object with the scope of the suspension")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Scope, E> {
                match text {
                    "all" => Ok(Scope::default()),
                    other => Err(E::unknown_variant(other, &["all"])),
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Scope, A::Error> {
                let scope = Scope::deserialize(MapAccessDeserializer::new(map))?;
                if scope == Scope::default() {
                    return Err(A::Error::custom("the scope of the suspension is empty"));
                }
                scope.check().map_err(A::Error::custom)?;
                Ok(scope)
            }
        }
        deserializer.deserialize_any(Reading)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(domain: &str, tenant: &str) -> ScheduledKey {
        ScheduledKey {
            tenant: tenant.into(),
            campaign: "spring".into(),
            domain: mail::Domain::parse(domain).unwrap(),
            route: "".into(),
            pool: "".into(),
            window: "".into(),
            require_tls: mail::RequireTls::Unsaid,
            choice: "".into(),
        }
    }

    fn read(json: &str) -> Result<Scope, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    fn hop<'a>(provider: &'a str, source: &'a str) -> HopSeen<'a> {
        HopSeen {
            next_hop: "mx:out:mx.test:25",
            route: Some("out"),
            provider: Some(provider),
            source,
        }
    }

    #[test]
    fn a_tenant_s_or_campaign_s_mail_is_covered_and_no_other() {
        let (acme, other) = (key("a.test", "acme"), key("a.test", "other"));
        let tenant = read(r#"{"tenant":"acme"}"#).unwrap();
        assert!(tenant.covers(&acme, None, &[]) && !tenant.covers(&other, None, &[]));
        assert!(!read(r#"{"tenant":""}"#).unwrap().covers(&acme, None, &[]));
        assert!(read(r#"{"campaign":"spring"}"#).unwrap().covers(&other, None, &[]));
        assert!(!read(r#"{"campaign":"Spring"}"#).unwrap().covers(&other, None, &[]));
        assert!(!tenant.covers_hop(&hop("big", "acme")));
    }

    #[test]
    fn all_parts_must_match() {
        let (acme, other) = (key("a.test", "acme"), key("a.test", "other"));
        let hops = [hop("big", "one")];
        let both = read(r#"{"tenant":"acme","provider":"big"}"#).unwrap();
        assert!(both.covers(&acme, None, &hops) && !both.covers(&other, None, &hops));
        assert!(
            !both.covers(&acme, None, &[hop("small", "one")]) && !both.covers(&acme, None, &[])
        );
        assert!(!both.covers_hop(&hops[0]), "others go there too");
        let hop_alone = read(r#"{"source":"one","provider":"big"}"#).unwrap();
        assert!(hop_alone.covers_hop(&hops[0]) && !hop_alone.covers(&acme, None, &hops));
        assert!(!hop_alone.covers_hop(&hop("big", "two")));
        let of_route = read(r#"{"route":"out","next_hop":"MX.test"}"#).unwrap();
        assert!(of_route.covers_hop(&hops[0]));
        assert!(!of_route.covers_hop(&HopSeen { route: Some("in"), ..hops[0] }));
        let campaign = read(r#"{"campaign":"spring","domain":"A.test","route":"out"}"#).unwrap();
        assert!(campaign.covers(&acme, Some("out"), &[]) && !campaign.covers(&acme, None, &[]));
        assert!(!campaign.covers(&key("b.test", "acme"), Some("out"), &[]));
        assert!(
            Scope::default().covers(&acme, None, &[]) && !Scope::default().covers_hop(&hops[0])
        );
    }

    #[test]
    fn it_is_read_as_earlier_versions_wrote_it_and_written_so() {
        for json in [
            r#""all""#,
            r#"{"domain":"a.test"}"#,
            r#"{"next_hop":"mx.test"}"#,
            r#"{"provider":"big","tenant":"acme"}"#,
        ] {
            let scope = read(json).unwrap();
            assert_eq!(serde_json::to_string(&scope).unwrap(), json);
        }
        let bad = [
            (r#""none""#, "unknown variant `none`"),
            ("{}", "the scope of the suspension is empty"),
            ("7", "an object with the scope"),
            (r#"{"domian":"a"}"#, "unknown field `domian`"),
            (r#"{"source":"a","tenant":"b"}"#, "a source can be suspended for a route"),
        ];
        for (json, told) in bad {
            assert!(
                read(json).is_err_and(|error| error.contains(told)),
                "{json}: {:?}",
                read(json)
            );
        }
    }

    #[test]
    fn it_says_what_it_is() {
        for (json, text) in [
            (r#""all""#, "all delivery"),
            (r#"{"next_hop":"mx.test"}"#, "the next hop mx.test"),
            (r#"{"tenant":"acme","provider":"big"}"#, "the tenant acme for the provider big"),
            (r#"{"route":"out","domain":"a.test"}"#, "the route out, the domain a.test"),
        ] {
            assert_eq!(read(json).unwrap().to_string(), text);
        }
    }
}
