#!/usr/bin/env bash
# Debian programs that some tests need: installs the missing ones where it may (as root, or sudo without a
# password), else goes on: those tests are then skipped by name, and say what to install.
# Arguments: more of them, as program:package; `make bench` names its own.
set -euo pipefail

# program:package, as in tests/needs.py
wanted=(
  "prometheus:prometheus"
  "promtool:prometheus"
  "prometheus-node-exporter:prometheus-node-exporter"
  "victoria-metrics:victoria-metrics"
  "chromium:chromium"
  "pg_ctlcluster:postgresql"
  "cc:gcc libc6-dev"
  "munged:munge"
  "slurmctld:slurm-wlm"
  "slurmd:slurm-wlm"
  "squeue:slurm-wlm"
)
wanted+=("$@")

missing=()
for entry in "${wanted[@]}"; do
  if ! command -v "${entry%%:*}" >/dev/null; then
    read -ra packages <<<"${entry#*:}"
    missing+=("${packages[@]}")
  fi
done
[ "${#missing[@]}" -gt 0 ] || exit 0
mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)

say() { echo "tests/install_programs.sh: $*" >&2; }

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root=(sudo -n)
  else
    say "may not install; some tests are skipped. As root: apt-get install --no-install-recommends ${missing[*]}"
    exit 0
  fi
fi
if ! command -v apt-get >/dev/null; then
  say "no apt-get here; some tests are skipped. They need: ${missing[*]}"
  exit 0
fi

# Debian starts a server when its package is installed. The tests start their own on free ports: nothing
# of ours may come to listen on this machine. (policy-rc.d is Debian's way to say so.)
policy=/usr/sbin/policy-rc.d
own_policy=
restore() {
  if [ -n "$own_policy" ]; then "${as_root[@]}" rm -f "$policy"; fi
}
trap restore EXIT
if [ ! -e "$policy" ]; then
  if printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null; then
    own_policy=1
    "${as_root[@]}" chmod 755 "$policy"
  fi
fi

say "installing ${missing[*]}"
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0)
log="$(mktemp)"
if ! { "${apt[@]}" update && "${apt[@]}" install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  say "the installation failed; some tests are skipped"
fi
rm -f "$log"

# Nor at the next boot: only what this run has installed.
if [ -n "$own_policy" ] && [ -d /run/systemd/system ]; then
  for unit in prometheus prometheus-node-exporter postgresql victoria-metrics munge; do
    case " ${missing[*]} " in
      *" $unit "*) "${as_root[@]}" systemctl disable --quiet "$unit.service" 2>/dev/null || true ;;
    esac
  done
fi
