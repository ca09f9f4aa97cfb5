#!/usr/bin/env bash
# The archive for Windows among the files of a release. usage: windows.sh OUT [VERSION], which is the checkout's
set -euo pipefail
exec "$(dirname "$0")/../windows.sh" zip "$1"
