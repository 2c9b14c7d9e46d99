#!/usr/bin/env bash
# Build the image from the Dockerfile and run it, without a container service and without a registry.
# buildah builds in a chroot, on a base that debootstrap makes. Run as root, on Debian or Ubuntu:
#   apt-get install buildah debootstrap
#   deploy/image/check.sh [options of `buildah build`, such as --secret id=pip.conf,src=/etc/pip.conf]
# If a proxy has an authority of its own, pip needs it: -v /etc/ssl/certs:/etc/ssl/certs:ro. So do folders of packages that
# pip.conf names: -v FOLDER:FOLDER:ro.
# WORK is the folder for the bases (default: a temporary folder). MIRROR is the Debian mirror. It takes about five minutes.
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
ok() { echo "ok: $*"; }

# They replace python:slim: the builder can make virtual environments, the base can only run Python.
exists() { buildah inspect --type image "localhost/$1" >/dev/null 2>&1; }
base() { # base NAME PACKAGES
  exists "$1" && return
  debootstrap --variant=minbase --include="$2" bookworm "$WORK/$1" "$MIRROR" >"$WORK/$1.log"
  rm -rf "$WORK/$1"/var/cache/apt/archives/*.deb "$WORK/$1"/var/lib/apt/lists/*
  local container
  container=$(buildah from scratch)
  buildah copy -q "$container" "$WORK/$1" / >/dev/null
  buildah commit -q --rm "$container" "localhost/$1" >/dev/null
}
base check-builder python3,python3-venv,ca-certificates
base check-base python3,ca-certificates

! exists trainfleet-exporter:check || buildah rmi "$IMAGE" >/dev/null  # otherwise each run leaves an untagged image
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
buildah build -q --format docker -t "$IMAGE" --build-arg BUILDER=localhost/check-builder --build-arg BASE=localhost/check-base \
  --build-arg REVISION="$revision" "$@" . >/dev/null
ok "built"

size() { buildah images --json "$1" | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["size"])'; }
ok "size: $(size "$IMAGE"), of which the base $(size localhost/check-base)"

buildah inspect --type image "$IMAGE" >"$WORK/image.json"
python3 - "$WORK/image.json" "$revision" <<'PYTHON'
import json, pathlib, sys
config = json.loads(pathlib.Path(sys.argv[1]).read_text())["Docker"]["config"]
assert config["User"] == "65532:65532", config["User"]
assert config["Healthcheck"]["Test"] == ["CMD", "trainfleet-exporter", "healthcheck"], config["Healthcheck"]
assert config["Entrypoint"] == ["trainfleet-exporter"], config["Entrypoint"]
assert config["Labels"]["org.opencontainers.image.revision"] == sys.argv[2], config["Labels"]
PYTHON
ok "user, health check, entry point and labels"

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
[[ -z $left ]] || fail "the image contains build tools: $left"
ok "no pip, no cache, no compiler and no settings of pip in the image"

python3 - "$root/opt/trainfleet-exporter/sbom.cdx.json" <<'PYTHON' || fail "no usable SBOM in the image"
import json, pathlib, sys
names = {component["name"] for component in json.loads(pathlib.Path(sys.argv[1]).read_text())["components"]}
assert {"httpx", "prometheus_client"} <= names, names
assert not names & {"pip", "setuptools", "hatchling"}, names
PYTHON
ok "the SBOM lists the packages of the image"

data=$(find "$root"/opt/trainfleet-exporter/lib/python3*/site-packages/botocore/data -mindepth 1 -maxdepth 1 -type d -printf '%f\n' | sort)
[[ $data == $'signin\nsso\nsso-oidc\nsts' ]] || fail "botocore has the data of: $data"
ok "botocore has the data of the services that give credentials, and of no others"

# Like a strict container: a read-only root, a user without an account, only /proc and an almost empty /dev.
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

if inside python3 -c 'open("/var/lib/trainfleet-exporter/x", "w")' 2>/dev/null; then fail "the root file system is writable"; fi
version=$(inside trainfleet-exporter --version)
ok "$version, as uid $(inside python3 -c 'import os; print(os.getuid())'), with a read-only root"

other=$(env -i "${environment[@]}" chroot --userspec=4711:4711 "$WORK/run" \
  sh -c 'cd /var/lib/trainfleet-exporter && exec trainfleet-exporter --version') || fail "another user cannot run it"
[[ $other == "$version" ]] || fail "another user gets: $other"
ok "any other uid can run it"

env -i "${environment[@]}" chroot --userspec=65532:65532 "$WORK/run" trainfleet-exporter demo --web.listen-address=127.0.0.1:10075 \
  >"$WORK/demo.log" 2>&1 &
daemon=$!
url=http://127.0.0.1:10075
for _ in {1..300}; do
  [[ $(inside trainfleet-exporter healthcheck --url=$url/-/ready 2>&1) != healthy ]] || break
  sleep 0.1
done
inside trainfleet-exporter healthcheck >/dev/null || fail "not healthy: $(cat "$WORK/demo.log")"
ok "the health check of the image reports a healthy demo"
page=$(python3 -c "import urllib.request; print(urllib.request.urlopen('$url/metrics').read().decode())")
[[ $(stat -c %u "/proc/$daemon") == 65532 ]] || fail "the demo runs as uid $(stat -c %u "/proc/$daemon")"
grep -q "revision=\"$revision\"" <<<"$page" || fail "no revision in trainfleet_exporter_build_info"
ok "one scrape returned $(grep -vc '^#' <<<"$page") series, of which $(grep -c '^trainfleet_job_info' <<<"$page") jobs"
kill "$daemon"
wait "$daemon" || fail "the exit code after SIGTERM is not 0: $(cat "$WORK/demo.log")"
daemon=
ok "SIGTERM ends it with exit code 0"
