//! ARC sealing of checked messages (`seal` of a listener). Runs after all other stages, since the seal covers fields
//! that they add.

use super::settings::CheckRules;
use crate::stages::scanned;
use auth::arc::{Sealing, seal};
use auth::checks::Verdicts;
use auth::dkim::SigningIdentity;
use auth::scan::Scanned;
use mta::answer::{Answer, Decision};
use mta::console::Console;
use mta::ingress::{Draft, Observer, Stage, TransactionView};
use mta::seams::{Time as _, World};
use std::rc::Rc;
use std::sync::Arc;

/// Results passed from the checks to the seal.
pub(super) struct Verified {
    pub(super) message: Scanned,
    pub(super) verdicts: Verdicts,
}

/// Adds ARC seals. It signs twice, on the shard that accepts the mail. Each RSA signature costs as much as a handshake.
pub(super) struct Sealer<W: World> {
    world: W,
    /// Authserv-id of this server.
    server: Arc<str>,
    console: Rc<dyn Console>,
}

impl<W: World> Sealer<W> {
    pub(super) fn new(world: &W, server: Arc<str>, console: &Rc<dyn Console>) -> Sealer<W> {
        Sealer { world: world.clone(), server, console: Rc::clone(console) }
    }
}

impl<W: World> Stage for Sealer<W> {
    fn name(&self) -> &'static str {
        "seal"
    }

    fn content<'a>(
        &'a self,
        transaction: &'a Rc<TransactionView>,
        draft: &'a mut Draft,
        _: Option<Box<dyn Observer>>,
    ) -> Decision<'a, ()> {
        let listener = transaction.session.listener();
        let verified = draft.take_left::<Verified>();
        let signer = CheckRules::seal_at(listener).and_then(|told| told.identity());
        let (Some(mut verified), Some(signer)) = (verified, signer) else {
            return Decision::pass();
        };
        if !draft.is_rewritten() && draft.omitted().is_empty() {
            self.seal(draft, &verified, &signer);
            return Decision::pass();
        }
        // The seal must cover the message as rewritten, without omitted fields.
        let asked =
            CheckRules::checks_at(listener).map(|checks| checks.powers.asked()).unwrap_or_default();
        Answer::later(async move {
            verified.message = scanned(draft, asked.scan_to_sign()).await?;
            self.seal(draft, &verified, &signer);
            Ok(())
        })
    }
}

impl<W: World> Sealer<W> {
    fn seal(&self, draft: &mut Draft, verified: &Verified, signer: &SigningIdentity) {
        let sealed = seal(&Sealing {
            signer,
            server: &self.server,
            verdicts: &verified.verdicts,
            message: &verified.message,
            added: draft.added_fields(),
            now: self.world.time().wall().0 / 1_000,
        });
        match sealed {
            Ok(sealed) => {
                sealed.fields.iter().for_each(|field| draft.prepend_folded(field));
                draft.note_sealed(sealed.says);
            }
            Err(why) => {
                let id = draft.id();
                self.console.debug("seal", format_args!("not sealed: {} id={id}", why.as_str()));
            }
        }
    }
}
