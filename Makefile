# Every task of the project; `make` alone lists them.
#
# One target directory serves all of them, so nothing is compiled twice for the same purpose; the
# lints have one of their own in it, so that tests do not wait for them.

.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

CARGO ?= cargo
# Seconds for each kind of random input in `make hostile`.
HOSTILE_SECONDS ?= 10
CHECK_SECONDS ?= 300
FUZZ_SECONDS ?= 3600
FUZZ_TARGETS ?=
SOAK_ROUNDS ?= 10
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
export CARGO_TARGET_DIR := $(abspath $(TARGET_DIR))
# Random tests make the same choices in each run, so a run that passed passes again; see `soak`.
export TEST_SEED ?= 1
export PROPTEST_RNG_SEED ?= $(TEST_SEED)
export PATH := $(HOME)/.cargo/bin:$(PATH)

RELEASE := $(CARGO_TARGET_DIR)/release
QUICKLY := $(CARGO_TARGET_DIR)/quick/cellar
# Shows how far Cargo is, also where standard error is no terminal.
WITH_PROGRESS := CARGO_TERM_PROGRESS_WHEN=always CARGO_TERM_PROGRESS_WIDTH=80
LINTS := $(CARGO_TARGET_DIR)/lints

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' Makefile

compilers:
	@command -v $(CARGO) >/dev/null || { \
		echo "$(CARGO) is missing: install Rust 1.95 or later, https://rustup.rs" >&2; exit 1; }
	@command -v cc >/dev/null || { \
		echo "cc is missing: install a C compiler (on Debian: build-essential)" >&2; exit 1; }

build: compilers ## compile the server into target/release
	$(CARGO) build --release --locked --package cellar

# The load generator and the measurements are a workspace of their own, so that neither building nor
# testing the product compiles them.
BENCH := --manifest-path bench/Cargo.toml --locked

build-bench: compilers ## compile the load generator, cellar-bench, into target/release
	$(CARGO) build --release $(BENCH)

run: compilers ## build the server quickly and start it with its defaults, or with ARGS="--memory 1GiB ..."
	@[ -x $(QUICKLY) ] || echo "building the server; the first time this takes 2 to 4 minutes on two cores"
	$(WITH_PROGRESS) $(CARGO) build --profile quick --locked --package cellar
	$(QUICKLY) $(ARGS)

PREFIX ?= /usr/local

# A profile of its own: a panic has to unwind to be caught at the border.
library: compilers ## the near cache for C and C++: static and shared library
	$(CARGO) build --locked --profile library --package cellar-capi --lib

install-library: library ## install it with headers, pkg-config and CMake files below DESTDIR and PREFIX
	DESTDIR="$(DESTDIR)" PREFIX="$(PREFIX)" crates/capi/install $(CARGO_TARGET_DIR)/library

bench-library: ## hits in C++ beside Rust, an LRU with a mutex and TBB's (libtbb-dev); ENTRIES=20000
	$(CARGO) build --locked --profile library --package cellar-capi --lib --example hits
	crates/capi/cxx/bench/run $(CARGO_TARGET_DIR)/library

PACKAGES := $(CARGO_TARGET_DIR)/package

# A program without libraries runs anywhere; by glibc, whose allocator gives memory back as the engine
# tells it to. The target is named so that what runs while it is built is not linked like this; it is
# this machine's, or another one's: TARGET=aarch64-unknown-linux-gnu.
TARGET = $(shell rustc -vV | sed -n 's/^host: //p')
STATIC = --target $(TARGET) --config 'target.$(TARGET).rustflags=["-C","target-feature=+crt-static"]'
PACKAGED = $(CARGO_TARGET_DIR)/$(TARGET)/release
FOR_TARGET = packaging/for $(TARGET)
ARM = aarch64-unknown-linux-gnu

# What a release was compiled by, beside it; PROFILE=FILE takes an earlier one.
PROFILE = $(PACKAGES)/cellar-$(TARGET).profdata

# The folder is made anew: what stands in it is the release. The load generator comes alone.
package: compilers ## a release in target/package: tar, .deb, .rpm, image, SBOMs, checksums, compiler's profile
	rm -rf $(PACKAGES)
	$(FOR_TARGET) packaging/build $(TARGET) $(PROFILE)
	$(MAKE) sbom
	$(FOR_TARGET) packaging/package $(PACKAGED)/cellar $(PACKAGES)

package-bench: compilers ## the load generator alone, in target/package/bench: tar and .deb
	$(FOR_TARGET) $(CARGO) build --release $(BENCH) --package cellar-bench $(STATIC)
	$(FOR_TARGET) packaging/package $(PACKAGED)/cellar-bench $(PACKAGES)/bench cellar-bench

package-library: library ## the near cache for C and C++, in target/package/library: .deb and .rpm
	packaging/package $(CARGO_TARGET_DIR)/library $(PACKAGES)/library cellar-near

package-twice: compilers ## whether packing the same sources from nothing again gives the same bytes
	packaging/twice $(CARGO_TARGET_DIR)/twice

# The link of a release, of what the tests have compiled: seconds, not minutes.
smoke: ## links the server statically, packs it as .deb, starts both
	packaging/static $(CARGO_TARGET_DIR)/smoke/cellar
	packaging/smoke $(CARGO_TARGET_DIR)/smoke/cellar $(CARGO_TARGET_DIR)/smoke/package

# The server's own tests start hundreds of servers, for which an emulator is too slow: of it the packed
# program is started, asked and stopped.
cross-test: compilers ## for aarch64, by qemu: tests of engine, protocols, near client, server; a package that starts
	packaging/for $(ARM) $(CARGO) test --locked --target $(ARM) --lib \
		--package cellar-engine --package cellar-values --package cellar-protocol --package cellar-script --package cellar-near \
		--package cellar-system --package cellar-config --package cellar-net --package cellar-cluster --package cellar-shared \
		--package cellar-execute --package cellar
	$(MAKE) package TARGET=$(ARM) PACKAGES=$(CARGO_TARGET_DIR)/$(ARM)/package FORMS="deb tar image"
	packaging/for $(ARM) packaging/smoke $(CARGO_TARGET_DIR)/$(ARM)/release/cellar \
		$(CARGO_TARGET_DIR)/$(ARM)/smoke

chart-test: ## the Helm chart: each set of values, and those that are refused (needs helm and kubeconform)
	$(CARGO) build --release --locked --package cellar
	deploy/helm/test $(RELEASE)/cellar

package-test: ## install, upgrade, start and remove what `make package` has made (as root)
	packaging/test $(PACKAGES)

release: ## VERSION=1.2.3: write it to all its places and CHANGELOG.md, commit, tag; sends nothing
	packaging/release $(or $(VERSION),$(error VERSION=1.2.3 is missing))

libraries: compilers ## crates and Maven modules as they are published, in target/libraries
	packaging/libraries $(CARGO_TARGET_DIR)/libraries

sbom: compilers ## what server and Java client are made of, as CycloneDX, in target/package
	packaging/sbom $(PACKAGES)

tools: ## install what the tests need: Debian and Python packages, if missing
	.ci/install --all

check: lints ## formatting, lints, dependencies, layers, house rules
	$(CARGO) test --locked --quiet --package cellar-tidy

# Under the tests' profile build scripts and macros are the same as theirs: what there is of them is
# taken over by the first run. Links do for what no compiler changes in its place.
lints:
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path bench/Cargo.toml --all --check
	@[ -d $(LINTS)/debug ] || [ ! -d $(CARGO_TARGET_DIR)/debug/build ] || { \
		mkdir -p $(LINTS)/debug; cd $(CARGO_TARGET_DIR)/debug; \
		find deps -name '*.so' -o -name '*.rlib' -o -name '*.rmeta' | \
			xargs cp -al --parents --target-directory=$(LINTS)/debug; \
		cp -a .fingerprint build $(LINTS)/debug; }
	CARGO_TARGET_DIR=$(LINTS) \
		$(CARGO) clippy --locked --profile test --workspace --all-targets -- -D warnings
	deny/check

# Which groups there are, and which tests each has: crates/runner and tests.tsv.
RUNNER := $(CARGO_TARGET_DIR)/debug/runner

test: compilers ## what to run before each push: lints, Rust, Java, examples, real clients; T=word: Rust tests by name
	@$(CARGO) build --locked --quiet --package cellar-runner
	@$(RUNNER) $(if $(T),word $(T),test)

test-all: compilers ## that, and the deep tier: all real clients, browser, etcd, networks, packages; before a release
	@$(CARGO) build --locked --quiet --package cellar-runner
	@$(RUNNER) all

java: tools build ## Cellar's Java client and other Java clients, tested against the server
	foreign-clients/run --only java_client --only java --only java_redis

clients: tools build ## all real clients' tests against the server
	foreign-clients/run

clients-all: tools build ## that, and all libraries of docs/guide/libraries.md, which is written anew
	foreign-clients/run
	foreign-clients/libraries/run

# Checkouts of the suites stand in a folder, each under the name that foreign-clients/suites has for it.
SUITES ?=
peers-suites: build ## test suites of Valkey, Tair, memcached and of clients in SUITES=DIR; ARGS="--only tair"
	foreign-clients/suites --cellar $(RELEASE)/cellar --all $(or $(SUITES),$(error SUITES=DIR is missing)) \
		$(ARGS)

conformance: ## replay the transcripts in conformance/
	$(CARGO) test --locked --package cellar --test server conformance::

check-java: tools build ## local copies of the Java client under faults, CHECK_SECONDS (300) each, twice: once a server, then clusters in a file and in etcd
	mvn -q -B -f java/pom.xml -pl client test -Dcellar.check.seconds=$(CHECK_SECONDS) \
		-Dtest='LocalCacheCheckTest,SlotLocalCacheCheckTest,EtcdLocalCacheCheckTest'

hostile: ## the kept corpus and random bytes into codecs, execution, scripts, engine; seconds
	CELLAR_FUZZ_SECONDS=$(HOSTILE_SECONDS) $(CARGO) test --locked --package cellar --test server hostile::
	CELLAR_FUZZ_SECONDS=$(HOSTILE_SECONDS) $(CARGO) test --locked --package cellar-protocol --test protocol hostile::

fuzz: ## the same guided by coverage (nightly), FUZZ_SECONDS (3600) each; the corpus grows
	rustup component add --toolchain nightly rust-src
	FUZZ_SECONDS=$(FUZZ_SECONDS) fuzz/run $(FUZZ_TARGETS)

soak: tools build ## all sizes, crowds, schedules, 100 stops, an hour of kills, 20 rounds of faults in a cluster; the random tests SOAK_ROUNDS (10) times
	mvn -q -B -f java/pom.xml -pl client test -Dtest=ReplicationModelTest -Dcellar.schedules=200000
	CELLAR_MATRIX=full CELLAR_BIN=$(RELEASE)/cellar \
		$(CARGO) test --locked --package cellar --test server -- size_matrix:: hostile_clients:: \
		--nocapture --test-threads=1
	CELLAR_TEST_STOPS=100 CELLAR_BIN=$(RELEASE)/cellar \
		$(CARGO) test --locked --package cellar --test server clean_stop
	CELLAR_TEST_KILL_SECONDS=3600 $(CARGO) test --locked --package cellar-engine --test engine killed::
	CELLAR_TEST_KILLS=300 CELLAR_BIN=$(RELEASE)/cellar \
		$(CARGO) test --locked --package cellar --test server restart
	CELLAR_TEST_FAULTS=20 CELLAR_BIN=$(RELEASE)/cellar \
		$(CARGO) test --locked --package cellar --test server cluster_ -- --nocapture
	CELLAR_COMPLEXITY=full CELLAR_BIN=$(RELEASE)/cellar \
		$(CARGO) test --locked --package cellar --test server complexity:: -- --nocapture
	for round in $$(seq $(SOAK_ROUNDS)); do \
		export TEST_SEED=$$(od -An -N4 -tu4 /dev/urandom | tr -d ' '); \
		export PROPTEST_RNG_SEED=$$TEST_SEED; \
		foreign-clients/run --only differential --only http_api; \
		$(CARGO) test --locked --package cellar-engine --test engine model::; \
	done

compare: tools build ## the server, memcached, redis-server and an echo floor under the same load
	PART=compare FORCE=1 QUICK="$(QUICK)" bench/run.sh $(ARGS)

bench: tools build ## all measurements and their pages; PART="threads growth" some, QUICK=1 keeps nothing
	PART="$(PART)" QUICK="$(QUICK)" FORCE="$(FORCE)" FULL="$(FULL)" TRACES="$(TRACES)" bench/run.sh $(ARGS)

instructions: ## whether an operation of the engine takes more instructions than before (a part of test-all; valgrind; a minute)
	$(CARGO) build --release --locked --package cellar-engine --example operations
	bench/instructions $(CARGO_TARGET_DIR)/release check

docs: ## write the generated pages in docs/ anew, then the API pages
	$(CARGO) run $(BENCH) --quiet --package cellar-bench -- pages
	CELLAR_BLESS=1 $(CARGO) test --locked --package cellar-protocol --test protocol commands_page::
	CELLAR_BLESS=1 $(CARGO) test --locked --package cellar --test server -- docs:: complexity::the_page
	CELLAR_BLESS=1 $(CARGO) test --locked --package cellar-capi --test header
	$(CARGO) doc --locked --workspace --no-deps

site: ## the documentation as a web site in target/site, with rustdoc and Javadoc; API=no: without them
	packaging/site $(CARGO_TARGET_DIR)/site

# Under Miri only what is quick enough: the modules of the engine's own tests, and these.
MIRI_TESTS := handles:: optimistic:: stress:: model:: tests::

miri: ## the engine's unit, handle, model and stress tests under Miri (nightly; an hour)
	rustup component add --toolchain nightly miri rust-src
	MIRIFLAGS=-Zmiri-disable-isolation PROPTEST_CASES=2 $(CARGO) +nightly miri test \
		--package cellar-engine --lib --test engine -- $(MIRI_TESTS)

tsan: ## threads on one cache under ThreadSanitizer (nightly; 4 minutes)
	rustup component add --toolchain nightly rust-src
	RUSTFLAGS=-Zsanitizer=thread $(CARGO) +nightly test -Zbuild-std \
		--target x86_64-unknown-linux-gnu --package cellar-engine --test engine -- optimistic:: stress::

loom: ## flags and counts that order memory, in every order of two threads (seconds)
	RUSTFLAGS="--cfg cellar_loom" CARGO_TARGET_DIR=$(CARGO_TARGET_DIR)/loom $(CARGO) test --locked \
		--package cellar-engine --package cellar-near --no-default-features --test loom

# What the tests of sections are worth: in this build a section claims nothing.
torn: TORN := $(CARGO) test --locked --package cellar --test server linearizable::what_clients
torn: export CARGO_TARGET_DIR := $(CARGO_TARGET_DIR)/torn
torn: export RUSTFLAGS := --cfg cellar_torn
torn: ## whether the linearizability check finds sections that are no single step (minutes, it compiles)
	$(TORN) --no-run
	! $(TORN)

# The compiler of C traps what UndefinedBehaviorSanitizer finds, so that no second runtime is linked.
# Lua wraps around where it looks up a number as an index; the result is compared without a sign.
# What is freed is kept from use for a while, but not so much that it looks like memory that leaks.
asan: export CARGO_TARGET_DIR := $(CARGO_TARGET_DIR)/asan
asan: export RUSTFLAGS := -Zsanitizer=address
asan: export ASAN_OPTIONS := quarantine_size_mb=16
asan: export CFLAGS := -fsanitize=address,undefined -fno-sanitize=signed-integer-overflow \
	-fsanitize-undefined-trap-on-error -fno-omit-frame-pointer
asan: NIGHTLY := +nightly test --locked --target x86_64-unknown-linux-gnu --package cellar
asan: ## the server with Lua's C code under AddressSanitizer and UBSan (nightly; 10 minutes)
	$(CARGO) $(NIGHTLY) --test server -- resp_script collections
	$(CARGO) $(NIGHTLY) --test server -- hostile::

# The programs in C++ are compiled for the sanitizer too. Its runtime is that of g++ for addresses,
# which has the same interface as Rust's.
asan-library: ## the tests in C and C++ with library and programs under AddressSanitizer (nightly)
	CARGO_TARGET_DIR=$(CARGO_TARGET_DIR)/asan RUSTFLAGS=-Zsanitizer=address CELLAR_SANITIZE=address \
		$(CARGO) +nightly test --locked --target x86_64-unknown-linux-gnu --package cellar-capi \
		--test cxx

tsan-library: ## the same under ThreadSanitizer (nightly), the standard library too
	rustup component add --toolchain nightly rust-src
	CARGO_TARGET_DIR=$(CARGO_TARGET_DIR)/tsan RUSTFLAGS=-Zsanitizer=thread CELLAR_SANITIZE=thread \
		$(CARGO) +nightly test --locked -Zbuild-std --target x86_64-unknown-linux-gnu \
		--package cellar-capi --test cxx

ci: ## what continuous integration runs
	.ci/run

.PHONY: help compilers build run library install-library bench-library package package-bench package-library package-twice smoke cross-test package-test chart-test release libraries sbom tools check lints test test-all java clients clients-all peers-suites conformance check-java hostile fuzz soak bench compare instructions docs site miri tsan loom asan asan-library tsan-library ci torn
