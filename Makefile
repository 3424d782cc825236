# What people type here. `make test` is what CI runs.

CARGO ?= cargo
CASES ?= 20000
SEEDS ?= 2000
BENCH ?= floor --scale 0.2
FUZZ_SECONDS ?= 60
# What is not built by default is tested all the same.
FEATURES ?= --features postrider/sql
# Tests at once: more than cores, for most of them wait.
TEST_THREADS ?= 6

# Where `make install` puts files; for packagers, below DESTDIR.
PREFIX ?= /usr/local
DESTDIR ?=

.PHONY: run test test-peers check docs bench fuzz clean packages
.PHONY: programs install deb rpm sbom image release test-packages

# The relay on its built-in configuration, whatever file would be found: 127.0.0.1:2525, mail kept in ./postrider-data.
run:
	POSTRIDER_CONFIG= $(CARGO) run --release --quiet --bin postrider -- serve

# Everything that must be green: layout, format, licences, lints, tests.
test:
	CARGO="$(CARGO)" FEATURES="$(FEATURES)" TEST_THREADS=$(TEST_THREADS) scripts/test

# Tests with programs of over 200 MB each (Chromium), which it installs.
test-peers:
	CARGO="$(CARGO)" FEATURES="$(FEATURES)" scripts/test --peers

# The same without installing packages and without running tests: quick, for an editor's hook.
check:
	scripts/check-house
	scripts/check-words
	scripts/check-interface
	$(CARGO) fmt --all --check
	$(CARGO) clippy --profile test --workspace --exclude postrider-fuzz --all-targets $(FEATURES) --quiet -- -D warnings
	$(CARGO) clippy --profile test --workspace --test sim $(FEATURES) --quiet -- -D warnings

# The catalogues of bad input and bad peers, as pages in target/docs.
docs:
	$(CARGO) test -p postrider --test program $(FEATURES) --locked --quiet the_page_is_rendered

# Postrider against Postfix and the bare relay on this machine; BENCH='all --minutes 60' for all of
# docs/benchmarks.md.
bench: packages
	$(CARGO) build --release --quiet
	target/release/postrider-lab bench $(BENCH)

# Coverage-guided fuzzing (docs/internals/fuzzing.md), then random input and random histories: many more of
# them than `test` tries.
fuzz:
	scripts/fuzz --seconds $(FUZZ_SECONDS)
	PROPTEST_CASES=$(CASES) $(CARGO) test --release --locked --quiet -p mail -p smtp -p spool -p queue -p mta
	$(CARGO) run --release --locked --quiet --bin postrider-lab -- sim --seed 1 --seeds $(SEEDS)

# Other mail programs that tests talk to.
packages:
	scripts/install-test-packages

# What is installed: optimised programs, with all features. scripts/package has more variables.
programs:
	CARGO="$(CARGO)" scripts/package programs

# After `make programs`; needs no compiler, so that root can run it.
install:
	DESTDIR="$(DESTDIR)" PREFIX="$(PREFIX)" scripts/package install

# Packages, in target/package. TARGET=aarch64-unknown-linux-gnu builds for arm64, where Rust's library for it is installed.
deb rpm sbom image:
	CARGO="$(CARGO)" scripts/package $@

# VERSION=0.2.0: its commit and tag, then packages, image, SBOM and checksums. Pushes nothing.
release:
	CARGO="$(CARGO)" VERSION="$(VERSION)" scripts/package release

# Packages and image as a machine uses them, as root; up to an hour, so no part of `test`.
test-packages:
	CARGO="$(CARGO)" scripts/test-packages

clean:
	$(CARGO) clean
