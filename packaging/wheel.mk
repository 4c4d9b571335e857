# The wheel: the libraries and the program are built again, against an old glibc, so that they load
# on every system with that glibc or a later one. The output of `make build` is not touched.

# The same sources give the same wheel.
export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null)

GLIBC := 2.28
# The processor that the wheel is for: x86_64 or aarch64. The adapters for aarch64 need Debian's
# g++-aarch64-linux-gnu; ADAPTERS= leaves them out.
ARCH  ?= x86_64
GOARCH_aarch64 := arm64
GOARCH_x86_64  := amd64
WHEEL := $(BUILD)/wheel
STAGE := $(WHEEL)/source
# The versions of PyTorch for which the wheel has a compiled adapter: all, some, or none. Each is
# downloaded once (about 1 GB) and kept in the user's cache. For other versions the adapter is
# compiled where it is used.
ADAPTERS ?= 2.11 newest
WHEEL_PYTHON := $(CURDIR)/$(WHEEL)/venv/bin/python
DIST  ?= dist
# auditwheel knows only its own processor's names; for another it takes the lowest that fits.
PLAT := $(if $(filter $(ARCH),$(shell uname -m)),manylinux_$(subst .,_,$(GLIBC))_$(ARCH),auto)
FOR_ARCH  := GOARCH=$(or $(GOARCH_$(ARCH)),$(error ARCH is $(ARCH): expected x86_64 or aarch64))
OLD_GLIBC := $(FOR_ARCH) CGO_ENABLED=1 ARCH=$(ARCH) GLIBC=$(GLIBC) ZIG_PYTHON=$(WHEEL_PYTHON) ZIG_GLOBAL_CACHE_DIR=$(CURDIR)/$(WHEEL)/zig
IN_STAGE  := BUILD=$(WHEEL)/$(ARCH) LIBDIR=$(STAGE)/stalloc/lib BIN=$(WHEEL)/stalloc PKGBIN=$(STAGE)/stalloc/bin/stalloc

##@ Package

# Before anything is downloaded.
.PHONY: has-go
has-go:
	@command -v $(GO) >/dev/null || { echo 'make wheel: there is no Go here ($(GO)): install it, or name it: make wheel GO=/usr/local/go/bin/go' >&2; exit 1; }

.PHONY: wheel
wheel: has-go $(WHEEL)/ready stamp ## build dist/stalloc-*.whl for every Linux with glibc 2.28 or later
	rm -rf $(STAGE) $(WHEEL)/raw $(DIST)/stalloc-*.whl && mkdir -p $(STAGE) $(DIST)
	cp -RL python/stalloc python/pyproject.toml python/setup.py python/stalloc.pth python/README.md python/LICENSE $(STAGE)
	rm -rf $(STAGE)/stalloc/bin $(STAGE)/stalloc/lib/*.so $(STAGE)/stalloc/lib/adapters
	find $(STAGE) -name __pycache__ -exec rm -rf {} +
	$(if $(ADAPTERS),$(MAKE) libs $(FAKE) && $(PYTHON) tests/torch_headers.py $(ADAPTERS) --arch $(ARCH) --build $(STAGE)/stalloc/lib/adapters)
	$(OLD_GLIBC) $(MAKE) libs $(IN_STAGE) CC=$(CURDIR)/packaging/zigcc LDFLAGS=-s
	$(FOR_ARCH) CGO_ENABLED=0 $(MAKE) cli $(IN_STAGE) GO_LDFLAGS='-s -w'
	$(WHEEL_PYTHON) packaging/notices.py ./cshim/engine ./cmd/stalloc \
	  "Zig's runtime=$$($(WHEEL_PYTHON) -c 'import ziglang; print(ziglang.__path__[0])')/LICENSE" uPlot=report/assets/uplot/LICENSE > $(STAGE)/NOTICES
	$(WHEEL_PYTHON) packaging/sbom.py $(VERSION) ./cshim/engine ./cmd/stalloc > $(STAGE)/stalloc.cdx.json
	STALLOC_ARCH=$(ARCH) $(WHEEL_PYTHON) -m pip wheel --quiet --no-deps --no-build-isolation \
	  --wheel-dir $(WHEEL)/raw ./$(STAGE)
	PATH=$(dir $(WHEEL_PYTHON)):$$PATH auditwheel repair --only-plat --plat $(PLAT) \
	  --exclude libc10.so --exclude libc10_cuda.so \
	  --wheel-dir $(DIST) $(WHEEL)/raw/stalloc-$(VERSION)-*.whl

# Debian: apt-get install qemu-user-static g++-aarch64-linux-gnu
EMULATOR ?= qemu-$(ARCH)-static -L /usr/$(ARCH)-linux-gnu

.PHONY: emulated-test
emulated-test: wheel ## a wheel for another processor under emulation: C's tests, the adapters' (ARCH=aarch64)
	$(OLD_GLIBC) $(MAKE) $(WHEEL)/$(ARCH)/fakecuda/libcuda.so.1 $(IN_STAGE) CC=$(CURDIR)/packaging/zigcc
	$(OLD_GLIBC) $(MAKE) -C cshim/test emulated CC=$(CURDIR)/packaging/zigcc EMULATOR='$(EMULATOR)' \
	  LIB=$(CURDIR)/$(STAGE)/stalloc/lib OUT=$(CURDIR)/$(WHEEL)/$(ARCH)/ctest FAKE=$(CURDIR)/$(WHEEL)/$(ARCH)/fakecuda/libcuda.so.1
	$(if $(ADAPTERS),$(PYTHON) tests/torch_headers.py $(ADAPTERS) --arch $(ARCH) --build $(STAGE)/stalloc/lib/adapters --emulator '$(EMULATOR)' \
	  --shim $(STAGE)/stalloc/lib/libstalloc.so --driver $(WHEEL)/$(ARCH)/fakecuda/libcuda.so.1)

.PHONY: sdist
sdist: $(WHEEL)/ready stamp ## build dist/stalloc-*.tar.gz, which pip builds the package from
	mkdir -p $(DIST)
	PYTHONPATH=packaging $(WHEEL_PYTHON) -W ignore -c 'import backend; backend.build_sdist("$(DIST)")' >/dev/null

.PHONY: wheel-test
wheel-test: wheel $(FAKE) .venv/ready ## the wheel, installed for another version of Python (WHEEL_PYTHON)
	ADAPTERS='$(ADAPTERS)' .venv/bin/python -m pytest -q tests/wheel

$(WHEEL)/ready: packaging/requirements.txt
	mkdir -p $(@D)
	test -x $(WHEEL_PYTHON) || $(PYTHON) -m venv $(@D)/venv
	$(WHEEL_PYTHON) -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@
