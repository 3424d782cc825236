//! The configuration: one TOML file, one typed schema, resolved into immutable values.
//!
//! [`Schema::parse`] reads a file, [`Schema::embedded`] is the safe default. A kind of channel owns its keys: it
//! describes, reads and explains them ([`ChannelSection`], [`Settings`]), and is registered with one line. The same is
//! true for the owner of a section ([`Section`]).
//!
//! Decisions for each message: [`Config::decide`] (may this client send to this recipient?) at RCPT;
//! [`Config::route_of`] (its route) whenever a recipient falls due.

mod area;
mod certificate;
mod channel;
mod conditions;
mod configuration;
mod decision;
mod document;
mod embedded;
mod explain_request;
mod explainer;
mod explanation;
mod host;
mod listener;
mod listener_section;
mod named_file;
mod next_hop;
mod or_routes;
mod parse;
mod patterns;
mod problem;
pub mod quantity;
mod reader;
mod reference;
mod resolve;
mod resolver;
mod route;
mod schema;
mod secret_file;
mod section;
mod settings;
mod shape;
pub mod shaping;
mod source;
mod syntax;
mod table;
mod tenant;
mod warmup;
mod web_place;
pub mod written;

pub use area::Area;
pub use certificate::{Certificate, NamePattern, Ordered};
pub use channel::{
    ChannelSection, Destination, EightBit, KindsOfMail, MailboxChecks, RouteLimits, Settings,
    SharedLimits, TlsSources, Values,
};
pub use conditions::scope::{ConditionScope, ConditionTime};
pub use conditions::{Condition, ConditionSubject, ConditionValues, Conditions, MailFacts};
pub use configuration::Config;
pub use decision::{Decision, FoundRoutes};
pub use embedded::EMBEDDED;
pub use explain_request::{
    AccessStep, ConditionStep, ExplainRequest, InTables, RefusalOrigin, RehearsalSteps,
    RewriteStep, TableLookup,
};
pub use explainer::{ExplainedDecision, Explainer, NamedValues, Origin, values_in};
pub use explanation::Explanation;
pub use host::{Host, HostPort, domain_mistake};
pub use ipnet::IpNet;
pub use listener::takes::Takes;
pub use listener::{
    CertificateIdentity, ClientCertificates, LOCAL_CLIENT, Listener, ListeningPlace,
    ProtocolSection, ProtocolSettings,
};
pub use listener_section::ListenerSection;
pub use mail::TagDelimiters;
pub use named_file::{FileUse, NamedFile};
pub use next_hop::{host_set, host_text, next_hop};
pub use or_routes::OrRoutes;
pub use parse::listener_socket;
pub use patterns::{AddressPatterns, DomainPattern};
pub use problem::{ConfigErrors, Problem};
pub use reader::Reader;
pub use reference::ReferencePage;
pub use route::{OWN_MAILBOX_BYTES_MAX, POSTMASTER_ROUTE, Route, RouteTable};
pub use schema::Schema;
pub use secret_file::{SecretFile, SecretSource, TokenSource};
pub use section::{
    KeyTable, NEXT_START, Rest, Section, StageEntry, StageSection, StageSettings, TableSection,
};
pub use settings::{
    Admin, CONTROL_PATH_BYTES_MAX, Dns, Log, Postmaster, REPORT_GIVE_UP_AFTER, ReportRetry,
    ReportTo, Reports, Retry, Secret, SpoolSection, Tls,
};
pub use source::{Pool, Proxy, ProxyKind, Source};
pub use table::{
    Composition, ENTRY_TEXT, PasswordChecks, Rewrite, TableCache, TableEntry, TableSettings,
};
pub use tenant::{NotYours, OTHER_TENANTS, TENANT_NAME_MAX, Tenancy, Tenant, Tenants, names_login};
pub use warmup::{WARMUP_DAYS_MAX, Warmup};
pub use web_place::WebPlace;
pub use written::{
    Durability, KeyType, ListenerTls, LogFormat, LogLevel, LogTarget, Returns, TableRefText,
    TenantText, Unsigned, WhenText,
};
