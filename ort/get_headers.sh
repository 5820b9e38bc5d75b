#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Finds onnxruntime's public C headers (interface 24 or newer), and downloads them if necessary. Installs nothing.
#
#     ort/get_headers.sh FOLDER      prints the include folder; if there is none, the reason, and returns 1
#
# Tries in order: $ORT_INCLUDE; FOLDER from an earlier call; the usual system folders; Debian's package
# libonnxruntime-dev, first of the machine's own release, then of experimental and sid, for which it writes a separate
# apt configuration. Set $DEBIAN_MIRROR to a mirror of Debian if the machine's own sources are not Debian's.
set -uo pipefail
oldest=24
[ -n "${1:-}" ] || { echo "usage: ort/get_headers.sh FOLDER" >&2; exit 2; }
folder=$(mkdir -p "$1" && cd "$1" && pwd) || exit 1
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

version_in() { sed -n 's/^#define ORT_API_VERSION \([0-9]*\).*/\1/p' "$1/onnxruntime_c_api.h" 2>/dev/null; }
is_usable() { [ -f "$1/onnxruntime_ep_c_api.h" ] && [ "$(version_in "$1")" -ge "$oldest" ]; }
answer_if_usable() { if is_usable "$1"; then echo "$1" && exit 0; fi; }
give_up() { echo "$1" >&2; exit 1; }

for known in ${ORT_INCLUDE:+"$ORT_INCLUDE"} "$folder/usr/include/onnxruntime" /usr/include/onnxruntime \
  /usr/local/include/onnxruntime; do
  answer_if_usable "$known"
done
command -v apt-get >/dev/null && command -v dpkg >/dev/null || give_up "no apt here; set ORT_INCLUDE"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"

# download [APT OPTION...]: downloads the package with these options of apt and unpacks it into the folder. If the
# headers are usable, prints their folder and ends the script.
download() {
  (cd "$work" && rm -f ./*.deb && apt-get -qq "$@" download libonnxruntime-dev) >/dev/null 2>&1 || return
  rm -rf "${folder:?}/usr"
  dpkg -x "$work"/libonnxruntime-dev_*.deb "$folder"
  answer_if_usable "$folder/usr/include/onnxruntime"
}

debian_mirror() {
  [ -z "${DEBIAN_MIRROR:-}" ] || { echo "$DEBIAN_MIRROR"; return; }
  grep -qs '^ID=debian' /etc/os-release || return
  cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | grep -oE 'https?://[^ ]+' | grep -v security |
    grep -E '/debian/?$' | head -1
}

download
mirror=$(debian_mirror)
[ -n "$mirror" ] && [ -f "$keyring" ] || give_up "no Debian mirror or keyring; set DEBIAN_MIRROR or ORT_INCLUDE"
for suite in experimental sid; do
  state=$work/$suite
  mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
  echo "deb [signed-by=$keyring] $mirror $suite main" >"$state/sources"
  settings=(-o "Dir::Etc::SourceList=$state/sources" -o Dir::Etc::SourceParts=- -o "Dir::State::Lists=$state/lists"
    -o Dir::State::Status=/dev/null -o "Dir::Cache=$state/cache" -o "APT::Default-Release=$suite"
    -o APT::Sandbox::User=root -o Acquire::Check-Valid-Until=false)  # a mirror may be out of date; apt still checks signatures
  apt-get -qq "${settings[@]}" update >/dev/null 2>&1 && download "${settings[@]}"
done
give_up "libonnxruntime-dev with interface $oldest or newer is nowhere to be had; set ORT_INCLUDE"
