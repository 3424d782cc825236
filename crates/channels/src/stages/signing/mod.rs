//! DKIM signing of mail from local authors, on the shard that accepts it, before the mail is durable.

mod encoding;
mod keys;
mod rules;
mod scope;
mod settings;

pub use scope::SigningScope;
pub use settings::SigningName;
pub(crate) use settings::{Signer, SignerText};

use crate::stages::scanned;
use auth::authors::{NoAuthor, domain_of_author};
use auth::dkim::{SigningIdentity, sign};
use auth::scan::{Scan, ScanOptions, Scanned};
use bytes::Bytes;
use config::{Config, Listener, StageSection as _, StageSettings, Tenant, Unsigned};
use keys::KeyTables;
use lookup::Requester;
use mail::Refusal;
use mta::answer::{Answer, Decision};
use mta::console::Console;
use mta::ingress::{
    Draft, Observer, Placed, SignedFields, Stage, StageKind, TransactionView, observed,
};
use mta::metrics::UnsignedReason;
use mta::pressure::Pressures;
use mta::seams::{Time as _, World};
use rules::EncodeBeforeSigning;
pub(crate) use rules::SigningRules;
use settings::{HandedInBy, Keys, NoKey};
use std::rc::Rc;
use std::sync::Arc;

/// Maximum number of signatures of one message, those of the first matching signers.
const SIGNATURES_MAX: usize = 8;

/// Refusal of an unsigned message at a listener or for a tenant that requires signatures (RFC 7372 §3.1).
const UNSIGNED: Refusal =
    Refusal::permanent((7, 20), "No DKIM signer configured for the author domain");
/// A key is unavailable. RFC 3463 §3.8: X.7.5 is a cryptographic failure.
const NO_KEY: Refusal =
    Refusal::transient((7, 5), "Signing key unavailable; try again later").with_code(451);

/// The signing stage. It is needed for signers, and for listeners or tenants that refuse unsigned mail.
pub(crate) struct Signing;

impl<W: World> StageKind<W> for Signing {
    fn stages(
        &self,
        config: &Config,
        world: &W,
        console: &Rc<dyn Console>,
        _pools: &Pressures,
    ) -> Vec<Placed> {
        let entries = config.stages.iter().filter(|entry| entry.key == SignerText::KEY);
        let signers: Vec<_> = entries.map(|entry| Arc::clone(&entry.settings)).collect();
        let refuses = |listener: &Arc<Listener>| SigningRules::at(listener).refuses_unsigned;
        let wants_all = |tenant: &Arc<Tenant>| tenant.unsigned == Some(Unsigned::Refuse);
        let is_any_refused =
            config.listeners.iter().any(refuses) || config.tenants.iter().any(wants_all);
        if signers.is_empty() && !is_any_refused {
            return Vec::new();
        }
        let stage = SigningStage {
            world: world.clone(),
            console: Rc::clone(console),
            signers,
            tables: Rc::new(KeyTables::new(world)),
        };
        // The last stage: a signed message is not changed any more.
        vec![Placed { line: u32::MAX, stage: Rc::new(stage) }]
    }
}

struct SigningStage<W: World> {
    world: W,
    console: Rc<dyn Console>,
    /// Each is a [`Signer`].
    signers: Vec<Arc<dyn StageSettings>>,
    tables: Rc<KeyTables<W>>,
}

/// The identities that sign. `Err` if one of their keys is unavailable.
type SigningIdentities = Answer<'static, Result<Vec<SigningIdentity>, NoKey>>;

/// Scans the message as it arrives, once for all signatures.
struct SigningReader(Scan);

impl SigningReader {
    fn new() -> SigningReader {
        SigningReader(Scan::new(ScanOptions { to_sign: true, ..ScanOptions::default() }))
    }
}

impl Observer for SigningReader {
    fn push(&mut self, piece: &[u8]) {
        self.0.push(piece);
    }

    fn held(&self) -> usize {
        self.0.held()
    }
}

/// Returns true if a message may be signed: that of a client that may relay, because it is internal or has logged in.
/// Mail of other clients is never signed.
fn is_signed(transaction: &TransactionView) -> bool {
    let session = &transaction.session;
    session.may_relay() && SigningRules::at(session.listener()).signs
}

impl<W: World> Stage for SigningStage<W> {
    fn name(&self) -> &'static str {
        SignerText::KEY
    }

    fn observe(&self, transaction: &Rc<TransactionView>) -> Option<Box<dyn Observer>> {
        is_signed(transaction).then(|| Box::new(SigningReader::new()) as _)
    }

    fn content<'a>(
        &'a self,
        transaction: &'a Rc<TransactionView>,
        draft: &'a mut Draft,
        observer: Option<Box<dyn Observer>>,
    ) -> Decision<'a, ()> {
        let reader = observed::<SigningReader>(observer);
        let Some(reader) = reader.filter(|_| is_signed(transaction)) else {
            return Decision::pass();
        };
        let rules = SigningRules::at(transaction.session.listener());
        let encodes = encoding::is_wanted(rules.encodes, draft.facts());
        if !draft.is_rewritten() {
            let mut message = reader.0.finish();
            if draft.omitted().is_empty() || message.leave_out(draft.omitted()) {
                return match encodes {
                    false => self.sign_draft(transaction, draft, message),
                    true => Answer::later(self.sign_encoded(transaction, draft, message)),
                };
            }
        }
        // The signature must cover the message as rewritten.
        Answer::later(async move {
            let message = scanned(draft, SigningReader::new().0).await?;
            match encodes {
                false => self.sign_draft(transaction, draft, message).get().await,
                true => self.sign_encoded(transaction, draft, message).await,
            }
        })
    }

    fn own(&self, content: &Bytes) -> Decision<'static, Option<SignedFields>> {
        let mut scan = SigningReader::new().0;
        scan.push(content);
        let message = scan.finish();
        let Ok(author) = domain_of_author(b"", &message) else { return Answer::Now(Ok(None)) };
        let (now, console) = (self.now(), Rc::clone(&self.console));
        // Messages of this server belong to no tenant.
        self.identities(&author, None).then(move |found| {
            let signed = found.and_then(|signers| signed(&signers, &message, b"", now));
            Answer::Now(match signed {
                Ok(signed) => Ok(Some(signed)),
                Err(why) => {
                    console.error("signing", format_args!("local report not signed: {why}"));
                    Err(NO_KEY)
                }
            })
        })
    }
}

impl<W: World> SigningStage<W> {
    /// Seconds since 1970.
    fn now(&self) -> u64 {
        self.world.time().wall().0 / 1_000
    }

    /// Like [`SigningStage::sign_draft`], for content that is encoded first if a signer exists.
    async fn sign_encoded(
        &self,
        transaction: &Rc<TransactionView>,
        draft: &mut Draft,
        message: Scanned,
    ) -> Result<(), Refusal> {
        let signers = match domain_of_author(draft.added_fields(), &message) {
            Ok(author) => {
                let found = self.identities(&author, Some(&handed_in_by(transaction, draft)));
                found.get().await.unwrap_or_default()
            }
            Err(_) => Vec::new(),
        };
        let takes_eight_bit = SigningRules::at(transaction.session.listener()).encodes
            != EncodeBeforeSigning::EightBit;
        let message = match !signers.is_empty() && encoding::encode(draft, takes_eight_bit).await? {
            true => scanned(draft, SigningReader::new().0).await?,
            false => message,
        };
        self.sign_draft(transaction, draft, message).get().await
    }

    fn sign_draft<'a>(
        &'a self,
        transaction: &'a Rc<TransactionView>,
        draft: &'a mut Draft,
        message: Scanned,
    ) -> Decision<'a, ()> {
        let author = match domain_of_author(draft.added_fields(), &message) {
            Ok(author) => author,
            Err(NoAuthor::None | NoAuthor::Several) => {
                transaction.session.metrics().unsigned[UnsignedReason::NoAuthor].inc();
                return Answer::Now(unsigned(transaction, draft));
            }
        };
        self.identities(&author, Some(&handed_in_by(transaction, draft)))
            .then(move |found| Answer::Now(self.conclude(transaction, draft, &message, found)))
    }

    fn conclude(
        &self,
        transaction: &TransactionView,
        draft: &mut Draft,
        message: &Scanned,
        found: Result<Vec<SigningIdentity>, NoKey>,
    ) -> Result<(), Refusal> {
        let metrics = transaction.session.metrics();
        if found.as_ref().is_ok_and(Vec::is_empty) {
            metrics.unsigned[UnsignedReason::NoSigner].inc();
            return unsigned(transaction, draft);
        }
        let made = found.and_then(|signers| {
            let made = signed(&signers, message, draft.added_fields(), self.now())?;
            signers.iter().for_each(|signer| metrics.signatures[signer.key.algorithm()].inc());
            Ok(made)
        });
        match made {
            Ok(SignedFields { fields, signers }) => {
                // The first signer's field comes first.
                fields.iter().rev().for_each(|lines| draft.prepend_folded(lines));
                draft.note_signed(signers);
                Ok(())
            }
            Err(why) => {
                metrics.signing_failures.inc();
                let id = draft.id();
                self.console.error("signing", format_args!("not signed, deferred: {why} id={id}"));
                Err(NO_KEY)
            }
        }
    }

    /// The identities that sign for an author of this domain, in mail of `by`. `None` for the server's own messages.
    fn identities(&self, author: &str, by: Option<&HandedInBy<'_>>) -> SigningIdentities {
        let mut answers = Vec::new();
        let requester = by.map_or(Requester::Ours, |by| by.requester);
        let signers = self.signers.iter().filter_map(|settings| settings.of::<Signer>());
        for signer in signers.filter(|signer| by.is_none_or(|by| signer.serves(by))) {
            let Some(domain) = signer.domain_for(author) else { continue };
            answers.push(match &signer.keys {
                Keys::Own(key, next) => {
                    let key = key.in_force(next.as_ref(), self.world.time().wall());
                    Answer::Now(key.identity(domain).map(Some))
                }
                Keys::Table(table) => self.tables.identity(table, author, domain, requester),
            });
        }
        if answers.iter().all(|answer| matches!(answer, Answer::Now(_))) {
            let now = answers.into_iter().filter_map(|answer| match answer {
                Answer::Now(found) => Some(found),
                Answer::Later(_) => None,
            });
            return Answer::Now(now.collect::<Result<Vec<_>, _>>().map(each_once));
        }
        Answer::later(async move {
            let mut found = Vec::with_capacity(answers.len());
            for answer in answers {
                found.push(answer.get().await?);
            }
            Ok(each_once(found))
        })
    }
}

fn handed_in_by<'a>(transaction: &'a TransactionView, draft: &'a Draft) -> HandedInBy<'a> {
    HandedInBy {
        tenant: draft.tenancy().map(|tenancy| &*tenancy.name),
        login: transaction.session.client().login.as_deref(),
        requester: transaction.session.client().requester(),
    }
}

/// Removes duplicate key names, and limits the number.
fn each_once(found: Vec<Option<SigningIdentity>>) -> Vec<SigningIdentity> {
    let mut signers: Vec<SigningIdentity> = Vec::with_capacity(found.len());
    for signer in found.into_iter().flatten() {
        let is_same = |known: &SigningIdentity| {
            known.domain == signer.domain && known.selector == signer.selector
        };
        if !signers.iter().any(is_same) && signers.len() < SIGNATURES_MAX {
            signers.push(signer);
        }
    }
    signers
}

fn signed(
    signers: &[SigningIdentity],
    message: &Scanned,
    added: &[u8],
    now: u64,
) -> Result<SignedFields, NoKey> {
    let fields = sign(signers, message, added, now).map_err(|_| NoKey("signing failed".into()))?;
    let name = |signer: &SigningIdentity| -> Box<str> {
        format!("{}._domainkey.{}", signer.selector, signer.domain).into()
    };
    Ok(SignedFields { fields, signers: signers.iter().map(name).collect() })
}

/// The decision about an unsigned message.
fn unsigned(transaction: &TransactionView, draft: &Draft) -> Result<(), Refusal> {
    let of_tenant = draft.tenancy().and_then(|tenancy| tenancy.tenant.unsigned);
    let refuses = match of_tenant {
        Some(unsigned) => unsigned == Unsigned::Refuse,
        None => SigningRules::at(transaction.session.listener()).refuses_unsigned,
    };
    if refuses { Err(UNSIGNED) } else { Ok(()) }
}
