# Everything a developer does is a target here; `make help` lists them.
# Needed: Go, gcc, make and Python 3. Linters and pytest are fetched at the
# versions pinned below and in requirements-dev.txt, into build/ and .venv/.

GO          ?= go
PYTHON      ?= python3
ifeq ($(origin CC),default)
CC := gcc
endif
VERSION     := $(shell cat VERSION)
STATICCHECK_VERSION := v0.8.2

BUILD  := build
BIN    := bin/stalloc
LIBDIR := python/stalloc/lib
PKGBIN := python/stalloc/bin/stalloc
SHIM   := $(LIBDIR)/libstalloc.so
ENGINE := $(LIBDIR)/libstalloc_engine.so
FAKE   := $(BUILD)/fakecuda/libcuda.so.1
TRACES  = $(sort $(wildcard tests/traces/*.csv.gz))

WARNINGS := -Wall -Wextra -Werror
CFLAGS   ?= -O2 -g
C_CFLAGS := -std=gnu11 -fPIC -pthread $(WARNINGS)
# initial-exec: one thread-local load on the fast path instead of a call into
# the loader; the few bytes used fit in the surplus it keeps for dlopen.
# -fexceptions: an exception thrown in a frame above can pass through ours.
# nodelete: threads and thread-exit handlers outlive a dlclose.
SHIM_CFLAGS  := -D_GNU_SOURCE -fexceptions -fvisibility=hidden -ftls-model=initial-exec
SHIM_LDFLAGS := -shared -Wl,-soname,libstalloc.so -Wl,-z,nodelete -Wl,-z,defs -pthread
SHIM_SRC := $(wildcard cshim/lib/*.c) cuda/driver.c
SHIM_OBJ := $(SHIM_SRC:%.c=$(BUILD)/c/%.o)
# The adapter is compiled where it is used, against the PyTorch there: its sources are
# part of the package.
PUBLIC      := $(wildcard cshim/*.h)
ADAPTER_SRC := $(wildcard cshim/torch/*.cc cshim/torch/*.h cshim/torch/host/crt/*.h) $(PUBLIC)
ADAPTER     := $(patsubst cshim/%,$(LIBDIR)/torch/%,$(ADAPTER_SRC:cshim/torch/%=cshim/%))
FAKE_SRC := $(wildcard tests/fakecuda/*.c)
FAKE_OBJ := $(FAKE_SRC:%.c=$(BUILD)/c/%.o)

# Packages with self-checks: their tests run with the checks compiled in, the engine's only so.
CHECKED := ./engine/... ./baseline/...
# Packages with benchmarks, each of which runs once: go runs them one after the other.
BENCHED  = $(sort $(dir $(shell grep -rl --include=*_test.go --exclude-dir=build --exclude-dir=.venv 'func Benchmark' .)))
# Folders with a Makefile of their own that knows `test`, `race` and `bench`.
C_TESTS := $(dir $(wildcard cshim/test/Makefile))
PY_TESTS := tests/python tests/shim
PY_CODE  := python examples tests packaging

# The NVML headers mark functions deprecated that the binding wraps all the same.
# The go command does not see changes of headers outside a package's folder, so
# their checksum is one of its flags.
HEADERS := $(shell cat cshim/*.h cshim/*/*.h cuda/*.h | cksum | cut -d' ' -f1)
export CGO_CFLAGS ?= -O2 -g -Wno-deprecated-declarations -DSTALLOC_HEADERS=$(HEADERS)

.DEFAULT_GOAL := build

##@ Build

.PHONY: build
build: cli libs $(FAKE) ## build the command line, both libraries and the fake driver

# VERSION holds the version. What cannot read it when it runs has it written in.
.PHONY: stamp
stamp:
	@for f in cshim/stalloc.h python/stalloc/_version.py; do grep -qF '"$(VERSION)"' $$f || \
	  sed -i -E 's/^((#define STALLOC_VERSION|__version__ =) )".*"/\1"$(VERSION)"/' $$f; done

.PHONY: cli
cli: ## build bin/stalloc
	$(GO) build -trimpath -ldflags '-X main.version=$(VERSION) $(GO_LDFLAGS)' -o $(BIN) ./cmd/stalloc
	@install -D $(BIN) $(PKGBIN)

.PHONY: libs
libs: $(SHIM) engine-lib $(ADAPTER) ## build the two libraries the Python package loads

$(PUBLIC:cshim/%=$(LIBDIR)/torch/%): $(LIBDIR)/torch/%: cshim/%
	@mkdir -p $(@D)
	cp $< $@
$(LIBDIR)/torch/%: cshim/torch/%
	@mkdir -p $(@D)
	cp $< $@

$(SHIM_OBJ): C_CFLAGS += $(SHIM_CFLAGS)
# No exception passes through these, and what their locks are given back with would need a library
# of its own in a wheel.
$(filter %/lib/pools.o %/lib/openings.o,$(SHIM_OBJ)): C_CFLAGS += -fno-exceptions
$(SHIM_OBJ): | stamp
$(SHIM): $(SHIM_OBJ)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(SHIM_LDFLAGS) $(LDFLAGS) -o $@ $^ -ldl

# The go command knows best what is out of date, so it always runs.
.PHONY: engine-lib
engine-lib:
	@mkdir -p $(LIBDIR)
	$(GO) build -trimpath -ldflags '-s -w' -buildmode=c-shared -o $(ENGINE) ./cshim/engine
	@rm -f $(ENGINE:.so=.h)

$(FAKE): $(FAKE_OBJ)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -shared -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic -pthread $(LDFLAGS) -o $@ $^

$(BUILD)/c/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(C_CFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

-include $(SHIM_OBJ:.o=.d) $(FAKE_OBJ:.o=.d)

##@ Use

.PHONY: demo
demo: build ## replay the bundled traces through every allocator on the simulated device
	$(BIN) replay $(TRACES)

.PHONY: gpu
gpu: $(if $(shell command -v $(GO)),build) ## GPU tests and the comparison of allocators (needs a GPU and PyTorch; PYTORCH_PATH=checkout: its tests, too)
	@test -e $(SHIM) -a -e $(ENGINE) || { echo 'make gpu: the libraries are not built and there is no Go here; run "make build" where there is and copy $(LIBDIR)' >&2; exit 1; }
	@set -e; for t in $(sort $(wildcard tests/gpu/test_*.py)); do \
	  echo "== $$t"; PYTHONPATH=python $(PYTHON) $$t; done
	$(if $(PYTORCH_PATH),PYTHONPATH=python $(PYTHON) tests/gpu/pytorch_tests.py --checkout $(PYTORCH_PATH))
	PYTHONPATH=python $(PYTHON) examples/compare.py

.PHONY: gpu-features
gpu-features: ## what of PyTorch's memory API and modes works, native beside stalloc (needs a GPU and PyTorch)
	PYTHONPATH=python $(PYTHON) tests/gpu/features.py

.PHONY: gpu-reports
gpu-reports: ## public reports as small programs, under each allocator (ONLY=names, AGAIN=1, LEDGER=file; needs a GPU and PyTorch)
	PYTHONPATH=python $(PYTHON) tests/gpu/reports/run.py $(if $(ONLY),--only $(ONLY)) $(if $(AGAIN),--again) $(if $(LEDGER),--json $(LEDGER))

.PHONY: reports-page
reports-page: ## docs/reports.md, from what gpu-reports has kept
	$(PYTHON) tests/gpu/reports/run.py --page

PREFIX ?= /usr/local

# What is built already is not built again: installing may be another user's.
.PHONY: install
install: $(if $(and $(wildcard $(SHIM)),$(wildcard $(ENGINE)),$(wildcard $(BIN))),,build) ## headers, libraries, pkg-config file and command, below PREFIX (and DESTDIR)
	install -d $(addprefix $(DESTDIR)$(PREFIX)/,bin include lib/pkgconfig)
	install -m 755 $(BIN) $(DESTDIR)$(PREFIX)/bin/
	install -m 644 $(PUBLIC) $(DESTDIR)$(PREFIX)/include/
	install -m 755 $(SHIM) $(ENGINE) $(DESTDIR)$(PREFIX)/lib/
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' cshim/stalloc.pc.in > $(DESTDIR)$(PREFIX)/lib/pkgconfig/stalloc.pc

.PHONY: uninstall
uninstall: ## take away what install has put there
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/,bin/stalloc $(PUBLIC:cshim/%=include/%) lib/libstalloc.so lib/libstalloc_engine.so lib/pkgconfig/stalloc.pc)

##@ Check

.PHONY: test
test: build ## every test that needs no GPU; one failure stops no other part
	@$(MAKE) --no-print-directory --keep-going --jobs=3 --output-sync=target test-go test-c test-python

.PHONY: test-go
test-go: build
	@bad=0; $(GO) test $$($(GO) list ./... | grep -v '^stalloc/engine/') || bad=1; \
	  $(GO) test -tags invariants $(CHECKED) || bad=1; \
	  out=$$($(GO) test -run '^$$' -bench . -benchtime 1x $(BENCHED) 2>&1) || { echo "$$out"; bad=1; }; exit $$bad

.PHONY: test-c
test-c: build
	@set -e; for d in $(C_TESTS); do $(MAKE) -C $$d test; done

.PHONY: test-python
test-python: build .venv/ready
	PYTHONPATH=python .venv/bin/python -m pytest -q $(PY_TESTS)

.PHONY: report-test
report-test: cli .venv/browser ## look at reports in a headless browser
	.venv/bin/python -m pytest -q tests/report

.PHONY: report-bench
report-bench: cli .venv/browser
	.venv/bin/python tests/report/bench.py

.PHONY: race
race: build ## Go and C tests under the race detectors
	$(GO) test -race -timeout 60m ./...
	@set -e; for d in $(C_TESTS); do $(MAKE) -C $$d race; done

.PHONY: stress
stress: build ## a minute of the random campaign, and threads that request the same again and again
	@set -e; for d in $(C_TESTS); do $(MAKE) -C $$d stress; done

.PHONY: campaign
campaign: build ## ten minutes of random runs with fault injection over the fake driver (CAMPAIGN_SECONDS=, CAMPAIGN_REQUESTS=, SEED=)
	$(MAKE) -C cshim/test campaign

.PHONY: bench
bench: build ## microbenchmarks, with nanoseconds and allocations
	$(GO) test -run '^$$' -bench . -benchmem ./...
	@set -e; for d in $(C_TESTS); do $(MAKE) -C $$d bench; done
	@$(MAKE) --no-print-directory report-bench

.PHONY: same
same: cli ## whether every recording is served as by another commit, byte for byte (BASE=commit, TRACES_MORE=, FLAGS=--quick)
	$(PYTHON) tests/same.py $(or $(BASE),$(error no commit is named: make same BASE=commit)) $(TRACES_MORE) $(FLAGS)

.PHONY: programs
programs: ## a thousand programs made up at random, through stalloc and expandable segments (PROGRAMS=, FROM=)
	$(GO) run ./tests/programs/bench -n $(or $(PROGRAMS),1000) -from $(or $(FROM),1)

.PHONY: bench-plan
bench-plan: cli ## solvers of storage allocation on hard, published, recorded and made-up problems (MINIMALLOC=its binary)
	$(PYTHON) tests/bench_plan.py $(if $(MINIMALLOC),--minimalloc $(MINIMALLOC))

.PHONY: bench-moea
bench-moea: build/moea-venv/ready ## MaOEA-CS beside pymoo's algorithms on MaF and DTLZ: hours of a core; goes on where it was (JOBS=1 OBJECTIVES=5 SEEDS=11 ALGORITHMS=nsga3)
	CGO_ENABLED=0 $(GO) build -o build/moea-bench ./tests/moea/bench
	nice build/moea-venv/bin/python tests/bench_moea.py --objectives $(or $(OBJECTIVES),5,10,15) \
	  --seeds $(or $(SEEDS),11) --jobs $(or $(JOBS),1) $(if $(ALGORITHMS),--algorithms $(ALGORITHMS))
	build/moea-bench table <docs/data/moea.jsonl

.PHONY: bench-tune
bench-tune: cli ## how far the defaults lie from the front of settings, for each recording; goes on where it was (TRACES_MORE=, REPLAYS=10)
	nice $(PYTHON) tests/bench_tune.py --stalloc $(BIN) --replays $(or $(REPLAYS),10) \
	  $(TRACES) $(sort $(wildcard tests/traces/more/*.csv.gz tests/traces/apart/*.csv.gz)) $(TRACES_MORE)
	$(PYTHON) tests/bench_tune.py --table

build/moea-venv/ready:
	$(PYTHON) -m venv build/moea-venv
	build/moea-venv/bin/python -m pip install --quiet --disable-pip-version-check pymoo==0.6.2
	@touch $@

.PHONY: bench-stacks
bench-stacks: ## CPU time that `record --stacks` costs a request (GPU=1: with PyTorch's own part)
	$(PYTHON) tests/bench_stacks.py $(if $(GPU),--gpu)

.PHONY: adapter-headers
adapter-headers: libs ## compile the adapter against PyTorch 2.11 and the newest (VERSIONS=all: each from 2.6 on)
	$(PYTHON) tests/torch_headers.py $(VERSIONS)

.PHONY: lint
lint: lint-go lint-c lint-python ## formatting, static analysis, warnings and the floors

.PHONY: lint-go
lint-go: $(BUILD)/tools/staticcheck-$(STATICCHECK_VERSION)
	@out=$$(git ls-files -co --exclude-standard '*.go' | xargs -r gofmt -l); \
	  test -z "$$out" || { echo "not gofmt'ed (make fmt mends it):"; echo "$$out"; exit 1; }
	$(GO) mod tidy -diff
	$(GO) vet ./...
	$(GO) vet -tags invariants ./...
	$< ./...
	$(GO) test -count=1 ./tests/floors

.PHONY: lint-c
lint-c: $(SHIM) $(FAKE)

.PHONY: lint-python
lint-python: .venv/ready
	.venv/bin/ruff check $(PY_CODE)
	.venv/bin/ruff format --check $(PY_CODE)
	cd python && ../.venv/bin/mypy

.PHONY: fmt
fmt: .venv/ready ## format Go and Python
	git ls-files -co --exclude-standard '*.go' | xargs -r gofmt -w
	.venv/bin/ruff check --fix $(PY_CODE)
	.venv/bin/ruff format $(PY_CODE)

# Installed under its version's name, so that a new pin is a new file.
$(BUILD)/tools/staticcheck-$(STATICCHECK_VERSION):
	GOBIN=$(CURDIR)/$(@D) $(GO) install honnef.co/go/tools/cmd/staticcheck@$(STATICCHECK_VERSION)
	mv $(@D)/staticcheck $@

.venv/ready: requirements-dev.txt
	test -x .venv/bin/python || $(PYTHON) -m venv .venv
	.venv/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

include packaging/wheel.mk

# Chromium comes from the system: from Debian's packages if there is none.
.venv/browser: tests/report/requirements.txt .venv/ready
	.venv/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	command -v chromium || command -v chromium-browser || command -v google-chrome || \
	  { apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium; }
	@touch $@

##@ Documentation

.PHONY: docs
docs: .venv/docs ## the documentation as a site, in build/site; every warning is an error
	.venv/bin/mkdocs build --quiet --strict

.PHONY: plots
plots: cli .venv/docs .venv/browser ## draw the figures of README and docs from docs/data
	$(BIN) report --blocks 1 -o $(BUILD)/places.html tests/traces/llama_recompute.csv.gz
	$(BIN) report -o $(BUILD)/varlen.html tests/traces/llama_varlen.csv.gz
	.venv/bin/python docs/plots/plots.py --report $(BUILD)/places.html
	.venv/bin/python docs/plots/screenshot.py $(BUILD)/varlen.html docs/report.png

.PHONY: versions
versions: libs $(FAKE) ## compile and run the adapter for PyTorch 2.6 to the newest (downloads a GB each), and list them in the docs
	$(PYTHON) tests/torch_headers.py $(or $(VERSIONS),all) --json docs/data/versions.jsonl
	$(PYTHON) docs/plots/versions.py

.PHONY: figures
figures: $(if $(shell command -v $(GO)),cli) ## measure what docs show, ten minutes of it, and again until it is done (BUDGET=; GPU parts need a GPU and PyTorch)
	$(PYTHON) docs/plots/figures.py --budget $(or $(BUDGET),580)

.PHONY: constants
constants: cli ## what each mechanism buys: every recording with each switched off, into docs/constants.md
	$(PYTHON) docs/plots/constants.py

.PHONY: paper
paper: cli ## the STAlloc paper's allocator over the recordings, into docs/data and docs/paper.md
	$(PYTHON) docs/plots/paper.py

.PHONY: leaderboard
leaderboard: cli ## score simulators on the recordings kept apart, into docs/data and docs/score.md
	$(PYTHON) docs/plots/leaderboard.py

.PHONY: recordings
recordings: cli ## replay the recordings anew, into docs/data and docs/tables.md
	$(PYTHON) docs/plots/recordings.py

.venv/docs: docs/requirements.txt .venv/ready
	.venv/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

##@ Keep house

.PHONY: clean
clean: ## remove everything that was built
	rm -rf bin dist $(BUILD) $(LIBDIR) $(dir $(PKGBIN)) .venv

.PHONY: lines
lines: ## how large the core is, a row a package
	@$(PYTHON) tests/lines.py

.PHONY: module-path
module-path: ## give the Go module the path it is published under: MODULE=github.com/you/stalloc
	packaging/module_path.sh $(or $(MODULE),$(error no path is named: make module-path MODULE=github.com/you/stalloc))

.PHONY: help
help: ## this list
	@awk 'BEGIN {FS = ":.*## "} /^##@ / {print "\n" substr($$0, 5)} /^[a-z-]+:.*## / {printf "  %-11s %s\n", $$1, $$2}' Makefile packaging/wheel.mk
