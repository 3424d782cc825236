//! Methods common to both machines.

/// The methods that do not depend on the role. The type has `core` and `step`.
macro_rules! methods {
    ($machine:ty) => {
        impl $machine {
            /// Handles input. Take all events before the next call, since nothing else bounds the queued data.
            pub fn handle_input(&mut self, octets: bytes::Bytes, now: mail::Mono) {
                self.core.handle_input(octets, now);
            }

            /// The peer closed the connection. Take all events before.
            pub fn handle_eof(&mut self) {
                self.core.handle_eof();
            }

            /// Part of the output was written: the peer reads.
            pub fn handle_written(&mut self, now: mail::Mono) {
                self.core.touch(now);
            }

            /// Returns the next event; `None` if all input is used up.
            pub fn poll_event(&mut self) -> Option<$crate::association::Event> {
                loop {
                    if let Some(event) = self.core.events.pop_front() {
                        return Some(event);
                    }
                    match self.step() {
                        Ok(true) => {}
                        Ok(false) => return self.core.events.pop_front(),
                        Err(breach) => self.core.breach(breach),
                    }
                }
            }

            /// The buffers to write now, in this order: few, for one vectored write.
            pub fn take_output(&mut self) -> Vec<bytes::Bytes> {
                self.core.out.take()
            }

            /// There is something to be written.
            #[must_use]
            pub fn has_output(&self) -> bool {
                !self.core.out.is_empty()
            }

            /// Write the remaining output, and close the connection.
            #[must_use]
            pub fn is_closed(&self) -> bool {
                self.core.is_closed()
            }

            /// Time of the next `handle_deadline` without other events. Query it again after each call.
            #[must_use]
            pub fn next_deadline(&self) -> Option<mail::Mono> {
                self.core.next_deadline()
            }

            /// Ends phases that have timed out.
            pub fn handle_deadline(&mut self, now: mail::Mono) {
                self.core.handle_deadline(now);
            }

            /// After `ApduComplete`: the APDU is durable, and under this MTA's responsibility. Writes AEA.
            pub fn acknowledge(&mut self, now: mail::Mono) {
                self.core.touch(now);
                self.core.acknowledge();
            }

            /// From `ActivityStarted` until it is acknowledged: the APDU is not taken. Some peers abort
            /// the association on it; otherwise `ActivityDropped` follows.
            pub fn refuse_apdu(
                &mut self,
                reason: $crate::association::ExceptionReason,
                now: mail::Mono,
            ) {
                self.core.touch(now);
                self.core.refuse_apdu(reason);
            }

            /// An APDU may be sent: the association is bound, this end has the turn, and no APDU is pending.
            #[must_use]
            pub fn is_ready(&self) -> bool {
                self.core.is_ready()
            }

            /// Sends an APDU from slices. Only if `is_ready`.
            pub fn transfer(
                &mut self,
                apdu: impl IntoIterator<Item = bytes::Bytes>,
                now: mail::Mono,
            ) {
                let slices: Vec<bytes::Bytes> = apdu.into_iter().collect();
                let bytes = slices.iter().map(|slice| slice.len() as u64).sum();
                self.begin_transfer(bytes, now);
                for slice in slices {
                    self.push_content(slice, now);
                }
            }

            /// Starts sending an APDU of this length; `push_content` supplies its octets. Only if `is_ready`.
            pub fn begin_transfer(&mut self, apdu_bytes: u64, now: mail::Mono) {
                self.core.touch(now);
                self.core.begin_transfer(apdu_bytes);
            }

            /// More octets are needed: earlier ones were sent. If the window is full they wait here until the peer
            /// acknowledges a checkpoint; supply no more than one piece ahead.
            #[must_use]
            pub fn wants_content(&self) -> bool {
                self.core.sending.wants_content()
            }

            /// The next octets of the APDU.
            pub fn push_content(&mut self, octets: bytes::Bytes, now: mail::Mono) {
                self.core.touch(now);
                self.core.push_content(octets);
            }

            /// Discards the pending APDU if its octets are unavailable; `NotTaken` follows.
            pub fn discard_transfer(&mut self, now: mail::Mono) {
                self.core.touch(now);
                self.core.discard($crate::association::ExceptionReason::LocalError);
            }

            /// Gives the turn to the peer in a two-way alternate dialogue, if nothing is pending. If the peer requests
            /// the turn, it gets it without this call.
            pub fn give_turn(&mut self, now: mail::Mono) {
                self.core.touch(now);
                self.core.give_turn();
            }

            /// Requests the turn; priority 0 is the highest. `TurnTaken` may follow.
            pub fn request_turn(&mut self, priority: u32, now: mail::Mono) {
                self.core.touch(now);
                self.core.request_turn(priority);
            }

            /// Ends the association at once.
            pub fn abort(&mut self, reason: $crate::association::AbortReason, now: mail::Mono) {
                self.core.touch(now);
                self.core.abort(reason, $crate::association::AssociationEnd::AbortedByUs(reason));
            }
        }
    };
}

pub(super) use methods;
