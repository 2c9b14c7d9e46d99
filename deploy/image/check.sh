#!/usr/bin/env bash
# Builds the image from the Dockerfile and runs it, on a machine that has no container service and reaches no registry:
# buildah in a chroot, on a Debian that debootstrap makes. As root, on Debian or Ubuntu:
#   apt-get install buildah debootstrap
#   deploy/image/check.sh [options of `buildah build`, such as --secret id=pip.conf,src=/etc/pip.conf]
# WORK keeps the bases (default: a temporary folder), MIRROR is where debootstrap finds Debian. Takes about five minutes.
set -euo pipefail
cd "$(dirname "$0")/../.."

export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
MIRROR=${MIRROR:-http://deb.debian.org/debian}
temporary=
if [[ -z ${WORK:-} ]]; then
  temporary=yes
  WORK=$(mktemp -d)
  trap 'rm -rf --one-file-system "$WORK"' EXIT
fi
IMAGE=localhost/trainfleet-exporter:check
fail() { echo "FAILED: $*" >&2; exit 1; }
told() { echo "ok: $*"; }

# What stand in for python:slim: a builder that can make environments, and a base that can only run Python.
there() { buildah inspect --type image "localhost/$1" >/dev/null 2>&1; }
base() { # base NAME PACKAGES
  there "$1" && return
  debootstrap --variant=minbase --include="$2" bookworm "$WORK/$1" "$MIRROR" >"$WORK/$1.log"
  rm -rf "$WORK/$1"/var/cache/apt/archives/*.deb "$WORK/$1"/var/lib/apt/lists/*
  local container
  container=$(buildah from scratch)
  buildah copy -q "$container" "$WORK/$1" / >/dev/null
  buildah commit -q --rm "$container" "localhost/$1" >/dev/null
}
base check-builder python3,python3-venv,ca-certificates
base check-base python3,ca-certificates

! there trainfleet-exporter:check || buildah rmi "$IMAGE" >/dev/null  # or each run leaves one without a name
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
buildah build -q --format docker -t "$IMAGE" --build-arg BUILDER=localhost/check-builder --build-arg BASE=localhost/check-base \
  --build-arg REVISION="$revision" "$@" . >/dev/null
told "built"

size() { buildah images --json "$1" | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["size"])'; }
told "size: $(size "$IMAGE"), of which the base $(size localhost/check-base)"

buildah inspect --type image "$IMAGE" >"$WORK/image.json"
python3 - "$WORK/image.json" "$revision" <<'PYTHON'
import json, pathlib, sys
config = json.loads(pathlib.Path(sys.argv[1]).read_text())["Docker"]["config"]
assert config["User"] == "65532:65532", config["User"]
assert config["Healthcheck"]["Test"] == ["CMD", "trainfleet-exporter", "healthcheck"], config["Healthcheck"]
assert config["Entrypoint"] == ["trainfleet-exporter"], config["Entrypoint"]
assert config["Labels"]["org.opencontainers.image.revision"] == sys.argv[2], config["Labels"]
PYTHON
told "user, health check, entry point and labels"

container=$(buildah from "$IMAGE")
root=$(buildah mount "$container")
daemon=
cleanup() {
  [[ -z $daemon ]] || kill "$daemon" 2>/dev/null || true
  ! mountpoint -q "$WORK/run" || umount -R "$WORK/run"
  buildah umount "$container" >/dev/null
  buildah rm "$container" >/dev/null
  [[ -z $temporary ]] || rm -rf --one-file-system "$WORK"
}
trap cleanup EXIT

left=$(find "$root" -xdev -regextype posix-extended \
  -regex '.*/(pip([0-9.-][^/]*)?|pip[.]conf|setuptools[^/]*|hatchling[^/]*|[.]cache|bin/(gcc|cc|g[+][+]|c[+][+]|make)[^/]*|.*[.]whl)' -print)
[[ -z $left ]] || fail "left in the image: $left"
told "no pip, no cache, no compiler, no settings of pip left"

# Read-only, as a user that nobody knows, with /proc and an empty /dev only: what a strict container gives.
mkdir -p "$WORK/run"
mount --bind "$root" "$WORK/run"
mount -o remount,bind,ro "$WORK/run"
mount -t proc proc "$WORK/run/proc"
mount -t tmpfs -o size=1m tmpfs "$WORK/run/dev"
mknod -m 0666 "$WORK/run/dev/null" c 1 3
mknod -m 0444 "$WORK/run/dev/urandom" c 1 9
ln -s /proc/self/fd "$WORK/run/dev/fd"
mapfile -t environment < <(python3 -c 'import json, sys; print(*json.load(sys.stdin)["Docker"]["config"]["Env"], sep="\n")' <"$WORK/image.json")
inside() { env -i "${environment[@]}" chroot --userspec=65532:65532 "$WORK/run" "$@"; }

if inside python3 -c 'open("/var/lib/trainfleet-exporter/x", "w")' 2>/dev/null; then fail "the root can be written to"; fi
version=$(inside trainfleet-exporter --version)
told "$version, as uid $(inside python3 -c 'import os; print(os.getuid())'), with a read-only root"

other=$(env -i "${environment[@]}" chroot --userspec=4711:4711 "$WORK/run" \
  sh -c 'cd /var/lib/trainfleet-exporter && exec trainfleet-exporter --version') || fail "another user cannot run it"
[[ $other == "$version" ]] || fail "another user gets: $other"
told "any other uid can run it, too"

env -i "${environment[@]}" chroot --userspec=65532:65532 "$WORK/run" trainfleet-exporter demo --web.listen-address=127.0.0.1:10075 \
  >"$WORK/demo.log" 2>&1 &
daemon=$!
url=http://127.0.0.1:10075
for _ in {1..300}; do
  [[ $(inside trainfleet-exporter healthcheck --url=$url/-/ready 2>&1) != healthy ]] || break
  sleep 0.1
done
inside trainfleet-exporter healthcheck >/dev/null || fail "not healthy: $(cat "$WORK/demo.log")"
told "the image's own health check says that the demo is well"
page=$(python3 -c "import urllib.request; print(urllib.request.urlopen('$url/metrics').read().decode())")
[[ $(stat -c %u "/proc/$daemon") == 65532 ]] || fail "the demo runs as uid $(stat -c %u "/proc/$daemon")"
grep -q "revision=\"$revision\"" <<<"$page" || fail "no revision in trainfleet_exporter_build_info"
told "a scrape was answered: $(grep -vc '^#' <<<"$page") series, of which $(grep -c '^trainfleet_job_info' <<<"$page") jobs"
kill "$daemon"
wait "$daemon" || fail "it did not end well: $(cat "$WORK/demo.log")"
daemon=
told "ended by SIGTERM with exit code 0"
