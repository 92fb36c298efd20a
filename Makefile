# Two commands: `make demo` (the main job) and `make test`; `make quick` while you work. Each sets up what it needs first and says what it does.

SHELL := /bin/sh
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
# Exactly what tools/lock says, by the hashes there; what is built from source is built by tools of the lock, too.
INSTALL := $(BIN)/python -m pip install --quiet --require-hashes --no-build-isolation
INSTALL_EDITABLE := $(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
DEMO_PACKAGES := python3-venv iproute2 nftables tcpdump stress
TEST_PACKAGES := $(DEMO_PACKAGES) openssh-server openssh-client ethtool tmux procps qemu-system-x86 busybox-static lxc libvirt-clients user-mode-linux build-essential postgresql pi mbw stress-ng bonnie++ iperf fio e2fsprogs util-linux-extra openssl curl zsh
SCREENSHOT_PACKAGES := $(DEMO_PACKAGES) openssh-client ethtool librsvg2-bin pngquant fonts-dejavu-core
BENCH_PACKAGES := $(TEST_PACKAGES) netsniff-ng tshark wireshark-common

.PHONY: demo test quick wheel site test-platforms bench screenshots soak validate fuzz evaluation findings lock clean packages-demo packages-test packages-bench packages-screenshots

demo: packages-demo $(VENV)/.installed
	$(BIN)/labconsole demo

test: packages-test $(VENV)/.installed-test
	$(BIN)/ruff check labconsole tests tools
	$(BIN)/ruff format --check labconsole tests tools
	$(BIN)/lint-imports & $(BIN)/mypy && wait $$!
	$(BIN)/python -m pytest --numprocesses auto tests/unit tests/house
	$(BIN)/python tools/once_more.py --numprocesses 4 --dist loadfile -m "not alone and not platforms" tests/lab
	$(BIN)/python tools/once_more.py -m "alone and not platforms" tests/lab

# Lint, types and the unit tests of the rooms that changed, or of those you name: make quick ROOMS="measure report"
quick: $(VENV)/.installed-test
	$(BIN)/python tools/quick.py $(ROOMS)

# Every platform of the lab at both ends of its range, its faults, a guest at work beside it; and on a further platform, or with
# a further figure, what `make test` proves on one: QEMU's guests, weights and work on a disk under LXC, a loss of 0.1 %.
test-platforms: packages-test $(VENV)/.installed-test
	$(BIN)/python -m pytest -m platforms tests/lab

bench: packages-bench $(VENV)/.installed-test
	$(BIN)/python tools/benchmarks/run.py

# The console on a lab of its own, driven by keys, some three minutes; writes screenshots/.
screenshots: packages-screenshots $(VENV)/.installed-test
	$(BIN)/python tools/screenshots.py $(SCREENSHOT_ARGS)

# Bounded by SOAK_RUNS and SOAK_MINUTES; see docs/reliability.md, whose figures `SOAK_ARGS=--write` renews.
soak: packages-test $(VENV)/.installed-test
	$(BIN)/python tools/soak.py $(SOAK_ARGS)

# Reported against true, on labs of its own and by simulation, an hour; writes docs/validation.md and its CSV files.
# Exit status 1 when a row fails. A part: make validate VALIDATE_ARGS="--out x.md --only simulated --share 0.05"
# Some tables only: make validate VALIDATE_ARGS="--renew jobs --renew flows"
validate: packages-test $(VENV)/.installed-test
	$(BIN)/python tools/validation/run.py $(VALIDATE_ARGS)

# Changed and made-up inputs for every reader of foreign files and words, a minute each: tools/fuzz/README.md. atheris is
# used where it has a wheel for this Python. One target for longer: make fuzz FUZZ_ARGS="captures --seconds 600"
FUZZ_ARGS ?= --all
fuzz: $(VENV)/.installed-test
	@$(INSTALL) --only-binary :all: --requirement tools/lock/fuzz.txt 2>/dev/null || echo "without atheris: no wheel for this Python, or no index"
	$(BIN)/python tools/fuzz/run.py $(FUZZ_ARGS)

# The papers' evaluations on the local lab, an hour each; writes the figures and tables of docs/evaluation.md, or those on work in guests
# with EVALUATION_ARGS=guests; with EVALUATION_ARGS=weights, in twenty minutes, the one on guests that share a link;
# with EVALUATION_ARGS=ring, in five, the one on guests that send to each other; with flows and routes, in half an hour
# each, and isolation, in an hour and a half, those on guests that send and receive, that forward, and that take from each
# other; with delay, in a quarter of an hour, the one on the delay of every packet.
evaluation: packages-test $(VENV)/.installed-test
	$(BIN)/python tools/evaluation.py $(EVALUATION_ARGS)

# What other people's tools, libraries and drivers really do, without labconsole: findings/README.md. Some minutes, not in CI.
findings:
	@failed=; for script in findings/*.sh; do \
	  printf '\n== %s\n' "$$script"; timeout 600 bash "$$script" || failed="$$failed $$script"; \
	done; test -z "$$failed" || { printf '\nno longer as stated:%s\n' "$$failed"; exit 1; }

packages-demo: PACKAGES := $(DEMO_PACKAGES)
packages-test: PACKAGES := $(TEST_PACKAGES)
packages-bench: PACKAGES := $(BENCH_PACKAGES)
packages-screenshots: PACKAGES := $(SCREENSHOT_PACKAGES)
packages-demo packages-test packages-bench packages-screenshots:
	@sh tools/packages.sh $(PACKAGES)

$(VENV)/bin/python:
	@echo "making a virtual environment in $(VENV)"
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml tools/lock/run.txt | $(VENV)/bin/python
	@echo "installing labconsole and the packages it needs into $(VENV)"
	$(INSTALL) --only-binary :all: --requirement tools/lock/run.txt
	$(INSTALL_EDITABLE)
	@touch $@

$(VENV)/.installed-test: pyproject.toml tools/lock/test.txt | $(VENV)/.installed
	@echo "installing labconsole's test tools into $(VENV)"
	$(INSTALL) --requirement tools/lock/test.txt
	@touch $@

# Resolves tools/lock/*.txt anew: the newest versions that pyproject.toml allows. Run make test before you commit them.
lock:
	$(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet uv
	sh tools/lock/renew.sh build/lock/bin/python

# What `pipx install dist/labconsole-*.whl` installs.
wheel: $(VENV)/.installed
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	@rm -rf build

# The documentation to browse: build/site/index.html
site: $(VENV)/.installed-test
	$(BIN)/python -m sphinx -q -W --keep-going -d build/doctrees -c docs . build/site

clean:
	rm -rf $(VENV)
