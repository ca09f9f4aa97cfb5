# Two commands. Everything else is CMake presets: release, asan, tsan, arm64, fuzz (CMakePresets.json).
.PHONY: demo test
demo: ; @tools/demo.sh
test: ; @tools/test.sh
