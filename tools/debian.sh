#!/usr/bin/env bash
# Packs the release build, which must be there, as Debian packages into OUT. usage: debian.sh OUT
# CPack's own answer to a shared library is scripts that call ldconfig; Debian's is a trigger, which takes their place.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "$1")
work=$(mktemp -d)
done_with_it() { cmake -B build/release -U CMAKE_INSTALL_LIBDIR >/dev/null; rm -rf "$work"; }
trap done_with_it EXIT
# As Debian has it, so that libraries of two architectures can be installed together; the build's own place comes back.
cmake -B build/release -D CMAKE_INSTALL_LIBDIR="lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)" >/dev/null
(cd build/release && cpack -G DEB -B "$work") >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
library=$(echo "$work"/libllada[0-9]*.deb)
dpkg-deb -R "$library" "$work/library"
rm -f "$work/library/DEBIAN/postinst" "$work/library/DEBIAN/postrm"
echo 'activate-noawait ldconfig' >"$work/library/DEBIAN/triggers"
dpkg-deb --root-owner-group -b "$work/library" "$library" >/dev/null
mkdir -p "$out"
mv "$work"/*.deb "$out"
