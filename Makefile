# `make run` shows what oneseal does; `make test` proves it. Both install what they need (scripts/need).
.POSIX:
.SUFFIXES:
.PHONY: help run run-fleet test test-k8s-all check bench bench-doc docs soak fuzz interop
SHELL = /bin/sh
CARGO = cargo
# Further words for `oneseal quickstart`, such as ARGS="--replicas 5 --once".
ARGS =
# How many times `make soak` goes through each loop.
SOAK = 200
# Whose tests `make interop` runs: a library, such as LIBRARY=jose, or a language with all of its own, such as
# LIBRARY=go; empty: all of them.
LIBRARY =
# Words for the benches: --quick for short turns.
BENCH =
# How long `make fuzz` looks at each reader, in seconds; `make soak` takes ten minutes for each.
FUZZ = 10

help:
	@echo 'make run     three replicas on one persisted key: mint on each, verify on each, kill one'
	@echo 'make run-fleet  three replicas on a PostgreSQL of their own, and one rotation by hand, step by step'
	@echo 'make test    every test'
	@echo 'make test-k8s-all  the tests with a Kubernetes API server, against each version in tests/kubernetes'
	@echo 'make interop one relying party from outside against three replicas: LIBRARY=jose'
	@echo 'make check   format and lints'
	@echo 'make bench   ratios against raw limits and peers, in release mode, on a quiet machine; BENCH=--quick is shorter'
	@echo '            `make bench-doc` also writes the figures into docs/performance.md'
	@echo 'make docs    the pages of every crate, below target/doc'
	@echo 'make soak    the crash loops, SOAK=$(SOAK) times each, the caches of relying parties, ten minutes of each fuzz target'
	@echo 'make fuzz    FUZZ=$(FUZZ) seconds of each fuzz target'

run:
	@scripts/need build
	@exec $(CARGO) run --locked -p oneseal-server -- quickstart $(ARGS)

run-fleet:
	@TEST_REQUIRE=all scripts/need build postgres
	@$(CARGO) build --locked -q -p oneseal-server
	@scripts/run-fleet "$${CARGO_TARGET_DIR:-target}/debug/oneseal"

# The tests that need real replicas start the binary as it ships, with its own features and no others. Most of what
# they do is wait for a state, so six at a time, where there are fewer processors.
test:
	@scripts/need build test
	$(CARGO) build --locked -p oneseal-server
	@threads=$$(getconf _NPROCESSORS_ONLN); [ "$$threads" -ge 6 ] || threads=6; set -x; \
	RUST_TEST_THREADS=$${RUST_TEST_THREADS:-$$threads} $(CARGO) test --locked --workspace --no-fail-fast

# Not in CI, which has the newest alone. Each version is built once, in minutes; the tests are those whose file begins
# with `kubernetes`.
test-k8s-all:
	@scripts/need build test
	$(CARGO) build --locked -p oneseal-server
	@for version in $$(cd tests/kubernetes && find . -name go.mod | cut -d/ -f2 | sort -V); do \
		scripts/kubernetes $$version >/dev/null || exit; \
		echo "kube-apiserver $$version"; \
		TEST_KUBERNETES=$$version TEST_REQUIRE=all $(CARGO) test --locked --workspace --no-fail-fast --test 'kubernetes*' || exit; \
	done

# A library's hyphen is an underscore in the name of its tests.
interop:
	@scripts/need build interop
	$(CARGO) build --locked -p oneseal-server
	@case '$(LIBRARY)' in \
	node) names=jose ;; \
	go) names='go_oidc go_jose' ;; \
	java) names='nimbus spring' ;; \
	python) names='pyjwt authlib' ;; \
	rust) names=josekit ;; \
	*) names=$$(echo '$(LIBRARY)' | tr - _) ;; \
	esac; \
	filters=; for name in $$names; do filters="$$filters library::$$name::"; done; set -x; \
	TEST_LIBRARY='$(LIBRARY)' $(CARGO) test --locked -p oneseal-tests --test interop -- --nocapture $${filters:-library::} long_lived

check:
	@scripts/need build workspace
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

# Never in CI: it needs two cores for itself. It fails if one figure misses its target or a peer is missing.
bench:
	@scripts/need build bench
	$(CARGO) build --locked --release -p oneseal-server
	$(CARGO) bench --locked -p oneseal-bench --no-fail-fast -- $(BENCH)

bench-doc:
	@$(MAKE) bench BENCH='$(BENCH) --doc'

# Links to private items are for readers of the source; on the published pages they are plain names.
docs:
	@scripts/need build workspace
	RUSTDOCFLAGS='-D warnings -A rustdoc::private_intra_doc_links' $(CARGO) doc --locked --workspace --no-deps

soak:
	@scripts/need build test
	$(CARGO) build --locked -p oneseal-server
	TEST_SOAK=$(SOAK) $(CARGO) test --locked -p oneseal-tests -- soak
	scripts/fuzz 600

# In CI too. What a longer run found is kept by `scripts/fuzz 0 TARGET`.
fuzz:
	@scripts/fuzz $(FUZZ)
