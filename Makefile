# What people type here. `make test` is what CI runs.

CARGO ?= cargo
SECONDS_EACH ?= 30

.PHONY: run test check bench fuzz clean packages

# The relay on its embedded default: 127.0.0.1:2525, mail kept in ./postrider-data.
run:
	$(CARGO) run --release --quiet --bin postrider -- serve

# Everything that must be green: layout, format, lints, licences, tests.
test: packages
	scripts/check-house
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked --quiet -- -D warnings
	scripts/check-licences
	$(CARGO) test --workspace --locked --quiet

# The same without installing packages and without running tests: quick, for an editor's hook.
check:
	scripts/check-house
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings

# The measurements of docs/performance.md, on this machine.
bench: packages
	$(CARGO) build --release --quiet --workspace
	scripts/bench

# Random input against every parser, SECONDS_EACH seconds per target (needs a nightly compiler
# and cargo-fuzz).
fuzz:
	scripts/fuzz $(SECONDS_EACH)

# Other mail programs that tests talk to.
packages:
	scripts/install-test-packages

clean:
	$(CARGO) clean
