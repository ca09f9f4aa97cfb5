# The common tasks by name. Everything else is CMake presets: release, asan, tsan, arm64, fuzz (CMakePresets.json).
.PHONY: help demo test test-all build install clean
PREFIX ?= /usr/local

help:
	@echo 'make demo      install what is missing, build, answer three prompts with the model in this repository'
	@echo 'make test      the tests that every change must pass (at most ten minutes on two cores)'
	@echo 'make test-all  the whole test suite (more than two hours on two cores)'
	@echo 'make build     build the program, the library and the manual, without the tests'
	@echo 'make install   build and install it below PREFIX ($(PREFIX)); DESTDIR is respected'
	@echo 'make clean     remove build/'

demo: ; @tools/demo.sh
test: ; @tools/test.sh
test-all: ; @tools/test.sh all
build: ; @tools/build.sh
# A library is found after ldconfig; a package's staging folder (DESTDIR) is no place of this system.
install: build
	@cmake --install build/release --prefix '$(PREFIX)'
	@if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ] && command -v ldconfig >/dev/null; then ldconfig; fi
clean: ; rm -rf build
